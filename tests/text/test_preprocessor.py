import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary
from tests.graph_order import operations_beside_the_check

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "É"]
A = [2, 5, 3, 0, 0, 0]
BC = [2, 6, 7, 3, 0, 0]
A_BC = [2, 5, 3, 6, 7, 3]


def make(max_seq_length=6, pad_to="max", **settings):
    tokenizer = BertTokenizer(Vocabulary(TOKENS), **settings)
    return BertPreprocessor(tokenizer, max_seq_length, pad_to)


@pytest.fixture(scope="module")
def preprocess():
    return make()


def ids(outputs):
    assert set(outputs) == {"input_ids", "input_mask", "segment_ids"}
    assert {output.dtype for output in outputs.values()} == {tf.int32}
    return outputs["input_ids"].numpy().tolist()


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "bc"],
        ("a bc".split(),),
        np.array(["a", "bc"]),
        tf.constant(["a", "bc"]),
        {"text": ["a", "bc"]},
        {"text": tf.constant(["a", "bc"])},
    ],
    ids=lambda texts: type(texts).__name__,
)
def test_forms_of_single_texts(preprocess, texts):
    outputs = preprocess(texts)
    assert ids(outputs) == [A, BC]
    assert outputs["input_mask"].numpy().tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]]
    assert outputs["segment_ids"].numpy().tolist() == [[0] * 6, [0] * 6]


@pytest.mark.parametrize(
    "pair",
    [
        (["a"], ["bc"]),
        [["a"], ["bc"]],
        (np.array(["a"]), tf.constant(["bc"])),
        [tf.constant(["a"]), tf.constant(["bc"])],
        {"text": ["a"], "text_pair": ["bc"]},
    ],
    ids=["tuple", "list", "mixed", "tensors", "dict"],
)
def test_forms_of_pairs(preprocess, pair):
    outputs = preprocess(pair)
    assert ids(outputs) == [A_BC]
    assert outputs["segment_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 1]]


def test_one_string_is_one_row(preprocess):
    assert ids(preprocess("a")) == A
    assert ids(preprocess(("a", "bc"))) == A_BC


def test_more_axes_are_kept(preprocess):
    assert ids(preprocess(tf.constant([["a", "bc"], ["bc", "a"]]))) == [[A, BC], [BC, A]]
    assert ids(preprocess([])) == []


def test_padding_to_the_longest():
    preprocess = make(max_seq_length=512, pad_to="longest")
    assert ids(preprocess(["a", "bc"])) == [A[:4], BC[:4]]
    assert ids(preprocess(["a"])) == [A[:3]]


@pytest.mark.parametrize("batch_size", [None, 2])
def test_in_tf_data(preprocess, batch_size):
    dataset = tf.data.Dataset.from_tensor_slices((["a", "a"], ["bc", "a"]))
    if batch_size:
        dataset = dataset.batch(batch_size, drop_remainder=True)
    dataset = dataset.map(lambda text, pair: preprocess((text, pair)))
    got = np.concatenate([np.atleast_2d(ids(batch)) for batch in dataset])
    assert got.tolist() == [A_BC, [2, 5, 3, 5, 3, 0]]
    shape = [2, 6] if batch_size else [6]
    assert all(spec.shape.as_list() == shape for spec in dataset.element_spec.values())


def test_as_a_layer_of_a_saved_keras_model(tmp_path):
    layer = make(lowercase=False, keep_special_tokens=True)
    text = keras.Input((), dtype="string", name="text")
    pair = keras.Input((), dtype="string", name="text_pair")
    model = keras.Model([text, pair], layer([text, pair]))
    assert {output.shape for output in model.outputs} == {(None, 6)}
    inputs = [tf.constant(["É", "a"]), tf.constant(["[MASK]", "bc"])]
    assert ids(model(inputs)) == [[2, 8, 3, 4, 3, 0], A_BC]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert ids(loaded(inputs)) == [[2, 8, 3, 4, 3, 0], A_BC]


def test_config_keeps_every_argument():
    layer = make(7, "longest", lowercase=True, strip_accents=False, split_cjk=False)
    again = BertPreprocessor.from_config(layer.get_config())
    assert again.tokenizer.vocabulary == layer.tokenizer.vocabulary
    assert again.tokenizer.settings == layer.tokenizer.settings
    assert (again.max_seq_length, again.pad_to, again.name) == (7, "longest", layer.name)
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ([1, 2], "takes strings, but got int32 of shape"),
        (["a", None], "check for None and mixed types"),
        (None, "takes strings, but got NoneType"),
        ((["a"], ["b"], ["a"]), "takes one text or a pair, but got a tuple of 3"),
        ((["a", "b"], ["a"]), r"the texts have shape \(2,\) but the second texts \(1,\)"),
        ({"sentence": ["a"]}, r"takes 'text' and 'text_pair', but got \['sentence'\]"),
    ],
)
def test_bad_inputs(preprocess, inputs, sentence):
    with pytest.raises(ValueError, match=f"^[^\\n]*{sentence}[^\\n]*$"):
        preprocess(inputs)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"max_seq_length": 4}, "max_seq_length is 4; it must be at least 5"),
        ({"max_seq_length": 8.5}, "max_seq_length is 8.5: it must be a whole number"),
        ({"max_seq_length": None}, "max_seq_length is None: it must be a whole number"),
        ({"pad_to": "batch"}, 'pad_to is \'batch\'; it must be "max" or "longest"'),
    ],
)
def test_bad_arguments(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**arguments)


def test_a_length_of_numpys_is_a_number():
    assert make(max_seq_length=np.int64(6))(["a"])["input_ids"].shape == (1, 6)


def test_unequal_pairs_in_a_graph(preprocess):
    strings = tf.TensorSpec([None], tf.string)
    traced = tf.function(lambda a, b: preprocess((a, b)), input_signature=[strings, strings])
    assert ids(traced(tf.constant(["a"]), tf.constant(["bc"]))) == [A_BC]
    with pytest.raises(tf.errors.InvalidArgumentError, match="every text needs its partner"):
        traced(tf.constant(["a", "b"]), tf.constant(["a"]))
    assert not operations_beside_the_check(traced.get_concrete_function(), "every text")


def test_symbolic_inputs_must_be_strings(preprocess):
    with pytest.raises(ValueError, match="takes strings, but got int32"):
        preprocess(keras.Input((), dtype="int32"))
