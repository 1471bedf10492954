"""Which models a run takes its first weights from."""

import pytest

from keras_bert import BertConfig
from keras_bert.pretraining.checks import check_config


def test_trained_weights_are_taken_whatever_they_started_from():
    for start in ({"position_initializer": "sinusoids"}, {"initializer_range": 0.05}):
        check_config("model", BertConfig().to_dict(), BertConfig(**start))
    with pytest.raises(ValueError, match="another configuration than --model .num_hidden_layers"):
        check_config("model", BertConfig().to_dict(), BertConfig(num_hidden_layers=3))
