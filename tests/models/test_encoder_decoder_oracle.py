"""An encoder and a decoder against `EncoderDecoderModel` of transformers."""

import keras
import numpy as np
import pytest

from keras_bert import BertEncoderDecoder
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.models.conversion.convert import convert
from keras_bert.models.seq2seq.sequence_search import SearchOptions
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

SIZES = dict(
    vocab_size=23,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)
START, END = 2, 3
TEXTS = 12


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A model of transformers and its folder, of weights so large that texts differ."""
    return their_model(tmp_path_factory.mktemp("pair"), initializer_range=0.6)


def their_model(folder, **sizes):
    """Makes a model of transformers with random weights and writes it; returns both."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.BertConfig(**SIZES, **sizes), transformers.BertConfig(**SIZES, **sizes)
    )
    model = transformers.EncoderDecoderModel(config=config).eval()
    model.config.decoder_start_token_id, model.config.eos_token_id = START, END
    model.config.pad_token_id = 0
    with torch.no_grad():  # biases are zero in a fresh model
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return model, folder


def features():
    draw = np.random.default_rng(1)
    ids = draw.integers(4, 23, (TEXTS, 9))
    mask = np.ones_like(ids)
    mask[1, 6:] = 0
    before = draw.integers(4, 23, (TEXTS, 7))
    before[:, 0] = START
    return ids, mask, before


def our_inputs(ids, mask):
    return {
        "input_ids": ids.astype(np.int32),
        "input_mask": mask.astype(np.int32),
        "segment_ids": np.zeros_like(ids, np.int32),
    }


def their_logits(model, ids, mask, before):
    import torch

    with torch.no_grad():
        return model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            decoder_input_ids=torch.tensor(before),
        ).logits.numpy()


def test_their_folder_gives_their_logits(tmp_path):
    # Larger weights multiply the rounding of float32, theirs too, to 4e-5 on some processors.
    model, folder = their_model(tmp_path, initializer_range=0.2)
    ours = BertEncoderDecoder.from_preset(folder)
    assert (ours.start_token_id, ours.end_token_id) == (START, END)
    ids, mask, before = features()
    logits = ours({**our_inputs(ids, mask), "decoder_input_ids": before.astype(np.int32)})
    np.testing.assert_allclose(logits, their_logits(model, ids, mask, before), **ORACLE)


@pytest.mark.parametrize("beams", [1, 3, 5])
def test_searches_find_the_same_pieces(theirs, beams):
    # Without a length penalty: theirs divides by a power of the length, ours as Wu et al. 2016.
    import torch

    model, folder = theirs
    ours = BertEncoderDecoder.from_preset(folder)
    ids, mask, _ = features()
    with torch.no_grad():
        found = model.generate(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            decoder_start_token_id=START,
            eos_token_id=END,
            pad_token_id=0,
            max_new_tokens=10,
            num_beams=beams,
            do_sample=False,
            length_penalty=0.0,
            # What `generate` leaves out; the others then share all of the probability.
            suppress_tokens=[0, START],
            renormalize_logits=True,
            # "never": theirs else guesses when no better one can come.
            early_stopping="never" if beams > 1 else False,
        ).numpy()[:, 1:]
    written = ours.generate(our_inputs(ids, mask), SearchOptions(10, beams, 0.0)).ids[:, 0]
    pieces = [_to_end(row) for row in written.numpy().tolist()]
    assert pieces == [_to_end(row) for row in found.tolist()]
    assert len({len(row) for row in pieces}) > 1, "texts of one length show no end"


def _to_end(row):
    """The pieces up to the end: theirs are padded with the end or with padding."""
    return row[: row.index(END) + 1] if END in row else row


def test_their_tensors_come_back_bit_equal(theirs, tmp_path):
    from safetensors.numpy import load_file

    _, folder = theirs
    checkpoints.write(preset.read_checkpoint(folder), tmp_path, "hf")
    before = load_file(folder / "model.safetensors")
    after = load_file(tmp_path / "model.safetensors")
    # A tied output matrix stands in their file or does not; ours leaves it out.
    tied = {name for name in before if name.startswith("decoder.cls.predictions.decoder.")}
    assert before.keys() - tied == after.keys()
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("decoder", ["bert2bert", "bertshare"])
def test_our_folder_gives_them_our_logits(theirs, decoder, tmp_path):
    import transformers

    _, folder = theirs
    config = preset.read_checkpoint(folder).config.replace(initializer_range=0.02)
    keras.utils.set_random_seed(1)
    ours = BertEncoderDecoder(
        config, decoder, start_token_id=START, end_token_id=END, dtype="float32"
    )
    ours.save_to_preset(tmp_path / "ours")
    (tmp_path / "theirs").mkdir()
    report = convert(tmp_path / "ours", tmp_path / "theirs", "hf")
    assert report.difference is not None and report.difference < 1e-5
    model = transformers.EncoderDecoderModel.from_pretrained(tmp_path / "theirs").eval()
    assert model.config.decoder_start_token_id == START
    ids, mask, before = features()
    logits = ours({**our_inputs(ids, mask), "decoder_input_ids": before.astype(np.int32)})
    np.testing.assert_allclose(their_logits(model, ids, mask, before), logits, **ORACLE)
