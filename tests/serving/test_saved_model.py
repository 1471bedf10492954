"""Exports answered in a fresh process that has TensorFlow and its text operations alone.

Oracle: the same graph in this process, to the last bit, and the live model.
"""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertMaskedLM, BertPreprocessor, BertTokenizer
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.feature_extraction.signatures import EncoderSignatures
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.markers import some_fast
from tests.serving.fresh_process import ask_fresh_process
from tests.signatures.tiny_models import MODELS, PIECES, ask, random_texts, tiny_config
from tests.tolerances import REORDERED

TEXTS = [
    "it was a GOOD film",
    "the book was very very awful and it was a sad book and a bad film",
    "",
    "naïve \u4e2d\u6587 🙂 [SEP] " + "very " * 200,
]

# Strings that each kind of model takes.
REQUESTS = {
    "pairs": {"text": TEXTS, "text_pair": TEXTS[::-1]},
    # Choices that are never alike: which of two equals is taken is a matter of rounding.
    "choices": {
        "context": TEXTS,
        "choices": [["a", "b", ""], ["c", "", "d"], ["x", "y", "z"], TEXTS[:3]],
    },
    "masked_lm": {"text": ["the [MASK] film [MASK]", "none", "", "[MASK] " * 60]},
} | {
    name: {"question": TEXTS, "context": random_texts(3, 1)} for name in ("spans", "spans_or_none")
}


def live_logits(finetuned, inputs):
    length = finetuned.description.max_seq_length
    batch = BertPreprocessor(finetuned.tokenizer, length, pad_to="longest")(inputs)
    # As a graph for any batch and length, like the signatures: TensorFlow fuses operations by what
    # it knows of the shapes, which changes the last bit.
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in batch}
    graph = tf.function(lambda ids: finetuned.model(ids, training=False), [signature])
    return batch, graph(batch).numpy()


def test_classes_of_a_trained_model_are_the_live_models(sentiment_run, tmp_path):
    finetuned = FinetunedModel.load(sentiment_run[0])
    export = export_saved_model(sentiment_run[0], tmp_path / "served")
    batch, logits = live_logits(finetuned, TEXTS)
    ids = {name: values.numpy().tolist() for name, values in batch.items()}
    requests = [
        (export, "serving_default", {"text": TEXTS}),
        (export, "serve_ids", ids),
        (export, "serving_default", {"text": []}),
    ]
    answers, on_ids, none = ask_fresh_process(tmp_path, requests)
    np.testing.assert_array_equal(on_ids["logits"], logits)
    scores = finetuned.description.head.postprocess(logits).numpy()
    np.testing.assert_allclose(answers["scores"], scores, **REORDERED)
    assert answers["label"].tolist() == np.array(["neg", "pos"])[logits.argmax(-1)].tolist()
    assert answers["label"][:2].tolist() == ["pos", "neg"]
    assert answers["labels"].tolist() == [["neg", "pos"]] * 4
    assert none["scores"].shape == (0, 2)
    assert none["label"].shape == (0,)


@pytest.mark.parametrize("name", some_fast(MODELS, ("classes", "tags", "spans_or_none")))
def test_a_batch_of_mixed_lengths_answers_as_its_members(name, model_folder):
    texts = random_texts(6, seed=9)
    request = {"text": texts}
    if name in REQUESTS:
        request = REQUESTS[name]
    if name.startswith("spans"):
        request = {"question": texts[::-1], "context": texts}
    together = ask(model_folder(name), **request)
    for row in range(len(next(iter(request.values())))):
        alone = ask(model_folder(name), **{key: [texts[row]] for key, texts in request.items()})
        for output, value in alone.items():
            same = (slice(row, row + 1), *(slice(size) for size in value.shape[1:]))
            cut = together[output][same]
            if value.dtype == object:
                assert cut.tolist() == value.tolist()
            else:
                np.testing.assert_allclose(cut, value, **REORDERED)


def tf_example(**texts):
    """A serialized tf.Example."""
    features = {
        name: tf.train.Feature(
            bytes_list=tf.train.BytesList(
                value=[t.encode() for t in ([text] if isinstance(text, str) else text)]
            )
        )
        for name, text in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.mark.slow
def test_choices_of_tf_examples_are_answered_alike(exported, model_folder):
    serve = tf.saved_model.load(str(exported("choices"))).signatures["serve_examples"]
    example = tf_example(context="the film", choices=["a b", "c"])
    expected = ask(model_folder("choices"), context=["the film"], choices=[["a b", "c"]])
    found = serve(examples=tf.constant([example]))
    np.testing.assert_array_equal(found["scores"].numpy(), expected["scores"])


@contextlib.contextmanager
def refused(sentence):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        yield


def ids_of(*shape):
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: tf.ones(shape, tf.int32) for name in names}


def test_guards_refuse_what_is_too_much(model_folder):
    options = ExportOptions(max_batch=2, max_text_bytes=8)
    signatures = open_signatures(model_folder("spans"), options).functions()
    serve, serve_ids = signatures["serving_default"], signatures["serve_ids"]

    def answer(questions, contexts):
        return serve(question=tf.constant(questions), context=tf.constant(contexts))

    assert answer(["a"] * 2, ["12345678"] * 2)["answer"].shape == (2,)
    with refused("holds more than 2 examples"):
        answer(["a"] * 3, ["b"] * 3)
    with refused("a context is longer than 8 bytes"):
        answer(["a"] * 2, ["b", "\u4e2d\u4e2d\u4e2d"])
    with refused("holds more than 2 examples"):
        serve_ids(**ids_of(3, 5))
    with refused("has more than 24 positions: cut"):
        serve_ids(**ids_of(2, 25))
    assert serve_ids(**ids_of(2, 24))["start_logits"].shape == (2, 24)
    for contexts, sentence in ((["b"] * 3, "more than 2 examples"), (["b" * 9], "than 8 bytes")):
        examples = tf.constant([tf_example(question="a", context=text) for text in contexts])
        with refused(sentence):
            signatures["serve_examples"](examples=examples)


def test_guards_refuse_too_many_choices(model_folder):
    family = open_signatures(model_folder("choices"), ExportOptions(max_choices=3))
    signatures = family.functions()
    serve, serve_ids = signatures["serving_default"], signatures["serve_ids"]

    def answer(*choices):
        return serve(context=tf.constant(["the"]), choices=tf.constant([choices]))

    # As without the guard, empty choices behind the last one counted.
    expected = ask(model_folder("choices"), context=["the"], choices=[["a", "b", ""]])
    np.testing.assert_array_equal(answer("a", "b", "")["scores"], expected["scores"])
    with refused("more than 3 choices: send fewer of each example"):
        answer("a", "b", "", "")
    assert serve_ids(**ids_of(2, 3, 5))["logits"].shape == (2, 3)
    with refused("more than 3 choices"):
        serve_ids(**ids_of(2, 4, 5))
    with refused("more than 3 choices"):
        example = tf_example(context="the", choices=["a"] * 4)
        signatures["serve_examples"](examples=tf.constant([example]))
    with pytest.raises(ValueError, match="max_choices is 0: it must be at least 1"):
        ExportOptions(max_choices=0)


def test_versions_count_up_and_are_never_overwritten(model_folder, tmp_path):
    folder = model_folder("number")
    assert export_saved_model(folder, tmp_path, version=4).name == "4"
    before = (tmp_path / "4" / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(ValueError, match="holds version 4: give another --version"):
        export_saved_model(folder, tmp_path, version=4)
    with pytest.raises(ValueError, match="version is 0"):
        export_saved_model(folder, tmp_path, version=0)
    assert export_saved_model(folder, tmp_path).name == "5"
    assert (tmp_path / "4" / "saved_model.pb").stat().st_mtime_ns == before


def test_only_folders_of_exports_are_exported_to(model_folder, tmp_path):
    for name in ("number", "encoder"):
        before = sorted(path.name for path in model_folder(name).iterdir())
        with pytest.raises(FileExistsError, match="holds something else than exports"):
            export_saved_model(model_folder("number"), model_folder(name))
        assert sorted(path.name for path in model_folder(name).iterdir()) == before
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="holds something else than exports"):
        export_saved_model(model_folder("number"), tmp_path / "file")
    for odd in ("my reviews", "r\u00e9views", 'a"b'):
        with pytest.raises(ValueError, match="names the served model"):
            export_saved_model(model_folder("number"), tmp_path / odd)


def test_lengths_without_room_for_a_context_are_refused(model_folder, tmp_path):
    with pytest.raises(ValueError, match="leave no room for the context"):
        export_saved_model(
            model_folder("spans"), tmp_path / "served", options=ExportOptions(max_seq_length=9)
        )


def test_a_left_to_right_model_is_served_as_an_encoder_and_fills_no_masks(tmp_path):
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES]))
    config = tiny_config(vocab_size=len(tokenizer.vocabulary), left_to_right=True)
    BertMaskedLM(config).save_to_preset(tmp_path, tokenizer)
    assert isinstance(open_signatures(tmp_path, ExportOptions()), EncoderSignatures)
    with pytest.raises(ValueError, match="reads from left to right"):
        open_signatures(tmp_path, ExportOptions(), "masked_lm")


def test_what_cannot_be_exported_is_refused(model_folder, tmp_path):
    with pytest.raises(ValueError, match="export_dir is gs://bucket/x, but this is"):
        export_saved_model(model_folder("encoder"), "gs://bucket/x")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        export_saved_model(tmp_path / "nothing", tmp_path / "served")
    with pytest.raises(ValueError, match="BertEncoder, which has no masked language model head"):
        export_saved_model(model_folder("encoder"), tmp_path / "served", head="masked_lm")
    with pytest.raises(ValueError, match="head is 'classifier': choose one of auto, encoder, mask"):
        export_saved_model(model_folder("encoder"), tmp_path / "served", head="classifier")
    with pytest.raises(ValueError, match="max_seq_length is 25 but .* 24 positions"):
        export_saved_model(
            model_folder("encoder"), tmp_path / "served", options=ExportOptions(max_seq_length=25)
        )
    with pytest.raises(ValueError, match="dtype is 'float16': choose one of float32, bfloat16, "):
        ExportOptions(dtype="float16")
    assert not (tmp_path / "served").exists()
