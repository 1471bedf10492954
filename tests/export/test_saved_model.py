"""Exports answered in a fresh process. Oracle: the live model on the same batch."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.export.saved_model import export_saved_model
from keras_bert.training.finetuned_model import FinetunedModel

TEXTS = [
    "it was a GOOD film",
    "the book was very very awful and it was a sad book and a bad film",
    "",
    "naïve \u4e2d\u6587 🙂 [SEP] " + "very " * 200,
]

# Runs outside the repository, isolated from its path, with TensorFlow and its text ops alone.
FRESH_PROCESS = """
import json, sys
import numpy as np, tensorflow as tf, tensorflow_text
folder, requests, answers = sys.argv[1:]
model = tf.saved_model.load(folder)
results = {}
for index, (signature, inputs) in enumerate(json.load(open(requests))):
    tensors = {k: tf.constant(v, tf.int32 if signature == "serve_ids" else tf.string)
               for k, v in inputs.items()}
    for name, value in model.signatures[signature](**tensors).items():
        results[f"{index}/{name}"] = value.numpy()
assert not any(name.split(".")[0] == "keras_bert" for name in sys.modules)
np.savez(answers, **{k: v.astype("U") if v.dtype == object else v for k, v in results.items()})
"""


def ask_fresh_process(tmp_path, export, requests):
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    command = [sys.executable, "-I", "-c", FRESH_PROCESS, export]
    files = [tmp_path / "requests.json", tmp_path / "answers.npz"]
    done = subprocess.run(
        [*map(str, command), *map(str, files)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(np.load(tmp_path / "answers.npz"))


def live_logits(finetuned, inputs):
    length = finetuned.description.max_seq_length
    preprocess = BertPreprocessor(finetuned.tokenizer, length, pad_to="longest")
    batch = preprocess(inputs)
    # As a graph for any batch and length, like the signatures: TensorFlow fuses operations by what
    # it knows of the shapes, which changes the last bit.
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in batch}
    graph = tf.function(lambda ids: finetuned.model(ids, training=False), [signature])
    return batch, graph(batch).numpy()


def softmax(logits):
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def test_classes_answered_by_a_fresh_process_are_the_live_models(sentiment_run, tmp_path):
    finetuned = FinetunedModel.load(sentiment_run[0])
    export = export_saved_model(sentiment_run[0], tmp_path / "served")
    batch, logits = live_logits(finetuned, TEXTS)
    ids = {name: values.numpy().tolist() for name, values in batch.items()}
    answers = ask_fresh_process(
        tmp_path,
        export,
        [
            ("serving_default", {"text": TEXTS}),
            ("serve_ids", ids),
            ("serving_default", {"text": []}),
        ],
    )
    np.testing.assert_array_equal(answers["1/logits"], logits)
    np.testing.assert_allclose(answers["0/scores"], softmax(logits), rtol=1e-6)
    np.testing.assert_array_equal(
        answers["0/scores"], finetuned.description.head.postprocess(logits).numpy()
    )
    names = np.array(["neg", "pos"])
    np.testing.assert_array_equal(answers["0/label"], names[logits.argmax(axis=-1)])
    assert answers["0/label"][:2].tolist() == ["pos", "neg"]
    assert answers["0/labels"].tolist() == [["neg", "pos"]] * 4
    assert answers["2/scores"].shape == (0, 2)
    assert answers["2/label"].shape == (0,)


def test_numbers_for_pairs_answered_by_a_fresh_process(pair_regression_run, tmp_path):
    finetuned = FinetunedModel.load(pair_regression_run)
    export = export_saved_model(pair_regression_run, tmp_path / "served")
    pairs = TEXTS[::-1]
    _, logits = live_logits(finetuned, (TEXTS, pairs))
    request = ("serving_default", {"text": TEXTS, "text_pair": pairs})
    answers = ask_fresh_process(tmp_path, export, [request])
    assert list(answers) == ["0/score"]
    np.testing.assert_array_equal(answers["0/score"], logits[:, 0])


def test_versions_count_up_and_are_never_overwritten(pair_regression_run, tmp_path):
    assert export_saved_model(pair_regression_run, tmp_path, version=4).name == "4"
    assert export_saved_model(pair_regression_run, tmp_path).name == "5"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "5"]
    assert (tmp_path / "5" / "saved_model.pb").is_file()
    before = (tmp_path / "4" / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(ValueError, match="holds version 4: give another --version"):
        export_saved_model(pair_regression_run, tmp_path, version=4)
    with pytest.raises(ValueError, match="version is 0"):
        export_saved_model(pair_regression_run, tmp_path, version=0)
    assert (tmp_path / "4" / "saved_model.pb").stat().st_mtime_ns == before


def test_a_folder_without_a_task_is_refused(pretrained_folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="task.json does not exist: give the --model_dir"):
        export_saved_model(pretrained_folder, tmp_path / "served")
    assert not (tmp_path / "served").exists()
