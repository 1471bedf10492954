"""Texts longer than a row: learned, evaluated, predicted and served in windows."""

import csv
import json
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertDocumentClassifier,
    BertMaskedLM,
    ExportOptions,
    FinetunedModel,
    FinetuningOptions,
    LabeledTexts,
    SentenceEncoder,
    TextHead,
    create_task,
    export_saved_model,
    extend_positions,
    finetune,
    load_tokenizer,
    predict_file,
    with_local_attention,
)
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.serving.served_folder import open_signatures
from keras_bert.visualize.attributions.view import Explainer
from tests.conftest import FILLER, NEGATIVE, POSITIVE, write_csv
from tests.markers import some_fast
from tests.tolerances import REORDERED

LENGTH = 10  # room for 8 pieces
STRIDE, WINDOWS = 6, 3  # 20 pieces are read


def long_rows(count, seed):
    """Texts of 13 to 18 words whose telling words stand behind what a row holds."""
    draw = random.Random(seed)
    for _ in range(count):
        label = draw.choice(["neg", "pos"])
        words = draw.choices(FILLER, k=draw.randint(8, 13))
        words += draw.choices(POSITIVE if label == "pos" else NEGATIVE, k=5)
        yield " ".join(words), label


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    for seed, (name, count) in enumerate({"train": 256, "dev": 48}.items()):
        write_csv(folder / f"{name}.csv", ["text", "label"], long_rows(count, seed))
    return folder


@pytest.fixture(scope="module")
def long_run(pretrained_folder, data, tmp_path_factory):
    """A finished run on long texts, and what it measured."""
    task = create_task("csv", window_pooling="max", doc_stride=STRIDE, max_windows=WINDOWS)
    options = FinetuningOptions(
        epochs=4,
        batch_size=16,
        learning_rate=3e-3,
        max_seq_length=LENGTH,
        mixed_precision="float32",
    )
    folder = tmp_path_factory.mktemp("runs") / "long"
    return folder, finetune(task, task.read(data), pretrained_folder, folder, options)


TEXTS = [*(text for text, _ in long_rows(5, 9)), "good", "", "a film was bad " * 20]


def logits_by_hand(folder, texts):
    """The model on one text at a time, its windows cut by a loop over lists."""
    model = BertDocumentClassifier.from_preset(folder)
    tokenizer = load_tokenizer(folder)
    cls, sep = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    found = []
    for text in texts:
        pieces, rows = tokenizer([text]).to_list()[0], []
        for start in (0, STRIDE, 2 * STRIDE):
            if start == 0 or start - STRIDE + LENGTH - 2 < len(pieces):
                rows.append([cls, *pieces[start : start + LENGTH - 2], sep])
        ids = np.zeros([1, len(rows), LENGTH], np.int32)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[0, index, : len(row)] = row
            mask[0, index, : len(row)] = 1
        inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
        found.append(model(inputs)[0])
    return np.array(found)


def test_words_behind_the_first_row_are_learned(long_run):
    folder, result = long_run
    # Without windows the telling word is not read, and half of the answers are wrong.
    assert result.metrics["validation"]["accuracy"] > 0.9
    head = json.loads((folder / "task.json").read_text())["head"]
    expected = {"window_pooling": "max", "doc_stride": STRIDE, "max_windows": WINDOWS}
    assert head == {"kind": "text", "label_type": "class", **expected}


def test_predictions_are_those_of_the_windows(long_run, tmp_path):
    folder, _ = long_run
    logits = logits_by_hand(folder, TEXTS)
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    scores = FinetunedModel.load(folder).predict(TEXTS, batch_size=3)
    np.testing.assert_allclose(scores, expected, **REORDERED)

    write_csv(tmp_path / "new.csv", ["text"], [[text] for text in TEXTS])
    predict_file(folder, tmp_path / "new.csv", tmp_path / "out.csv")
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        found = [float(row["score_pos"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(found, expected[:, 1], **REORDERED)


def test_the_served_graph_reads_whole_texts(long_run):
    folder, _ = long_run
    family = open_signatures(folder, ExportOptions())
    graph = family.functions()
    served = graph["serving_default"](text=tf.constant(TEXTS))
    live = FinetunedModel.load(folder).predict(TEXTS)
    np.testing.assert_allclose(served["scores"], live, **REORDERED)
    assert graph["serving_default"](text=tf.constant([], tf.string))["scores"].shape == (0, 2)
    specs = graph["serve_ids"].structured_input_signature[1]
    assert {spec.shape.rank for spec in specs.values()} == {3}


@pytest.mark.slow  # four thousand positions
def test_the_served_graph_reads_a_document_with_local_attention(pretrained_folder, data, tmp_path):
    model = extend_positions(BertMaskedLM.from_preset(pretrained_folder), 4096)
    model = with_local_attention(model, attention_window=8)
    model.save_to_preset(tmp_path / "local", load_tokenizer(pretrained_folder))
    task = create_task("csv")
    options = FinetuningOptions(
        epochs=2, batch_size=16, learning_rate=3e-3, max_seq_length=4096, mixed_precision="float32"
    )
    finetune(task, task.read(data), tmp_path / "local", tmp_path / "run", options)
    document = " ".join(random.Random(0).choices(FILLER, k=3000))
    ends = " good" * 1000, " bad" * 1000
    pieces = load_tokenizer(tmp_path / "run")([document + end for end in ends]).row_lengths()
    assert pieces.numpy().tolist() == [4000, 4000]
    texts = [document + ends[0], document + ends[1], "a film was good"]
    exported = export_saved_model(tmp_path / "run", tmp_path / "served")
    served = tf.saved_model.load(exported).signatures["serving_default"]
    scores = served(text=tf.constant(texts))["scores"].numpy()
    live = FinetunedModel.load(tmp_path / "run").predict(texts)
    np.testing.assert_allclose(scores, live, **REORDERED)
    # What tells them apart stands behind 3,000 pieces.
    assert scores[0].argmax() != scores[1].argmax()


def test_batches_hold_texts_with_as_many_windows(pretrained_folder):
    texts = [" ".join(["good"] * count) for count in (3, 30, 8, 9, 14, 15, 20, 2)]
    head = TextHead(window_pooling="mean", doc_stride=STRIDE, max_windows=4)
    examples = LabeledTexts(texts, None, np.arange(8, dtype=np.int32))
    encoded = head.encode(load_tokenizer(pretrained_folder), examples, LENGTH, "tokenizing")
    # Room for 8 pieces: 8, 14, 20 and 26 of them are read by one to four windows.
    assert encoded.choices.tolist() == [1, 4, 1, 2, 2, 3, 3, 1]
    assert encoded.remark == "5 of 8 texts take several windows, 1 are cut behind max_windows 4"
    # Full windows of each text: 0 of 1, 4 of 4, 1 of 1, 1 of 2, 2 of 2, 2 of 3, 3 of 3, 0 of 1.
    assert encoded.full_rows() == 13 / 17
    both = EncodedRows.joined([encoded, encoded], np.zeros(16))
    assert both.remark == f"{encoded.remark}; {encoded.remark}"
    batches, positions = encoded.inference_batches(3)
    shapes = [inputs["input_ids"].shape[1:] for inputs, _ in batches]
    assert shapes == [(1, 10), (3, 10), (4, 10)]
    labels = np.concatenate([targets for _, targets in batches])
    assert labels[positions].tolist() == list(range(8))
    # On a TPU every shape is compiled: powers of two, up to the most windows of any text.
    encoded.fixed_lengths([LENGTH])
    shapes = [inputs["input_ids"].shape[1:] for inputs, _ in encoded.inference_batches(3)[0]]
    assert shapes == [(1, 10), (4, 10), (4, 10)]


def test_windows_are_alike_however_they_are_spelled():
    spelled = TextHead(window_pooling="mean", doc_stride=4, max_windows=8).row_settings(LENGTH)
    assert spelled == TextHead(window_pooling="max").row_settings(LENGTH)  # half of 8 pieces
    assert spelled != TextHead(window_pooling="max").row_settings(LENGTH + 1)
    assert TextHead().row_settings(LENGTH) == TextHead().row_settings(LENGTH + 1)


def test_what_makes_no_windows_is_refused(pretrained_folder, long_run):
    with pytest.raises(ValueError, match="max_windows is 4, but texts are read in one row each"):
        create_task("csv", max_windows=4)
    with pytest.raises(ValueError, match="doc_stride is 64, but texts are read in one row each"):
        TextHead(doc_stride=64)
    assert TextHead(window_pooling="max").max_windows == 8
    with pytest.raises(ValueError, match="window_pooling is 'sum': choose one of mean, max, att"):
        create_task("csv", window_pooling="sum")
    with pytest.raises(ValueError, match="'sst2' has no window_pooling"):
        create_task("sst2", window_pooling="mean")
    tokenizer = load_tokenizer(pretrained_folder)
    pairs = LabeledTexts(["a"], ["b"], np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="window_pooling is for single texts, .* has pairs"):
        TextHead(window_pooling="mean").encode(tokenizer, pairs, LENGTH, "tokenizing")
    with pytest.raises(ValueError, match="doc_stride is 9 but a window .* holds 8 pieces"):
        TextHead(window_pooling="mean", doc_stride=9).encode(
            tokenizer, LabeledTexts(["a"]), LENGTH, "tokenizing"
        )
    with pytest.raises(ValueError, match="--max_windows .* are for the vectors of an encoder"):
        open_signatures(long_run[0], ExportOptions(max_windows=4))
    with pytest.raises(ValueError, match="doc_stride is 4, but texts are read in one row each"):
        ExportOptions(doc_stride=4)
    with pytest.raises(ValueError, match="the model pools windows of long texts"):
        Explainer(FinetunedModel.load(long_run[0]))


def test_a_model_that_does_not_say_how_texts_are_cut_is_not_served(model_folder, tmp_path):
    shutil.copytree(model_folder("windows"), tmp_path / "model")
    (tmp_path / "model" / "task.json").unlink()
    with pytest.raises(ValueError, match="BertDocumentClassifier without task.json, .*--head=enc"):
        open_signatures(tmp_path / "model", ExportOptions())
    assert open_signatures(tmp_path / "model", ExportOptions(), head="encoder")


@pytest.mark.parametrize("pooling", some_fast(["mean", "max", "cls", "pooler"], ("mean",)))
def test_vectors_of_long_texts_are_pooled_over_windows(model_folder, pooling):
    def encoder(**windows):
        return SentenceEncoder.from_preset(
            model_folder("encoder"), pooling=pooling, max_seq_length=LENGTH, **windows
        )

    words = "the film a b c d e f g h i j k l m n o p q r s t".split()  # 22, of a piece each
    starts = (0, STRIDE, 2 * STRIDE)
    parts = [" ".join(words[start : start + LENGTH - 2]) for start in starts]
    vectors = encoder().encode([*parts, "film"])
    found = encoder(max_windows=WINDOWS, doc_stride=STRIDE).encode([" ".join(words), "film"])
    # Three windows of equal length: the mean over all tokens is that of the means.
    pool = np.max if pooling == "max" else np.mean
    np.testing.assert_allclose(found[0], pool(vectors[:3], axis=0), **REORDERED)
    np.testing.assert_allclose(found[1], vectors[3], **REORDERED)
    assert np.abs(found[0] - vectors[0]).max() > 1e-2


@pytest.mark.slow
def test_a_student_that_reads_rows_takes_a_teacher_that_reads_windows(
    long_run, data, pretrained_folder, tmp_path
):
    task = create_task("csv")
    settings = {"epochs": 2, "max_seq_length": 32, "learning_rate": 3e-3, "batch_size": 16}
    options = FinetuningOptions(
        teacher=str(long_run[0]), distillation_alpha=1.0, mixed_precision="float32", **settings
    )
    result = finetune(task, task.read(data), pretrained_folder, tmp_path / "student", options)
    # Each reads the texts in its own rows; the loss is that of the teacher's answers alone.
    first, last = (epoch["train_loss"] for epoch in result.epochs)
    assert last < first
    imitating = FinetuningOptions(teacher=str(long_run[0]), hidden_state_weight=1.0, **settings)
    with pytest.raises(ValueError, match="cuts texts by .*doc_stride.* and the student by rows"):
        finetune(task, task.read(data), pretrained_folder, tmp_path / "other", imitating)
