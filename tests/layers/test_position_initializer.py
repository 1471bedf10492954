"""Start values of the position table."""

import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder
from keras_bert.layers.initializer import Sinusoids

CONFIG = BertConfig(
    vocab_size=10,
    hidden_size=4,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=8,
    max_position_embeddings=3,
    initializer_range=0.05,
    position_initializer="sinusoids",
)


def test_the_table_of_an_encoder_by_hand():
    table = BertEncoder(CONFIG).get_layer("embeddings").position_embeddings.numpy()
    # Angles of positions 0, 1, 2: 0, 1, 2 and, slower by the root of 1000 = 31.6228, 0, 0.0316228,
    # 0.0632456. Two sines, two cosines, times 0.05 x 1.414214 = 0.0707107.
    expected = [
        [0, 0, 0.0707107, 0.0707107],
        [0.0595010, 0.0022357, 0.0382051, 0.0706753],
        [0.0642970, 0.0044692, -0.0294260, 0.0705693],
    ]
    np.testing.assert_allclose(table, expected, atol=2e-7)


def test_the_standard_deviation_is_that_of_the_other_tables():
    table = np.asarray(Sinusoids(0.02)((512, 64)))
    assert np.sqrt((table**2).mean()) == pytest.approx(0.02, rel=1e-3)
    assert Sinusoids(0.02)((5, 7)).shape == (5, 7)


def test_files_of_others_do_not_name_it_and_ours_do():
    assert BertConfig.from_dict(CONFIG.to_dict()).position_initializer == "sinusoids"
    assert not {"position_initializer"} & {*CONFIG.to_dict("hf"), *CONFIG.to_dict("google")}
    assert BertConfig().position_initializer == "normal"  # the paper's
    # So that runs and files of before this field are of the same configuration.
    assert "position_initializer" not in BertConfig().to_dict()


def test_an_unknown_name():
    with pytest.raises(ValueError, match="position_initializer is 'sine': choose one of normal, s"):
        BertConfig(position_initializer="sine")
