"""The tag head: which piece carries which tag, the loss, and models that learn to tag."""

import csv
import dataclasses
import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenizer
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.task import Task, TaskData
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.token_classifier import BertTokenClassifier
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.ensemble import FinetunedEnsemble
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.tagging.conll import conll_task
from keras_bert.tasks.tagging.head import TagCrossentropy, TagHead, TagPrediction
from keras_bert.tasks.tagging.metrics import entity_f1
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.training.strategy import create_strategy
from tests.signatures.tiny_models import tiny_config, write_model
from tests.tolerances import FORMULA, REORDERED, approx

LABELS = ("O", "B-X", "I-X")
# A character that the tokenizer removes: a word of it alone has no pieces.
REMOVED = "\u200b"


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(Vocabulary([*SPECIAL_TOKENS, "ab", "##c", "d", "e", "f", "g"]))


def encoded(tokenizer, sentences, max_seq_length=16, **settings):
    head = TagHead(**settings, labels=LABELS)
    return head.encode(tokenizer, sentences, max_seq_length, "tokenizing")


def only_batch(rows):
    batches, places = rows.inference_batches(len(rows))
    inputs, targets = next(iter(batches))
    ids = tf.gather(inputs["input_ids"], places).numpy()
    return ids, None if targets is None else tf.gather(targets, places).numpy()


def pieces(tokenizer, ids):
    tokens = tokenizer.vocabulary.tokens
    return " ".join(tokens[i] for i in ids if i != tokenizer.vocabulary.pad_id)


def test_the_first_piece_of_a_word_carries_its_tag(tokenizer):
    sentences = [
        TaggedSentence(("abc", "d"), ("B-X", "O")),
        TaggedSentence(("d", REMOVED, "Abcc", "d-e"), ("O", "I-X", "B-X", "I-X")),
    ]
    ids, targets = only_batch(encoded(tokenizer, sentences))
    assert pieces(tokenizer, ids[0]) == "[CLS] ab ##c d [SEP]"
    assert targets[0].tolist() == [-1, 1, -1, 0, -1] + [-1] * 11
    # "d-e" is three pieces, the second unknown.
    assert pieces(tokenizer, ids[1]) == "[CLS] d ab ##c ##c d [UNK] e [SEP]"
    assert targets[1].tolist() == [-1, 0, 1, -1, -1, 2, -1, -1, -1] + [-1] * 7


def test_no_word_of_a_long_sentence_is_lost(tokenizer):
    # Each piece gets its own logits, so that a prediction tells which piece it was made of.
    words = ("d", "abc", "e", REMOVED, "f", "abcccccccc", "g", "d", "e", "f")
    tags = ("O", "B-X", "I-X", "O", "B-X", "I-X", "O", "B-X", "O", "I-X")
    sentences = [TaggedSentence(words, tags), TaggedSentence(("abc",), ("I-X",))]
    rows = encoded(tokenizer, sentences, max_seq_length=7)
    assert len(rows) > 3
    ids, targets = only_batch(rows)
    carried = ids[targets >= 0]
    assert len(carried) == 10  # eleven words, one without pieces: each is learned once
    outputs = []
    for row_ids, row_targets, length in zip(ids, targets, rows.row_lengths, strict=True):
        logits = np.full([length, 3], -5.0, np.float32)
        for position in range(length):
            logits[position, max(0, row_targets[position])] = 5.0
        assert row_ids[length - 1] == tokenizer.vocabulary.sep_id
        outputs.append(logits)
    first, second = TagHead(labels=LABELS).predictions(outputs, rows, sentences)
    assert first.tags == tags
    assert second.tags == ("I-X",)
    assert first.scores[3] == 0
    expected = np.exp(10) / (np.exp(10) + 2)
    np.testing.assert_allclose(np.delete(first.scores, 3), expected, **FORMULA)


def test_document_context_fills_the_row_and_teaches_nothing(tokenizer):
    sentences = [
        TaggedSentence(("d", "d", "d"), ("O", "O", "O"), document=1),
        TaggedSentence(("abc", "e"), ("B-X", "O"), document=1),
        TaggedSentence(("f", "f", "f", "f", "f"), ("O",) * 5, document=1),
        TaggedSentence(("g",), ("I-X",), document=2),
    ]
    rows = encoded(tokenizer, sentences, max_seq_length=9, document_context=True)
    ids, targets = only_batch(rows)
    assert [pieces(tokenizer, row) for row in ids] == [
        "[CLS] d d d ab ##c e f [SEP]",
        "[CLS] d d ab ##c e f f [SEP]",
        "[CLS] ##c e f f f f f [SEP]",
        "[CLS] g [SEP]",
    ]
    np.testing.assert_array_equal(
        targets[:, :9],
        [
            [-1, 0, 0, 0, -1, -1, -1, -1, -1],
            [-1, -1, -1, 1, -1, 0, -1, -1, -1],
            [-1, -1, -1, 0, 0, 0, 0, 0, -1],
            [-1, 2, -1, -1, -1, -1, -1, -1, -1],
        ],
    )


def test_sentences_without_tags_have_no_targets(tokenizer):
    sentences = [TaggedSentence(("d",)), TaggedSentence(("e",))]
    assert only_batch(encoded(tokenizer, sentences))[1] is None
    assert TagHead(labels=LABELS).references(sentences) is None


LOGITS = np.array([[[2.0, 1, 0], [0, 0, 0]], [[1, 1, 1], [0, 3, 0]]], np.float32)
TAGS = np.array([[0, -1], [2, 1]])
# -log softmax of the label: of (2, 1, 0) at 0, (1, 1, 1) at 2 and (0, 3, 0) at 1.
OWN = np.array([np.log(1 + np.exp(-1) + np.exp(-2)), np.log(3), np.log(1 + 2 * np.exp(-3))])


def test_the_loss_is_the_mean_over_labeled_pieces():
    loss = TagCrossentropy()
    np.testing.assert_allclose(loss(TAGS, LOGITS), OWN.mean(), **FORMULA)
    weights = np.array([1.0, 3.0], np.float32)
    np.testing.assert_allclose(
        loss(TAGS, LOGITS, sample_weight=weights), (OWN[0] + 3 * OWN[1] + 3 * OWN[2]) / 7, **FORMULA
    )
    # A row of weight zero is as if it were not there.
    only_first = loss(TAGS, LOGITS, sample_weight=np.array([1.0, 0.0]))
    np.testing.assert_allclose(only_first, OWN[0], **FORMULA)
    assert float(loss(np.full([2, 2], -1), LOGITS)) == 0.0


def test_the_loss_of_all_rows_is_the_mean_over_words_whatever_the_batches(tokenizer):
    model = BertTokenClassifier(tiny_config(vocab_size=len(tokenizer.vocabulary)), num_classes=3)
    sentences = [TaggedSentence(("d",), ("O",)), TaggedSentence(("e", "f", "g") * 3, ("I-X",) * 9)]
    rows, head = encoded(tokenizer, sentences), TagHead(labels=LABELS)
    (inputs, targets), *_ = rows.inference_batches(2)[0]
    logs = tf.nn.log_softmax(model(inputs)).numpy()  # [2, S, 3]
    told = np.argwhere(targets.numpy() >= 0)
    assert len(told) == 10
    expected = -np.mean([logs[row, place, targets[row, place]] for row, place in told])
    for batch_size in (1, 2):
        found = InferenceRunner(model)(rows, batch_size, True, head.loss())
        assert found.loss == approx(expected, REORDERED)


def test_label_smoothing():
    # Of (2, 1, 0) the mean over all classes is one more than that of the first.
    smooth = TagCrossentropy(label_smoothing=0.3)(TAGS[:1], LOGITS[:1])
    np.testing.assert_allclose(smooth, 0.7 * OWN[0] + 0.3 * (OWN[0] + 1), **FORMULA)


@pytest.mark.slow
def test_two_replicas_learn_as_one(pretrained_folder):
    # The labeled pieces are spread unevenly over the replicas, which a mean of means would show.
    draw = np.random.default_rng(0)
    ids = draw.integers(5, 20, [4, 6]).astype("int32")
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    tags = np.full([4, 6], -1, "int32")
    tags[0, 1:6], tags[1, 2], tags[3, 1] = [0, 1, 2, 1, 0], 1, 2

    def after_one_step(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(3)
            model = BertTokenClassifier.from_preset(pretrained_folder, num_classes=3, seed=1)
            for layer in model._flatten_layers():
                if isinstance(layer, keras.layers.Dropout):
                    layer.rate = 0.0
            model.compile(optimizer=keras.optimizers.SGD(0.5), loss=TagCrossentropy())
        data = tf.data.Dataset.from_tensor_slices((inputs, tags)).batch(4)
        model.fit(data, verbose=0)
        return [np.array(weight) for weight in model.get_weights()]

    one = after_one_step(tf.distribute.get_strategy())
    two = after_one_step(create_strategy("mirrored"))
    for left, right in zip(one, two, strict=True):
        np.testing.assert_allclose(left, right, **REORDERED)


def write_names(path, count, seed):
    """Sentences in which "good" and "great", with "book" behind them or not, are entities."""
    draw = random.Random(seed)
    names = {"good": "B-NAME", "great": "B-NAME", "book": "I-NAME"}
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            for chunk in draw.choices(["good", "great book", "the", "film was", "very"], k=5):
                file.writelines(f"{word} {names.get(word, 'O')}\n" for word in chunk.split())
            file.write("\n")


@pytest.fixture(scope="module")
def names_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    for seed, (name, count) in enumerate({"train": 300, "dev": 40, "test": 30}.items()):
        write_names(folder / f"{name}.txt", count, seed)
    return folder


OPTIONS = FinetuningOptions(
    epochs=4, batch_size=16, learning_rate=5e-3, max_seq_length=16, mixed_precision="float32"
)


@pytest.fixture(scope="module")
def names_run(names_folder, pretrained_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "names"
    task = conll_task()
    return folder, finetune(task, task.read(names_folder), pretrained_folder, folder, OPTIONS)


def test_entities_are_learned(names_run):
    _, result = names_run
    assert result.test["f1"] > 0.9
    assert set(result.test) == {"f1", "precision", "recall", "accuracy", "loss"}


def test_a_written_model_predicts_the_same(names_run, names_folder):
    folder, result = names_run
    model = FinetunedModel.load(folder)
    assert isinstance(model.model, BertTokenClassifier)
    sentences = conll_task().read(names_folder).splits["test"]
    predictions = model.predict_examples(sentences)
    assert entity_f1(predictions, [s.tags for s in sentences]) == result.test["f1"]
    bare = [sentence._replace(tags=None) for sentence in sentences]
    again = model.predict_examples(bare)
    assert [p.tags for p in again] == [p.tags for p in predictions]


@pytest.mark.parametrize("members", [1, 2])
def test_tags_of_sentences_to_be_tagged_are_not_looked_at(tmp_path, members):
    folders = [write_model(tmp_path / f"{seed}", "tags", seed) for seed in range(members)]
    model = FinetunedModel.load(folders[0]) if members == 1 else FinetunedEnsemble.load(folders)
    sentence = TaggedSentence(("the", "film"))
    told = sentence._replace(tags=("B-NOT-OF-THE-MODEL", "O"))
    (bare,), (tagged,) = model.predict_examples([sentence]), model.predict_examples([told])
    assert tagged.tags == bare.tags
    np.testing.assert_array_equal(tagged.scores, bare.scores)
    with pytest.raises(ValueError, match="the tag head of the model does not: give a list of "):
        model.predict(["the film"])


def test_a_long_sentence_is_tagged_to_its_end(names_run):
    folder, _ = names_run
    words = ("the", "good", "book", "was", "film") * 30
    [prediction] = FinetunedModel.load(folder).predict_examples([TaggedSentence(words)])
    right = ("O", "B-NAME", "I-NAME", "O", "O") * 30
    assert np.mean([a == b for a, b in zip(prediction.tags, right, strict=True)]) > 0.99


def test_the_predictions_file_has_a_row_for_each_entity(names_run):
    folder, _ = names_run
    with open(folder / "predictions_test.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ["sentence", "entity", "predicted_label", "first_word", "last_word", "score"]
    assert list(rows[0]) == columns
    assert {row["predicted_label"] for row in rows} == {"NAME"}
    assert "great book" in {row["entity"] for row in rows}


def test_answer_rows_by_hand():
    sentence = TaggedSentence(("Rita", "Lee", "saw", "Oslo"))
    scores = np.array([0.75, 0.5, 1.0, 0.25], np.float32)
    prediction = TagPrediction(("B-X", "I-X", "O", "I-X"), scores)
    assert TagHead(labels=LABELS).answer_rows(prediction, sentence) == [
        ["Rita Lee", "X", "1", "2", "0.5"],
        ["Oslo", "X", "4", "4", "0.25"],
    ]
    prediction = TagPrediction(("N", "N", "V", "N"), scores)
    assert TagHead(labels=("N", "V")).answer_rows(prediction, sentence)[1:3] == [
        ["2", "Lee", "N", "0.5"],
        ["3", "saw", "V", "1"],
    ]


def test_plain_tags_stay_plain_whatever_they_look_like(pretrained_folder, tmp_path):
    (tmp_path / "train.txt").write_text("good B-X\nfilm I-X\nwas O\n\nthe O\nbook B-X\n")
    (tmp_path / "new.txt").write_text("the\nfilm\n\ngood\n")

    def predicted(folder):
        predict_file(folder, tmp_path / "new.txt", tmp_path / "out.csv")
        with open(tmp_path / "out.csv", newline="") as file:
            return list(csv.DictReader(file))

    task = conll_task(scheme="plain")
    FinetunedModel.from_task(task, task.read(tmp_path), pretrained_folder).save(tmp_path / "run")
    rows = predicted(tmp_path / "run")
    assert [(row["sentence"], row["word"]) for row in rows] == [
        ("1", "the"),
        ("1", "film"),
        ("2", "good"),
    ]
    assert {row["predicted_label"] for row in rows} <= {"B-X", "I-X", "O"}
    family = open_signatures(tmp_path / "run", ExportOptions())
    assert family.answer(text=tf.constant(["the film"]))["words"].numpy().tolist() == [
        [b"the", b"film"]
    ]
    # A folder of before says nothing of it: its tags are what they look like.
    content = json.loads((tmp_path / "run" / "task.json").read_text())
    assert content["head"].pop("plain") is True
    (tmp_path / "run" / "task.json").write_text(json.dumps(content))
    assert all("entity" in row for row in predicted(tmp_path / "run"))
    assert FinetunedModel.load(tmp_path / "run").description.head.tags_entities


def test_one_tag_for_all_words_is_a_collapse():
    told = [("O", "B-X"), ("O",)]
    same = [TagPrediction(("O", "O"), np.ones(2)), TagPrediction(("O",), np.ones(1))]
    assert TagHead(labels=LABELS).collapse(same, told) == "all 3 predictions are 'O'"
    same[0] = same[0]._replace(tags=("O", "B-X"))
    assert TagHead(labels=LABELS).collapse(same, told) is None


@pytest.mark.parametrize(
    ("labels", "plain", "expected"),
    [(("B-X", "O"), False, "O"), (("O", "B-X"), False, "O"), (("B-X", "O"), True, "B-X")],
)
def test_a_word_without_a_piece_is_in_no_entity(tokenizer, labels, plain, expected):
    # By hand: the model sees "d" alone, whose likelier label is the second.
    sentences = [TaggedSentence((REMOVED, "d"))]
    head = TagHead(labels=labels, plain=plain)
    rows = head.encode(tokenizer, sentences, 16, "tokenizing")
    [found] = head.predictions([np.tile(np.float32([0, 1]), [3, 1])], rows, sentences)
    assert found.tags == (expected, labels[1])
    assert found.scores[0] == 0


def test_tags_that_are_no_labels_are_told(pretrained_folder):
    with pytest.raises(
        ValueError, match=r"names the tags \[\], but tags are learned from at least"
    ):
        TagHead().with_labels([])
    sentences = [TaggedSentence(("a", "film"), ("O", "B-FILM"))]
    data = TaskData({"train": sentences}, ("O", "B-X"))
    model = FinetunedModel.from_task(Task("own", TagHead(), None, {}), data, pretrained_folder)
    with pytest.raises(ValueError, match=r"tag 'B-FILM', which is none of the 2 labels \(O, B-X\)"):
        model.training_data(data)


def test_confusion_counts_words():
    told = [("O", "B-X"), ("I-X", "O")]
    found = [TagPrediction(("O", "O"), np.ones(2)), TagPrediction(("I-X", "B-X"), np.ones(2))]
    assert TagHead(labels=LABELS).confusion(found, told).tolist() == [
        [1, 1, 0],
        [1, 0, 0],
        [0, 0, 1],
    ]


def test_the_loss_of_guessing_is_the_entropy_of_the_tags():
    sentences = [TaggedSentence(("d", "e"), ("O", "O")), TaggedSentence(("f", "g"), ("B-X", "I-X"))]
    expected = 0.5 * np.log(2) + 2 * 0.25 * np.log(4)
    assert TagHead(labels=LABELS).chance_loss(sentences) == pytest.approx(expected)


@pytest.mark.slow
def test_a_bilstm_learns_on_features_that_stay(names_folder, pretrained_folder, tmp_path):
    task = conll_task(features_from="last", lstm_width=16)
    data = task.read(names_folder)
    options = dataclasses.replace(OPTIONS, learning_rate=0.03)
    result = finetune(task, data, pretrained_folder, tmp_path, options)
    assert result.test["f1"] > 0.9
    loaded = FinetunedModel.load(tmp_path)
    assert isinstance(loaded.model, BertBiLSTMTagger)
    assert loaded.description.head == TagHead(
        features_from="last", lstm_width=16, labels=data.labels
    )
    before = {w.path: w.numpy() for w in BertEncoder.from_preset(pretrained_folder).weights}
    for weight in loaded.model.encoder.weights:
        np.testing.assert_array_equal(weight.numpy(), before[weight.path], weight.path)
    predictions = loaded.predict_examples(data.splits["test"])
    told = [sentence.tags for sentence in data.splits["test"]]
    assert entity_f1(predictions, told) == result.test["f1"]


@pytest.mark.parametrize(
    "options", [{"layer_decay": 0.9}, {"reinitialized_layers": 1}, {"lora_rank": 2}]
)
def test_frozen_features_stay_as_they_are(names_folder, pretrained_folder, tmp_path, options):
    task = conll_task(features_from="last", lstm_width=4)
    options = dataclasses.replace(OPTIONS, **options)
    with pytest.raises(ValueError, match="frozen features does not train the encoder: leave out"):
        finetune(task, task.read(names_folder), pretrained_folder, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_a_row_has_room_for_a_word(names_folder, pretrained_folder, tmp_path):
    task = conll_task()
    options = dataclasses.replace(OPTIONS, max_seq_length=2)
    with pytest.raises(ValueError, match="max_seq_length is 2: it must be at least 3"):
        finetune(task, task.read(names_folder), pretrained_folder, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_a_strategy_needs_its_layers(pretrained_folder):
    with pytest.raises(ValueError, match="concat_last_4 takes 4 layers but the model has 1"):
        BertBiLSTMTagger.from_preset(pretrained_folder, num_classes=2)
    with pytest.raises(ValueError, match="features_from is 'first': choose one of concat_last_4"):
        BertBiLSTMTagger.from_preset(pretrained_folder, num_classes=2, features_from="first")
