"""The same ids eagerly, in tf.data, in tf.function and in a SavedModel of a fresh process."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

GOLDEN = Path(__file__).parents[1] / "golden"

# The op libraries of tf.text that stock TF Serving links, and what this project uses of them.
TF_TEXT_OPS_OF_SERVING = {"FastWordpieceTokenizeWithOffsets"}

SERVE = """
import json, sys
import tensorflow as tf
import tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
texts = json.load(open(sys.argv[2], encoding="utf-8"))
ids, starts, ends = loaded.with_offsets(tf.constant(texts))
answers = {
    "ids": loaded.tokenize(tf.constant(texts)).to_list(),
    "starts": starts.to_list(),
    "ends": ends.to_list(),
    "packed": {k: v.numpy().tolist() for k, v in loaded.pack(tf.constant(texts)).items()},
    "keras_bert": any(name.startswith("keras_bert") for name in sys.modules),
}
json.dump(answers, open(sys.argv[3], "w"))
"""


class Served(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer
        self.preprocessor = BertPreprocessor(tokenizer, max_seq_length=32)
        texts = [tf.TensorSpec([None], tf.string)]
        self.tokenize = tf.function(lambda t: tokenizer(t), input_signature=texts)
        self.with_offsets = tf.function(
            lambda t: tokenizer.tokenize_with_offsets(t), input_signature=texts
        )
        self.pack = tf.function(lambda t: self.preprocessor(t), input_signature=texts)


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer.from_vocab(GOLDEN / "vocab_uncased.txt", keep_special_tokens=True)


@pytest.fixture(scope="module")
def texts():
    lines = (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8").split("\n")
    tricky = ["", "ΑΣ Σ", "a\u302e\u0316\u1baa", "\x00", "x" * 201, "한국 [MASK] İ", "plain"]
    return tricky + [json.loads(line)["text"] for line in lines[:100]]


def test_in_tf_data(tokenizer, texts):
    eager = tokenizer(texts).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(16).map(tokenizer)
    assert [ids for batch in dataset for ids in batch.to_list()] == eager
    assert dataset.element_spec.dtype == tf.int32


def test_in_tf_function(tokenizer, texts):
    traced = tf.function(lambda strings: tokenizer.tokenize_with_offsets(strings))
    eager = [part.to_list() for part in tokenizer.tokenize_with_offsets(texts)]
    assert [part.to_list() for part in traced(tf.constant(texts))] == eager
    assert tokenizer(texts).to_list() == eager[0]


def test_what_was_begun_in_a_graph_of_tensorflow_1_does_not_reach_the_next():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "plain", "text"])
    # There it cannot be made; how far it comes does not matter.
    with tf.Graph().as_default(), contextlib.suppress(ValueError):
        BertTokenizer(vocabulary)
    tokenizer = BertTokenizer(vocabulary)
    assert tokenizer(["plain text"]).to_list() == [[5, 6]]
    assert tokenizer(["plain t\u00e9xt"]).to_list() == [[5, 6]]  # not the fast path


@pytest.mark.slow
def test_in_a_saved_model_of_a_fresh_process(tokenizer, texts, tmp_path):
    served = Served(tokenizer)
    tf.saved_model.save(served, tmp_path / "model")
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    names = ("model", "texts.json", "answers.json")
    subprocess.run(
        [sys.executable, "-c", SERVE, *(str(tmp_path / name) for name in names)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=True,
    )
    answers = json.loads((tmp_path / "answers.json").read_text())
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert answers.pop("keras_bert") is False
    assert answers == {
        "ids": ids.to_list(),
        "starts": starts.to_list(),
        "ends": ends.to_list(),
        "packed": {k: v.numpy().tolist() for k, v in served.preprocessor(texts).items()},
    }


def test_only_ops_that_serving_links(tokenizer):
    graph = Served(tokenizer).with_offsets.get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    used = {node.op for body in bodies for node in body}
    functions = {function.signature.name for function in graph.library.function}
    core = {
        name
        for name in used - functions
        if getattr(tf.raw_ops, name, None) is not None or name in ("_Arg", "_Retval")
    }
    assert used - functions - core == TF_TEXT_OPS_OF_SERVING
    assert not used & {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
