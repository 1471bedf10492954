import pytest

from keras_bert.data.corpus.documents import Document
from keras_bert.data.creation.create import unit_settings
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.creation.unit_pool import process_units
from keras_bert.data.creation.units import MaskingSettings, Unit


@pytest.mark.parametrize("workers", [1, 2])
def test_what_keeps_a_worker_from_starting_is_told(tmp_path, vocab, workers):
    options = CreationOptions(("a.txt",), str(vocab), str(tmp_path))
    masking = MaskingSettings(20, 1.5, 0.8, 0.1, "token")
    settings = unit_settings(options)._replace(masking=masking)
    units = [Unit(0, number, [Document(0, ["One. Two."])], 1, 10) for number in range(2)]
    with pytest.raises(ValueError, match="masked_lm_prob is 1.5"):
        list(process_units(units, settings, tmp_path, workers))
