"""An encoder and a decoder from one BERT: how they start, what they share, and searched texts."""

import dataclasses
import functools
import itertools
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_bert import BertConfig, BertEncoder, BertEncoderDecoder, BertMaskedLM
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.variables import variable_shapes
from keras_bert.config_keys import ENCODER_DECODER_TYPE
from keras_bert.family_configs import RobertaConfig
from keras_bert.models import preset
from keras_bert.models.masked_lm import load_masked_lm
from keras_bert.models.seq2seq.sequence_search import SearchOptions, beam_search, search
from tests.markers import some_fast
from tests.tolerances import REORDERED

NUMBERS = dict(
    vocab_size=13,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
    initializer_range=0.6,
)
IDS = dict(start_token_id=2, end_token_id=3)
START, END, PAD = 2, 3, 0


@functools.cache  # for tests that change nothing of it
def tiny(decoder="bert2bert", dtype=None, **changes):
    """A model with weights large enough that answers differ."""
    keras.utils.set_random_seed(7)
    return BertEncoderDecoder(
        BertConfig(**(NUMBERS | changes)), decoder, dtype=dtype, seed=7, **IDS
    )


def inputs(decoder_length=6):
    draw = np.random.default_rng(3)
    ids = draw.integers(4, 13, (3, 7)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[2, 5:] = 0
    before = draw.integers(4, 13, (3, decoder_length)).astype(np.int32)
    before[:, 0] = START
    encoder = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    return encoder, before


def weights_of(model):
    return {weight.path: weight.numpy() for weight in model.weights}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A masked language model's folder, and its weights by path."""
    keras.utils.set_random_seed(11)
    model = BertMaskedLM(BertConfig(**NUMBERS))
    model.get_layer("masked_lm_bias").bias.assign(np.arange(13.0))
    folder = tmp_path_factory.mktemp("pretrained")
    model.save_to_preset(folder)
    return folder, weights_of(model)


def test_bert2bert_starts_as_the_checkpoint_twice(pretrained):
    folder, source = pretrained
    model = BertEncoderDecoder.from_preset(folder)
    found = weights_of(model)
    for path, value in source.items():
        np.testing.assert_array_equal(found[path], value)
        if not path.startswith(("pooler", "masked_lm")):
            np.testing.assert_array_equal(found[f"decoder/{path}"], value)
    # Two variables, not one: each learns by itself.
    kernel = model.decoder.get_layer("layer_0").intermediate.kernel
    assert kernel is not model.encoder.get_layer("layer_0").intermediate.kernel


def test_bertshare_adds_cross_attention_alone(pretrained):
    folder, source = pretrained
    model = BertEncoderDecoder.from_preset(folder, decoder="bertshare")
    new = set(weights_of(model)) - set(source)
    names = ("query", "key", "value", "output")
    assert new == {
        *(
            f"decoder/layer_0/cross_attention/{name}/{part}"
            for name, part in itertools.product(names, ("kernel", "bias"))
        ),
        *(f"decoder/layer_0/cross_attention_norm/{part}" for part in ("gamma", "beta")),
    }
    # 4 matrices of 16 x 16 with biases, and a norm.
    assert sum(weights_of(model)[path].size for path in new) == 4 * (256 + 16) + 32
    encoder, before = inputs()
    logits = model({**encoder, "decoder_input_ids": before}).numpy()
    model.encoder.get_layer("layer_0").output_dense.kernel.assign(np.zeros((32, 16)))
    changed = model.decoder.get_layer("layer_0").output_dense.kernel.numpy()
    assert not changed.any()
    assert np.abs(model({**encoder, "decoder_input_ids": before}).numpy() - logits).max() > 0.1


def test_the_random_decoder_takes_nothing_over(pretrained):
    folder, source = pretrained
    found = weights_of(BertEncoderDecoder.from_preset(folder, decoder="random"))
    np.testing.assert_array_equal(found["layer_0/output/kernel"], source["layer_0/output/kernel"])
    for path in ("word_embeddings/embeddings", "layer_0/output/kernel"):
        assert np.abs(found[f"decoder/{path}"] - source[path]).max() > 0.1
    assert not found["masked_lm_bias/bias"].any()


@pytest.mark.parametrize("decoder", ["bert2bert", "bertshare"])
def test_paths_and_shapes_are_known_without_the_model(decoder):
    model = tiny(decoder, num_hidden_layers=2)
    shapes = {path: value.shape for path, value in weights_of(model).items()}
    config = BertConfig(**NUMBERS | {"num_hidden_layers": 2})
    assert shapes == variable_shapes(config, "BertEncoderDecoder", {"decoder": decoder})


@pytest.mark.parametrize("decoder", some_fast(["bert2bert", "bertshare"], ("bertshare",)))
def test_folders_and_keras_files_come_back(decoder, tmp_path):
    model = tiny(decoder)
    encoder, before = inputs()
    features = {**encoder, "decoder_input_ids": before}
    logits = model(features).numpy()
    model.save_to_preset(tmp_path)
    again = BertEncoderDecoder.from_preset(tmp_path)
    assert again.head_config() == {"decoder": decoder, **IDS}
    np.testing.assert_array_equal(again(features), logits)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        keras.saving.load_model(tmp_path / "model.keras")(features), logits
    )
    # The encoder is one like any other.
    np.testing.assert_array_equal(
        BertEncoder.from_preset(tmp_path)(encoder)["sequence_output"],
        model.encoder(encoder)["sequence_output"],
    )


def test_a_position_sees_what_stands_before_it_and_the_real_source():
    model = tiny()
    encoder, before = inputs()
    logits = model({**encoder, "decoder_input_ids": before}).numpy()
    changed = before.copy()
    changed[:, 4] = (changed[:, 4] + 1 - 4) % 9 + 4
    after = model({**encoder, "decoder_input_ids": changed}).numpy()
    np.testing.assert_array_equal(after[:, :4], logits[:, :4])
    assert np.abs(after[:, 4] - logits[:, 4]).max(axis=-1).min() > 1e-3
    ids = encoder["input_ids"].copy()
    ids[2, 5:] = 4  # behind the mask
    hidden = model({**encoder, "input_ids": ids, "decoder_input_ids": before}).numpy()
    np.testing.assert_array_equal(hidden, logits)
    ids[2, 0] = (ids[2, 0] + 1 - 4) % 9 + 4
    read = model({**encoder, "input_ids": ids, "decoder_input_ids": before}).numpy()
    np.testing.assert_array_equal(read[:2], logits[:2])
    assert np.abs(read[2] - logits[2]).max() > 1e-3


@pytest.mark.parametrize("decoder", some_fast(["bert2bert", "bertshare"], ("bert2bert",)))
def test_cached_steps_give_the_logits_of_the_whole_row(decoder):
    model = tiny(decoder, num_hidden_layers=2)
    encoder, before = inputs()
    expected = model({**encoder, "decoder_input_ids": before}).numpy()
    encoded = model.encoder(encoder)["sequence_output"]
    memory = model.decoder.memory(encoded, encoder["input_mask"])
    # Two beams of each text, the second with other pieces, in a cache longer than the row.
    other = np.where(before == START, START, (before - 4 + 3) % 9 + 4).astype(np.int32)
    expected_other = model({**encoder, "decoder_input_ids": other}).numpy()
    cache = [values for pair in model.decoder.empty_cache(6, 9) for values in pair]
    step = tf.function(lambda *arguments: model.step_logits(*arguments, memory))
    for position in range(6):
        ids = np.stack([before[:, position], other[:, position]], axis=1)
        logits, cache = step(tf.constant(ids), tf.constant(position), cache)
        np.testing.assert_allclose(logits[:, 0], expected[:, position], **REORDERED)
        np.testing.assert_allclose(logits[:, 1], expected_other[:, position], **REORDERED)


def generated(model, encoder, options):
    """What is found for texts, in a graph that takes any number of them."""
    inputs = {name: tf.constant(values) for name, values in encoder.items()}
    return graph_of(model, options)(**inputs)


@functools.cache
def graph_of(model, options):
    return tf.function(
        lambda **features: model.generate(features, options), autograph=False
    ).get_concrete_function(
        **{
            name: tf.TensorSpec([None, None], tf.int32, name=name)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
    )


def greedy_by_whole_rows(model, encoder, length):
    """Greedy search without a cache: all logits anew for every piece."""
    rows = np.full((3, length + 1), PAD, np.int32)
    rows[:, 0] = START
    done = np.zeros(3, bool)
    for place in range(length):
        logits = model({**encoder, "decoder_input_ids": rows}).numpy()[:, place]
        logits[:, [PAD, START]] = -np.inf  # no text
        best = np.where(done, PAD, logits.argmax(axis=-1)).astype(np.int32)
        done |= best == END
        rows[:, place + 1] = best
    return rows[:, 1:]


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["bert2bert", "bertshare"])
def test_greedy_search_takes_the_likeliest_piece_and_is_beam_search_with_one_beam(decoder):
    model = tiny(decoder)
    encoder, _ = inputs()
    found = generated(model, encoder, SearchOptions(8, 1))
    np.testing.assert_array_equal(found.ids[:, 0], greedy_by_whole_rows(model, encoder, 8))
    options = SearchOptions(8, 1, length_penalty=0.0)
    expected = generated(model, encoder, options)
    never = np.where(np.isin(np.arange(13), [PAD, START]), -1e9, 0.0)  # what `generate` leaves out
    memory = model.decoder.memory(model.encoder(encoder)["sequence_output"], encoder["input_mask"])

    def step(ids, position, cache):
        logits, cache = model.step_logits(ids, position, cache, memory)
        return tf.nn.log_softmax(logits + never), cache

    cache = [values for pair in model.decoder.empty_cache(3, 8) for values in pair]
    beam = tf.function(lambda: beam_search(step, cache, 3, START, END, PAD, options))()
    np.testing.assert_array_equal(beam.ids, found.ids)
    np.testing.assert_allclose(beam.scores, expected.scores, **REORDERED)


def test_generation_in_a_graph_takes_any_number_of_texts():
    model = tiny()
    encoder, _ = inputs()
    options = SearchOptions(8, 3)
    found = generated(model, encoder, options)
    assert found.ids.shape == (3, 3, 8)
    scores = found.scores.numpy()
    assert (np.diff(scores, axis=1) <= 0).all()
    none = generated(model, {name: values[:0] for name, values in encoder.items()}, options)
    assert none.ids.shape == (0, 3, 8)
    # Without a graph, too, where nothing has the best of no beams.
    none = model.generate({name: values[:0] for name, values in encoder.items()}, options)
    assert none.ids.shape == (0, 3, 8) and none.scores.shape == (0, 3)
    # What is found for a text does not depend on the texts beside it.
    alone = generated(model, {name: values[1:2] for name, values in encoder.items()}, options)
    np.testing.assert_array_equal(alone.ids[0], found.ids[1])
    np.testing.assert_allclose(alone.scores[0], scores[1], **REORDERED)


@pytest.mark.slow
@pytest.mark.half_precision
def test_generation_in_bfloat16():
    model = tiny(dtype="mixed_bfloat16")
    encoder, before = inputs()
    assert model({**encoder, "decoder_input_ids": before}).dtype == tf.float32
    found = generated(model, encoder, SearchOptions(8, 2))
    assert found.ids.shape == (3, 2, 8) and found.scores.dtype == tf.float32


# --- Search, on distributions that depend on the whole beginning -------------------------------

PIECES, LENGTH = 4, 3


@pytest.fixture(scope="module")
def table():
    """Logits of the next piece behind every beginning: [texts, beginnings, pieces]."""
    beginnings = (PIECES + 1) ** LENGTH
    return np.random.default_rng(5).normal(0, 2, (2, beginnings, PIECES)).astype(np.float32)


def number_of(beginning):
    """A number of its own for each beginning: digits to the base of one more."""
    number = 0
    for piece in beginning:
        number = number * (PIECES + 1) + piece + 1
    return number


def table_step(table):
    """A step whose cache holds the number of the beginning, so that it must follow its beam."""
    texts = tf.constant(table)

    def step(ids, position, cache):
        [numbers] = cache  # [B * K]
        beams = ids.shape[1]
        added = numbers * (PIECES + 1) + tf.reshape(ids, [-1]) + 1
        numbers = tf.where(position > 0, added, numbers)
        rows = tf.reshape(numbers, [-1, beams])
        return tf.gather(texts, rows, batch_dims=1), [numbers]

    return step


def searched(table, options, end=3):
    cache = [tf.zeros([len(table) * options.beam_size], tf.int32)]
    find = tf.function(
        lambda cache: search(table_step(table), cache, len(table), 0, end, 9, options)
    )
    return find(cache)


def log_softmax(logits):
    logits = logits.astype(np.float64)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def scored(total, length, alpha):
    return total / ((5 + length) / 6) ** alpha


def padded(pieces):
    return [*pieces, *[9] * (LENGTH - len(pieces))]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_a_beam_of_everything_finds_what_enumeration_finds(table, alpha):
    found = searched(table, SearchOptions(LENGTH, 36, alpha))
    for text, logits in enumerate(log_softmax(table)):
        everything = []
        for length in range(1, LENGTH + 1):
            for pieces in itertools.product(range(PIECES), repeat=length):
                if 3 in pieces[:-1] or (pieces[-1] != 3 and length < LENGTH):
                    continue  # ended before, or not yet
                total = sum(logits[number_of(pieces[:i])][pieces[i]] for i in range(length))
                everything.append((scored(total, length, alpha), padded(pieces)))
        everything.sort(key=lambda one: -one[0])
        assert len(everything) == 1 + 3 + 36
        assert found.ids[text][:20].numpy().tolist() == [ids for _, ids in everything[:20]]
        np.testing.assert_allclose(
            found.scores[text][:20], [score for score, _ in everything[:20]], **REORDERED
        )


def plain_beam_search(logits, beams, alpha):
    """The same search in lists of Python, without ever stopping early."""
    alive, finished = [(0.0, ())], []
    for length in range(1, LENGTH + 1):
        continued = sorted(
            (
                (total + logits[number_of(pieces)][piece], (*pieces, piece))
                for total, pieces in alive
                for piece in range(PIECES)
            ),
            reverse=True,
        )[: 2 * beams]
        ends = [one for one in continued[:beams] if one[1][-1] == 3]
        finished += [(scored(total, length, alpha), pieces) for total, pieces in ends]
        alive = [one for one in continued if one[1][-1] != 3][:beams]
    finished += [(scored(total, LENGTH, alpha), pieces) for total, pieces in alive]
    return sorted(finished, reverse=True)[:beams]


@pytest.mark.parametrize("beams", [2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_narrow_beams_find_what_the_same_search_in_python_finds(table, beams, alpha):
    found = searched(table, SearchOptions(LENGTH, beams, alpha))
    for text, logits in enumerate(log_softmax(table)):
        expected = plain_beam_search(logits, beams, alpha)
        assert found.ids[text].numpy().tolist() == [padded(pieces) for _, pieces in expected]
        np.testing.assert_allclose(
            found.scores[text], [score for score, _ in expected], **REORDERED
        )


@pytest.mark.parametrize("beams", [1, 3])
def test_a_text_without_numbers_to_go_by_has_no_score(table, beams):
    damaged = np.concatenate([table, table])
    damaged[0] = np.nan
    damaged[1, number_of([2])] = np.nan  # behind one of the first pieces alone
    damaged[1, 0, 2] += 9.0
    options = SearchOptions(LENGTH, beams)
    found, expected = searched(damaged, options), searched(table, options)
    assert np.isnan(found.scores[:2]).all()  # of a beam they were -2e9, and the text was empty
    np.testing.assert_array_equal(found.ids[2:], expected.ids)
    np.testing.assert_allclose(found.scores[2:], expected.scores, **REORDERED)


def test_a_length_penalty_of_wu_et_al_by_hand():
    # P(end) = 0.4 at once; else piece 0 with 0.6, then the end with 0.6: 0.36 in two pieces.
    table = np.full((1, (PIECES + 1) ** LENGTH, PIECES), -1e9, np.float32)
    table[0, 0, [0, 3]] = np.log([0.6, 0.4])
    table[0, number_of([0]), [1, 3]] = np.log([0.4, 0.6])
    table[0, number_of([0, 1]), 3] = 0.0
    plain = searched(table, SearchOptions(LENGTH, 2, 0.0))
    assert plain.ids[0, 0].numpy().tolist() == [3, 9, 9]
    np.testing.assert_allclose(plain.scores[0, 0], math.log(0.4), **REORDERED)
    # With alpha 1: log 0.4 = -0.916 for one piece, log 0.36 / (7/6) = -0.876 for two.
    penalized = searched(table, SearchOptions(LENGTH, 2, 1.0))
    assert penalized.ids[0, 0].numpy().tolist() == [0, 3, 9]
    np.testing.assert_allclose(penalized.scores[0, 0], math.log(0.36) / (7 / 6), **REORDERED)


@pytest.mark.parametrize("beams", [1, 3])
def test_suppressed_pieces_are_never_generated(table, beams):
    found = searched(table, SearchOptions(LENGTH, beams, 0.0, suppressed_ids=(0, 1)))
    assert not np.isin(found.ids[:, 0], [0, 1]).any()


def test_a_piece_with_the_id_of_padding_counts_in_a_text(table):
    scores = []
    for pad in (9, 2):
        options, cache = SearchOptions(LENGTH, 1, 1.0), [tf.zeros([len(table)], tf.int32)]
        found = search(table_step(table), cache, len(table), 0, 3, pad, options)
        scores.append(found.scores.numpy())
        if pad == 9:
            assert (found.ids.numpy() == 2).any()
    np.testing.assert_array_equal(*scores)


# --- What is refused, and Hugging Face's folders ------------------------------------------------


@pytest.mark.parametrize("options", [SearchOptions(4), SearchOptions(4, 1)], ids=repr)
def test_no_texts_have_no_answers(options):
    none = {name: values[:0, :0] for name, values in inputs()[0].items()}  # of a preprocessor
    found = tiny().generate(none, options)
    assert found.ids.shape == (0, options.beam_size, 4) and found.scores.shape[0] == 0


def test_ids_that_are_never_generated_may_be_an_array():
    given, array = (SearchOptions(4, suppressed_ids=kind([2, 5])) for kind in (tuple, np.array))
    found = [tiny().generate(inputs()[0], options).ids for options in (given, array)]
    np.testing.assert_array_equal(*found)


def test_inputs_may_be_lists():
    given = inputs()[0]
    as_lists = {name: np.asarray(values).tolist() for name, values in given.items()}
    found = [tiny().generate(each, SearchOptions(4)).ids for each in (given, as_lists)]
    np.testing.assert_array_equal(*found)


def test_a_length_penalty_may_be_a_number_of_numpy():
    given = [SearchOptions(4, 2, kind(0.75)) for kind in (float, np.float64, np.float32)]
    found = [tiny().generate(inputs()[0], options).scores for options in given]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SearchOptions(beam_size=0), "beam_size is 0: it must be at least 1"),
        (lambda: SearchOptions(1), "max_target_length is 1: it must be at least 2"),
        (lambda: SearchOptions(length_penalty=-1.0), "length_penalty is -1.0: it must be 0"),
        (lambda: tiny("bert2gpt"), "decoder is 'bert2gpt': choose one of bert2bert, bertshare"),
        (
            lambda: BertEncoderDecoder(RobertaConfig.from_name("tiny")),
            "of the model_type 'roberta': the decoder is that of BERT",
        ),
        (
            lambda: tiny().generate(inputs()[0], SearchOptions(4, suppressed_ids=(2, -1))),
            "suppressed_ids has -1: expected ids from 0 to below",
        ),
        (
            lambda: tiny().generate(inputs()[0], SearchOptions(13)),
            "max_target_length is 13 but the model has 12 positions",
        ),
        (
            lambda: BertEncoderDecoder(BertConfig(**NUMBERS)).generate(
                inputs()[0], SearchOptions(4)
            ),
            "does not know how a text starts and ends",
        ),
        # Ids of a vocabulary of 30,522 pieces for one of 13.
        (
            lambda: BertEncoderDecoder(BertConfig(**NUMBERS), start_token_id=101),
            "start_token_id is 101: it must be from 0 to 12",
        ),
        (
            lambda: BertEncoderDecoder(BertConfig(**NUMBERS), end_token_id=102),
            "end_token_id is 102: it must be from 0 to 12",
        ),
        (
            lambda: tiny().generate(inputs()[0], SearchOptions(4, suppressed_ids=(1.5,))),
            "suppressed_ids has 1.5: expected ids from 0 to below the vocabulary's 13",
        ),
        (
            lambda: tiny().generate(inputs()[0], SearchOptions(4, suppressed_ids=(True,))),
            "suppressed_ids has True: expected ids from 0 to below the vocabulary's 13",
        ),
        (
            lambda: tiny().generate(inputs()[0], SearchOptions(4, suppressed_ids=5)),
            "suppressed_ids is 5: give a list of ids",
        ),
        (
            lambda: tiny().generate(inputs()[0], {"beam_size": 2}),
            "the options are dict: give SearchOptions to an autoregressive model",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_what_a_folder_with_a_decoder_cannot_be(tmp_path):
    tiny().save_to_preset(tmp_path)
    with pytest.raises(ValueError, match="weights of their own: 'bertshare' is one set"):
        BertEncoderDecoder.from_preset(tmp_path, decoder="bertshare")
    with pytest.raises(ValueError, match="holds a decoder, but 'random' is a fresh one"):
        BertEncoderDecoder.from_preset(tmp_path, decoder="random")
    with pytest.raises(ValueError, match="a BertEncoderDecoder, which predicts no masked words"):
        load_masked_lm(tmp_path)
    checkpoint = preset.read_checkpoint(tmp_path)
    short = {"decoder/embeddings/position_embeddings": np.zeros((5, 16), np.float32)}
    damaged = dataclasses.replace(checkpoint, variables=checkpoint.variables | short)
    with pytest.raises(ValueError, match=r"position_embeddings of the checkpoint is \(5, 16\)"):
        preset.from_checkpoint(BertEncoderDecoder, damaged, {})


def test_what_started_at_random_is_opened_by_its_arrays():
    checkpoint = preset.as_checkpoint(tiny("random"))
    again = preset.from_checkpoint(BertEncoderDecoder, checkpoint, {})
    assert again.decoder_start == "random"
    for path, value in weights_of(again).items():
        np.testing.assert_array_equal(value, checkpoint.variables[path])


def test_one_set_of_weights_may_go_two_ways(tmp_path):
    tiny("bertshare").save_to_preset(tmp_path)
    encoder, before = inputs()
    features = {**encoder, "decoder_input_ids": before}
    one, two = (
        BertEncoderDecoder.from_preset(tmp_path),
        BertEncoderDecoder.from_preset(tmp_path, decoder="bert2bert"),
    )
    assert len(two.weights) > len(one.weights)
    np.testing.assert_array_equal(one(features), two(features))


@pytest.mark.parametrize("decoder", ["bert2bert", "bertshare"])
def test_hugging_face_folders_come_back_bit_equal(decoder, tmp_path):
    checkpoint = preset.as_checkpoint(tiny(decoder))
    checkpoints.write(checkpoint, tmp_path, "hf")
    again = preset.read_checkpoint(tmp_path)
    assert (again.config, again.head) == (checkpoint.config, checkpoint.head)
    assert again.variables.keys() == checkpoint.variables.keys()
    for path, value in checkpoint.variables.items():
        np.testing.assert_array_equal(again.variables[path], value)


@pytest.mark.parametrize("left_out", ["encoder.", "decoder.bert."])
def test_tied_tensors_may_stand_under_either_name(left_out, tmp_path):
    # transformers 4 leaves out the encoder's, in safetensors.
    checkpoint = preset.as_checkpoint(tiny("bertshare"))
    checkpoints.write(checkpoint, tmp_path, "hf")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    kept_alone = ("encoder.pooler.", "decoder.bert.encoder.layer.0.crossattention.")
    kept = {
        name: value
        for name, value in tensors.items()
        if not name.startswith(left_out) or name.startswith(kept_alone)
    }
    assert len(tensors) - len(kept) == 5 + 16  # embeddings, and a block
    save_file(kept, file)
    again = preset.read_checkpoint(tmp_path)
    assert again.head == checkpoint.head
    assert again.variables.keys() == checkpoint.variables.keys()
    for path, value in checkpoint.variables.items():
        np.testing.assert_array_equal(again.variables[path], value)
    # Each tensor of the file is told of once.
    told = [name for names in again.report.mapped.values() for name in names]
    assert sorted([*told, *again.report.dropped]) == sorted(kept)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda v: v["decoder"].update(model_type="gpt2"), "the decoder's model_type is 'gpt2'"),
        (lambda v: v["encoder"].update(model_type="roberta"), "encoder's model_type is 'roberta'"),
        (lambda v: v["decoder"].update(hidden_act="relu"), "hidden_act of the encoder is 'gelu'"),
        (lambda v: v["decoder"].update(is_decoder=False), "is_decoder of the decoder is False"),
        (lambda v: v["decoder"].update(alibi=True), "decoder: alibi is True"),
        (lambda v: v.update(tie_encoder_decoder=True), "differs from encoder"),
    ],
)
def test_other_pairs_of_hugging_face_are_refused(change, sentence, tmp_path):
    checkpoints.write(preset.as_checkpoint(tiny()), tmp_path, "hf")
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    assert values["model_type"] == ENCODER_DECODER_TYPE
    change(values)
    file.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=sentence):
        preset.read_checkpoint(tmp_path)


@pytest.mark.parametrize("format", ["google", "garden"])
def test_formats_without_decoders_say_so(format, tmp_path):
    with pytest.raises(ValueError, match="BertEncoderDecoder"):
        checkpoints.write(preset.as_checkpoint(tiny()), tmp_path, format)
