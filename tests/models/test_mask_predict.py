"""Mask-Predict: its iterations by hand, a model that sees both ways, and folders of it."""

import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoderDecoder, MaskPredictOptions, SearchOptions
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.models import preset
from keras_bert.models.seq2seq.mask_predict import mask_predict
from tests.tolerances import FORMULA, REORDERED

PAD, START, END, MASK = 0, 2, 3, 4
VOCABULARY = 13


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


# --- The iterations, with scripted probabilities --------------------------------------------------


def told(pieces, probabilities):
    """Logits of positions [9, V]: a piece with its probability at each, from the second on."""
    rows = np.zeros((9, VOCABULARY), np.float32)
    for place, (piece, probability) in enumerate(zip(pieces, probabilities, strict=True), 1):
        rows[place] = math.log((1 - probability) / (VOCABULARY - 1))
        rows[place, piece] = math.log(probability)
    return rows


def framed(pieces):
    """What the decoder sees of pieces: nine positions."""
    return [START, *pieces, END, *[PAD] * (7 - len(pieces))]


def test_three_iterations_and_two_lengths_by_hand():
    likely = {5: 2.0, 4: 1.0}
    length_logits = tf.constant([[likely.get(n, 0.0) for n in range(1, 8)]])
    # What is predicted at each iteration for 5 pieces and for 4. Pieces that are not hidden are
    # predicted, too, surely and otherwise, which must change nothing.
    sure = 0.99
    script = [
        (
            told([5, 6, 7, 8, 9], [0.9, 0.4, 0.3, 0.5, 0.8]),
            told([5, 5, 5, 7], [0.5, 0.5, 0.5, 0.7]),
        ),
        (
            told([12, 6, 8, 9, 12], [sure, 0.8, 0.7, 0.6, sure]),
            told([9, 8, 12, 12], [0.9, 0.8, sure, sure]),
        ),
        (
            told([12, 12, 12, 10, 12], [sure, sure, sure, 0.8, sure]),
            told([12, 12, 11, 12], [sure, sure, 0.7, sure]),
        ),
    ]
    shown = []

    def read(ids, visible):
        shown.append((ids.numpy()[0].tolist(), visible.numpy()[0].tolist()))
        return tf.constant(np.stack(script[len(shown) - 1])[None])  # [1, 2, 9, V]

    found = mask_predict(
        read, lambda states: states, length_logits, START, END, PAD, MASK, MaskPredictOptions(3, 2)
    )
    # n = 5, 3, 1 of five pieces and 4, 2, 1 of four: N (3 - t) / 3, rounded down.
    hidden = MASK
    rows = [
        [[hidden] * 5, [hidden] * 4],
        # 0.3, 0.4 and 0.5 of five; the first two of the equal 0.5 of four.
        [[5, hidden, hidden, hidden, 9], [hidden, hidden, 5, 7]],
        # 0.6 of five, the 0.5 that is left of four.
        [[5, 6, 8, hidden, 9], [9, 8, hidden, 7]],
    ]
    assert [ids for ids, _ in shown] == [[framed(row) for row in pair] for pair in rows]
    assert {tuple(map(tuple, visible)) for _, visible in shown} == {
        ((1, 1, 1, 1, 1, 1, 1, 0, 0), (1, 1, 1, 1, 1, 1, 0, 0, 0))
    }
    assert found.ids.numpy().tolist() == [
        [[5, 6, 8, 10, 9, END, PAD, PAD], [9, 8, 11, 7, END, PAD, PAD, PAD]]
    ]
    # The mean prefers five pieces, though the sum of their log probabilities is the lower one.
    five_pieces = math.log(0.9 * 0.8 * 0.7 * 0.8 * 0.8)
    four_pieces = math.log(0.9 * 0.8 * 0.7 * 0.7)
    assert five_pieces < four_pieces and five_pieces / 5 > four_pieces / 4
    np.testing.assert_allclose(found.scores, [[five_pieces / 5, four_pieces / 4]], **FORMULA)


def by_lists(predict, length_logits, iterations, candidates):
    """The same in lists of Python, for one text; `predict` gives log probabilities [W, V]."""
    width, results = len(length_logits) + 2, []
    likely = sorted(range(len(length_logits)), key=lambda index: -length_logits[index])
    for count in [index + 1 for index in likely[:candidates]]:
        row = [START, *[MASK] * count, END, *[PAD] * (width - count - 2)]
        sure = {}
        for iteration in range(iterations):
            wanted = math.floor(count * (iterations - iteration) / iterations + 1e-9)
            places = range(1, count + 1)
            if iteration:
                places = sorted(places, key=lambda place: (sure[place], place))[:wanted]
            for place in places:
                row[place] = MASK
            table = predict(row)
            for place in places:
                row[place] = int(table[place].argmax())
                sure[place] = table[place].max()
        results.append((sum(sure.values()) / count, row[1:]))
    results.sort(key=lambda one: -one[0])
    return results


@pytest.mark.parametrize(("iterations", "candidates"), [(1, 1), (2, 3), (4, 6), (10, 2)])
def test_it_finds_what_the_same_in_python_finds(iterations, candidates):
    """Logits are drawn for every row that can be shown, so each iteration sees others."""
    draw = np.random.default_rng(iterations)
    table = draw.normal(0, 2, (997, 8, VOCABULARY)).astype(np.float32)
    table[..., :5] = -50  # no text
    length_logits = draw.normal(size=(3, 6)).astype(np.float32)
    factors = np.array([13**place % 997 for place in range(8)])

    def read(ids, visible):
        numbers = tf.reduce_sum(ids * tf.constant(factors, tf.int32), axis=-1) % 997  # [B, K]
        return tf.gather(tf.constant(table), numbers)

    found = tf.function(
        lambda lengths: mask_predict(
            read,
            lambda states: states,
            lengths,
            START,
            END,
            PAD,
            MASK,
            MaskPredictOptions(iterations, candidates),
        )
    )(length_logits)

    def predict(row):
        return log_softmax(table[int((np.array(row) * factors).sum() % 997)])

    for text in range(3):
        expected = by_lists(predict, length_logits[text].tolist(), iterations, candidates)
        assert found.ids[text].numpy().tolist() == [ids for _, ids in expected]
        np.testing.assert_allclose(
            found.scores[text], [score for score, _ in expected], **REORDERED
        )


# --- The model ------------------------------------------------------------------------------------

NUMBERS = dict(
    vocab_size=VOCABULARY,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
    initializer_range=0.6,
)
GAPS = dict(decoding="mask_predict", mask_token_id=MASK, max_target_length=6)
IDS = dict(start_token_id=START, end_token_id=END)


@functools.cache
def tiny(decoder="bert2bert", dtype=None):
    """A model with weights large enough that answers differ."""
    keras.utils.set_random_seed(7)
    return BertEncoderDecoder(BertConfig(**NUMBERS), decoder, dtype=dtype, seed=7, **IDS, **GAPS)


def sources():
    ids = np.random.default_rng(3).integers(5, VOCABULARY, (3, 7)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[2, 5:] = 0
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def features(targets=((5, 6, 7, 8), (9, 10), (11, 12, 5)), hidden=((1, 3), (2,), (1, 2, 3))):
    rows = np.zeros((3, 7), np.int32)
    masked = np.zeros_like(rows)
    for row, gaps, target, places in zip(rows, masked, targets, hidden, strict=True):
        row[: len(target) + 2] = [START, *target, END]
        gaps[list(places)] = 1
    mask = (rows != PAD).astype(np.int32)
    decoder = {"decoder_input_ids": rows, "decoder_input_mask": mask, "decoder_masked": masked}
    return {**sources(), **decoder}


def test_a_gap_is_filled_from_both_sides_and_nothing_leaks():
    model, given = tiny(), features()
    outputs = model(given)
    logits = outputs["logits"].numpy()
    assert logits.shape == (3, 7, VOCABULARY) and outputs["length_logits"].shape == (3, 5)
    # What is hidden is not seen; nor is padding; each changes when it should.
    other = given["decoder_input_ids"].copy()
    other[0, [1, 3]] = 12
    other[1, 4:] = 12
    again = model({**given, "decoder_input_ids": other})["logits"].numpy()
    np.testing.assert_array_equal(again[0], logits[0])
    np.testing.assert_array_equal(again[1, :4], logits[1, :4])
    for place in (2, 4):  # before and behind the gap at 3
        other = given["decoder_input_ids"].copy()
        other[0, place] = 12
        again = model({**given, "decoder_input_ids": other})["logits"].numpy()
        assert np.abs(again[0, 3] - logits[0, 3]).max() > 1e-3
    # The length is of the source alone, read at its first position.
    first = model.encoder(sources())["sequence_output"][:, 0].numpy()
    kernel, bias = (weight.numpy() for weight in model.length.weights)
    np.testing.assert_allclose(outputs["length_logits"], first @ kernel + bias, **REORDERED)


@pytest.mark.parametrize(
    "decoder", ["bert2bert", pytest.param("bertshare", marks=pytest.mark.long)]
)
def test_generation_in_a_graph_is_the_loop_over_the_whole_model(decoder):
    model, encoder = tiny(decoder), sources()
    generate = tf.function(
        lambda **inputs: model.generate(inputs, MaskPredictOptions(3, 2)), autograph=False
    ).get_concrete_function(
        **{name: tf.TensorSpec([None, None], tf.int32, name=name) for name in encoder}
    )
    found = generate(**{name: tf.constant(values) for name, values in encoder.items()})
    assert found.ids.shape == (3, 2, 6)
    rows = features()
    whole = tf.function(model)
    length_logits = whole(rows)["length_logits"].numpy()
    for text in range(3):

        def predict(row, text=text):
            one = {name: values[text : text + 1] for name, values in encoder.items()}
            ids = np.array([row], np.int32)
            decoder_inputs = {
                "decoder_input_ids": ids,
                "decoder_input_mask": (ids != PAD).astype(np.int32),
                "decoder_masked": np.zeros_like(ids),  # [MASK] stands in the row
            }
            logits = whole({**one, **decoder_inputs})["logits"].numpy()[0]
            logits[:, [PAD, START, END, MASK]] = -np.inf  # no text
            return log_softmax(logits)

        expected = by_lists(predict, length_logits[text].tolist(), 3, 2)
        assert found.ids[text].numpy().tolist() == [ids for _, ids in expected]
        np.testing.assert_allclose(
            found.scores[text], [score for score, _ in expected], **REORDERED
        )
    empty = {name: tf.constant(values[:0]) for name, values in encoder.items()}
    assert generate(**empty).ids.shape == (0, 2, 6)
    none = model.generate(empty, MaskPredictOptions(3, 2))  # without a graph, too
    assert none.ids.shape == (0, 2, 6) and none.scores.shape == (0, 2)


@pytest.mark.slow
@pytest.mark.half_precision
def test_generation_in_bfloat16():
    model = tiny(dtype="mixed_bfloat16")
    outputs = model(features())
    assert {values.dtype for values in outputs.values()} == {tf.float32}
    found = tf.function(lambda inputs: model.generate(inputs, MaskPredictOptions(2, 2)))(sources())
    assert found.ids.shape == (3, 2, 6) and found.scores.dtype == tf.float32


def test_lengths_keep_their_meaning_where_there_are_others(tmp_path):
    model = tiny()
    bias = np.linspace(-1.0, 1.0, model.length.units, dtype="float32")
    model.length.bias.assign(bias)
    # Logits that differ by several nats from text to text: the bias alone says little.
    kernel = np.random.default_rng(0).normal(0.0, 2.0, model.length.kernel.shape)
    model.length.kernel.assign(kernel)
    model.save_to_preset(tmp_path)
    expected = np.array(model(features())["length_logits"])
    fewer, more = (
        BertEncoderDecoder.from_preset(tmp_path, max_target_length=len(bias) + 1 + n)
        for n in (-1, 3)
    )
    # Products of other shapes, so rounded otherwise.
    np.testing.assert_allclose(fewer(features())["length_logits"], expected[:, :-1], **REORDERED)
    found = np.array(more(features())["length_logits"])
    np.testing.assert_allclose(found[:, :-3], expected, **REORDERED)
    assert np.ptp(expected[:, -1]) > 5
    # All three new ones together, beside the longest known one of the same text.
    np.testing.assert_allclose(
        np.exp(found[:, -3:] - found[:, -4:-3]).sum(axis=-1), np.full(3, 0.01), **REORDERED
    )


def test_it_compiles_with_xla():
    model, options = tiny(), MaskPredictOptions(2, 2)
    expected = model.generate(sources(), options)
    inputs = {name: tf.constant(values) for name, values in sources().items()}
    found = tf.function(lambda inputs: model.generate(inputs, options), jit_compile=True)(inputs)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, **REORDERED)


def test_what_is_never_text_is_never_written():
    model = tiny()
    never = (PAD, START, END, MASK, 7)
    bias = model.masked_lm_bias.weights[0]
    bias.assign(np.where(np.isin(np.arange(bias.shape[0]), never), 50.0, 0.0))  # all would win
    for given, kept in (((7,), never), (None, never[:-1]), ((), never[:-1])):
        ids = np.array(model.generate(sources(), MaskPredictOptions(2, 2, given)).ids)
        texts = [row[: row.index(END)] for row in ids.reshape(-1, ids.shape[-1]).tolist()]
        assert all(texts) and not {piece for text in texts for piece in text} & set(kept)


def test_folders_and_keras_files_come_back(tmp_path):
    model, given = tiny("bertshare"), features()
    outputs = model(given)
    model.save_to_preset(tmp_path)
    again = BertEncoderDecoder.from_preset(tmp_path)
    assert again.head_config() == {"decoder": "bertshare", **IDS, **GAPS}
    model.save(tmp_path / "model.keras")
    for other in (again, keras.saving.load_model(tmp_path / "model.keras")):
        for name, values in other(given).items():
            np.testing.assert_array_equal(values, outputs[name])
    shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
    head = model.head_config()
    assert shapes == variable_shapes(BertConfig(**NUMBERS), "BertEncoderDecoder", head)
    # An autoregressive model starts from it, and has neither lengths nor a decoder both ways.
    causal = BertEncoderDecoder.from_preset(tmp_path, decoding="autoregressive")
    causal.save_to_preset(tmp_path / "causal")
    back = BertEncoderDecoder.from_preset(tmp_path / "causal", **GAPS)
    np.testing.assert_array_equal(
        back.decoder.word_embeddings.embeddings, model.decoder.word_embeddings.embeddings
    )
    assert back.head_config() == model.head_config()
    assert causal.head_config() == {"decoder": "bertshare", **IDS}
    assert not any(weight.path.startswith("length") for weight in causal.weights)
    plain = {name: given[name] for name in (*sources(), "decoder_input_ids")}
    before = causal(plain).numpy()
    changed = plain["decoder_input_ids"].copy()
    changed[0, 3] = 12
    after = causal({**plain, "decoder_input_ids": changed}).numpy()
    np.testing.assert_array_equal(after[0, :3], before[0, :3])
    with pytest.raises(ValueError, match="Mask-Predict, which transformers does not have"):
        checkpoints.write(preset.read_checkpoint(tmp_path), tmp_path, "hf")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mask_token_id": None}, "mask_token_id is None and max_target_length is 6: give the id"),
        ({"max_target_length": 1}, "max_target_length is 1: give the id of"),
        ({"max_target_length": 12}, "one of which is for .CLS.: use at most 11"),
        ({"mask_token_id": 103}, "mask_token_id is 103: it must be from 0 to 12"),
        ({"decoding": "parallel"}, "decoding is 'parallel': choose one of autoregressive"),
    ],
)
def test_models_that_cannot_be_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        BertEncoderDecoder(BertConfig(**NUMBERS), **IDS, **(GAPS | changes))


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="iterations is 0: it must be at least 1"):
        MaskPredictOptions(iterations=0)
    with pytest.raises(
        ValueError, match="length_candidates is 6 but the model has lengths of 1 to"
    ):
        tiny().generate(sources(), MaskPredictOptions(length_candidates=6))
    with pytest.raises(ValueError, match="the options are SearchOptions: give SearchOptions to an"):
        tiny().generate(sources(), SearchOptions(4))
