"""Text to text: rows by hand, a task that can be learned, generated texts in files and served."""

import csv
import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoderDecoder, BertTokenizer, FinetunedModel, predict_file
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.features import INPUT_IDS
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.models import preset
from keras_bert.models.seq2seq.decoder import DECODER_INPUT_IDS
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.registry import create_task
from keras_bert.tasks.seq2seq import answer_table, metrics
from keras_bert.tasks.seq2seq.head import Seq2SeqHead, SourceTarget
from keras_bert.tasks.seq2seq.metrics import GeneratedText
from keras_bert.tasks.seq2seq.pair_files import read_pairs
from keras_bert.tasks.seq2seq.rows import labels_of, written_text
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.visualize.attributions.predictions import explain_file
from tests.conftest import WORDS, sentiment_rows, write_csv
from tests.tolerances import FORMULA, REORDERED, approx

WRITTEN = {"pos": "the film was good", "neg": "it was bad"}
NEW = ["a good book", "the film was very bad", "it was nice and fine"]
OPTIONS = FinetuningOptions(
    epochs=3,
    batch_size=16,
    learning_rate=3e-3,
    max_seq_length=16,
    mixed_precision="float32",
    label_smoothing=0.1,
)


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """Sentences, and what is to be written of each."""
    folder = tmp_path_factory.mktemp("pairs")
    for seed, (name, count) in enumerate({"train": 480, "dev": 24, "test": 8}.items()):
        rows = [(text, WRITTEN[label]) for text, label in sentiment_rows(count, seed)]
        write_csv(folder / f"{name}.csv", ["question", "reply"], rows)
    return folder


def make_task(**arguments):
    columns = {"source_column": "question", "target_column": "reply", "max_target_length": 8}
    return create_task("seq2seq", **(columns | arguments))


@pytest.fixture(scope="module")
def run(pretrained_folder, data_folder, tmp_path_factory):
    """A finished run: its folder and its result."""
    task = make_task(beam_size=2)
    folder = tmp_path_factory.mktemp("runs") / "replies"
    return folder, finetune(task, task.read(data_folder), pretrained_folder, folder, OPTIONS)


@pytest.mark.slow
def test_what_was_learned_is_written(run, tmp_path):
    folder, result = run
    assert result.validation["token_accuracy"] > 0.95
    assert set(result.metrics) == {"validation", "test"}
    # Epochs are measured with the target given; texts are generated once, at the end.
    for epoch in result.epochs:
        assert epoch["validation"].keys() == {"token_accuracy", "loss"}
    assert result.epochs[-1]["validation"]["loss"] < result.epochs[0]["validation"]["loss"]
    write_csv(tmp_path / "new.csv", ["question"], [[text] for text in NEW])
    assert predict_file(folder, tmp_path / "new.csv", tmp_path / "written.csv") == 3
    with open(tmp_path / "written.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["question", "generated_text", "score"]
    expected = [WRITTEN["pos"], WRITTEN["neg"], WRITTEN["pos"]]
    assert [row["generated_text"] for row in rows] == expected
    assert all(-1 < float(row["score"]) < 0 for row in rows)
    with open(folder / "predictions_test.csv", encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["source", "target", "generated_text", "score"]


@pytest.mark.slow
def test_an_export_writes_what_the_live_model_writes(run, tmp_path):
    folder, _ = run
    live = FinetunedModel.load(folder).predict_examples([SourceTarget(text) for text in NEW])
    version = export_saved_model(folder, tmp_path / "replies")
    served = tf.saved_model.load(str(version)).signatures["serving_default"]
    found = served(source=tf.constant(NEW))
    assert [text.decode() for text in found["generated_text"].numpy()] == [one.text for one in live]
    np.testing.assert_allclose(found["score"], [one.score for one in live], **REORDERED)
    none = served(source=tf.constant([], tf.string))
    assert none["generated_text"].shape == (0,) and none["score"].shape == (0,)
    # What a server answers makes the same table.
    answer = {"generated_text": live[0].text, "score": live[0].score}
    columns, [row] = answer_table.served(answer)
    assert columns == ["generated_text", "score"] and row[0] == live[0].text


@pytest.mark.slow
def test_hugging_faces_folder_of_the_run_is_served_alike(run, tmp_path):
    folder, _ = run
    checkpoints.write(preset.read_checkpoint(folder), tmp_path, "hf")
    BertTokenizer.from_preset(folder).save(tmp_path)
    family = open_signatures(tmp_path, ExportOptions())
    assert "4 beams" in family.reason
    written = family.answer(tf.constant(NEW))["generated_text"].numpy().tolist()
    assert written == [WRITTEN[label].encode() for label in ("pos", "neg", "pos")]


@pytest.mark.slow
def test_one_set_of_weights_learns_and_comes_back(pretrained_folder, data_folder, tmp_path):
    task = make_task(decoder="bertshare", beam_size=1)
    data = task.read(data_folder)
    few = {name: split[:16] for name, split in data.splits.items() if name != "test"}
    options = dataclasses.replace(OPTIONS, epochs=1, accumulation_steps=2)
    data = dataclasses.replace(data, splits=few)
    finetune(task, data, pretrained_folder, tmp_path / "run", options)
    model = BertEncoderDecoder.from_preset(tmp_path / "run")
    assert model.decoder_start == "bertshare"
    assert (model.start_token_id, model.end_token_id) == (2, 3)
    before = preset.read_checkpoint(pretrained_folder).variables
    for path in ("layer_0/intermediate/kernel", "word_embeddings/embeddings"):
        [learned] = [weight.numpy() for weight in model.weights if weight.path == path]
        assert np.abs(learned - before[path]).max() > 1e-4
    # The pooler has no part in it.
    [pooler] = [weight.numpy() for weight in model.weights if weight.path == "pooler/kernel"]
    np.testing.assert_array_equal(pooler, before["pooler/kernel"])


# --- Rows and measures by hand ------------------------------------------------------------------

TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS, "##s"]))
CLS, SEP, PAD = 2, 3, 0


def ids(text):
    return [TOKENIZER.vocabulary.id_of(piece) for piece in text.split()]


def encoded(pairs, max_target_length=8):
    head = Seq2SeqHead(max_target_length=max_target_length)
    return head.encode(TOKENIZER, [SourceTarget(*pair) for pair in pairs], 8, "tokenizing")


def test_rows_of_a_source_and_a_target():
    rows = encoded([("a film", "good films"), ("sad", "it was a very good book")], 5)
    inputs, labels = rows.examples(tf.constant([0, 1]), tf.constant([0, 1]))
    assert inputs[INPUT_IDS][:, :4].numpy().tolist() == [
        [CLS, *ids("a film"), SEP],
        [CLS, *ids("sad"), SEP, PAD],
    ]
    # Cut to five pieces with the end.
    assert inputs[DECODER_INPUT_IDS].numpy().tolist() == [
        [CLS, *ids("good film ##s"), PAD],
        [CLS, *ids("it was a very")],
    ]
    expected = [[*ids("good film ##s"), SEP, -1], [*ids("it was a very"), SEP]]
    assert labels.numpy().tolist() == expected
    # Evaluation makes the labels of the inputs.
    assert labels_of(inputs[DECODER_INPUT_IDS], PAD, SEP).numpy().tolist() == expected
    assert rows.real_tokens == 4 + 3 + 4 + 5
    # Told when a run begins; "it was a very" and its end are five.
    assert rows.remark == "1 of 2 targets are cut to max_target_length 5"
    assert not encoded([("a film", "good films"), ("sad", "it was a very")], 5).remark


def test_a_source_without_a_target_is_a_row():
    inputs, _ = encoded([("a film", None)]).examples(tf.constant([0]), tf.constant([0]))
    assert inputs[DECODER_INPUT_IDS].numpy().tolist() == [[CLS, *[PAD] * 7]]


def test_a_compiled_step_sees_few_lengths():
    rows = encoded([("a film", "good"), ("a film", " ".join(["good"] * 30))], 24)
    rows.fixed_lengths([8])
    lengths = [
        rows.examples(tf.constant([0]), tf.constant(whole))[1].shape[1] for whole in ([0], [0, 1])
    ]
    assert lengths == [8, 24]


def test_texts_end_before_the_end():
    row = [*ids("it was good ##s"), SEP, *ids("bad"), SEP]
    found = written_text(TOKENIZER, tf.constant([row, [SEP] * 7]), SEP)
    assert found.numpy().tolist() == [b"it was goods", b""]


@pytest.mark.slow
def test_losses_are_those_of_the_logits(run):
    folder, _ = run
    tuned = FinetunedModel.load(folder)
    examples = [SourceTarget(NEW[0], WRITTEN["pos"]), SourceTarget(NEW[1], "it was bad")]
    found = tuned.predict_examples(examples)
    rows = tuned.description.head.encode(tuned.tokenizer, examples, 16, "tokenizing")
    inputs, labels = rows.examples(tf.constant([0, 1]), tf.constant([0, 1]))
    log_probabilities = tf.nn.log_softmax(tuned.model(inputs)).numpy()
    for one, values, target in zip(found, log_probabilities, labels.numpy(), strict=True):
        told = [(place, piece) for place, piece in enumerate(target) if piece >= 0]
        assert one.pieces == len(told)
        assert one.right == sum(values[place].argmax() == piece for place, piece in told)
        expected = -sum(values[place][piece] for place, piece in told)
        assert one.loss == approx(expected, REORDERED)
    assert [one.target for one in found] == [WRITTEN["pos"], "it was bad"]


def test_padding_is_that_of_the_vocabulary_and_rows_behind_it_are_no_text():
    # [PAD] stands behind the words, and a word has the id that the config pads with.
    tokenizer = BertTokenizer(Vocabulary([*WORDS, *SPECIAL_TOKENS]))
    head = Seq2SeqHead(max_target_length=6, beam_size=1).for_tokenizer(tokenizer)
    config = BertConfig.from_name("tiny", vocab_size=-(-len(tokenizer.vocabulary) // 64) * 64)
    assert tokenizer.vocabulary.id_of(WORDS[0]) == config.pad_token_id == 0
    model = BertEncoderDecoder(config, **head.model_arguments())
    examples = [SourceTarget("a film", f"{WORDS[0]} {WORDS[1]} {WORDS[0]}"), SourceTarget("sad")]
    rows = head.encode(tokenizer, examples, 8, "tokenizing")
    inputs, _ = rows.examples(tf.constant([0, 1]), tf.constant([0, 1]))
    # The likeliest of all is a row that only brings the table to a multiple of 64.
    bias = np.zeros(config.vocab_size, np.float32)
    bias[len(tokenizer.vocabulary) + 1], bias[tokenizer.vocabulary.id_of("good")] = 100, 50
    model.masked_lm_bias.bias.assign(bias)
    outputs = head.answering(model, final=True)(inputs)
    assert outputs["pieces"].numpy().tolist() == [4, 1]
    outputs = {name: values.numpy() for name, values in outputs.items()}
    found = head.predictions(outputs, rows, examples)
    assert [one.text for one in found] == [" ".join(["good"] * 6)] * 2


def made(text, target, right=1, pieces=2, loss=1.0):
    return GeneratedText(text, -0.5, target, right, pieces, loss)


def test_pieces_count_alike_in_long_and_short_targets():
    found = [made("a", "b", 1, 2, 3.0), made("a", "b", 6, 6, 1.0)]
    assert metrics.token_accuracy(found, None) == approx(7 / 8, FORMULA)
    assert metrics.token_loss(found, None) == approx(4 / 8, FORMULA)


@pytest.mark.oracle
def test_texts_are_measured_by_sacrebleu():
    found = [made("the film was good", "the film was good"), made("it was", "it was very bad")]
    assert metrics.seq2seq_metrics().keys() == {"token_accuracy", "loss", "chrf", "bleu"}
    # 6 of 6 words, 4 of 4 pairs, 2 of 2, 1 of 1; 6 words for 8: exp(1 - 8 / 6).
    assert metrics.bleu(found, None) == pytest.approx(100 * np.exp(1 - 8 / 6), rel=1e-6)
    assert metrics.chrf([made("good", "good")], None) == pytest.approx(100, rel=1e-6)
    assert metrics.chrf([made(None, None)], None) is None


# --- Files, and what is refused -----------------------------------------------------------------


def test_an_example_has_strings():
    assert SourceTarget(b"good", "gut") == SourceTarget("good", "gut")
    for texts, name in (((None, "gut"), "source is a NoneType"), (("good", 5), "target is a int")):
        with pytest.raises(ValueError, match=f"{name}: give a string"):
            SourceTarget(*texts)


def test_tables_of_other_columns_and_lines_of_json(tmp_path):
    (tmp_path / "a.tsv").write_text("en\tde\ngood\tgut\n")
    assert read_pairs(tmp_path / "a.tsv", "en", "de") == [SourceTarget("good", "gut")]
    (tmp_path / "b.jsonl").write_text(json.dumps({"source": "x"}) + "\n")
    assert read_pairs(tmp_path / "b.jsonl") == [SourceTarget("x")]
    (tmp_path / "b.jsonl").write_text(json.dumps({"source": "x", "target": ["y", "z"]}) + "\n")
    with pytest.raises(ValueError, match="b.jsonl, line 1: target is a list: give each of its tex"):
        read_pairs(tmp_path / "b.jsonl")  # its JSON was the text to write


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("source,target\n a , \n", "line 2: target is empty: fill it or remove the row"),
        ("source,target\n,b\n", "line 2: source is empty"),
        ("text,target\na,b\n", "name the right one with --source_column"),
        ("source,text\na,b\n", "name the right one with --target_column"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, text, sentence):
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        create_task("seq2seq").read(tmp_path)


def test_no_text_is_its_own_target():
    with pytest.raises(ValueError, match="source_column and target_column are both 'source': na"):
        create_task("seq2seq", target_column="source")


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ({"max_target_length": 65}, {}, "max_target_length is 65 but the model has 64 positions"),
        ({}, {"teacher": "runs/teacher"}, "a seq2seq model does not learn from a teacher"),
        (
            {},
            {"lora_rank": 4},
            "lora_rank is 4, but a seq2seq model has weights beside the encoder",
        ),
        ({}, {"class_weights": "balanced"}, "leave out --class_weights"),
    ],
)
def test_runs_that_cannot_be_are_refused(
    pretrained_folder, data_folder, tmp_path, arguments, options, sentence
):
    task = make_task(**arguments)
    data = task.read(data_folder)
    (tmp_path / "runs").mkdir()
    if "teacher" in options:
        (tmp_path / "teacher").mkdir()
        (tmp_path / "teacher" / "model.weights.h5").write_bytes(b"")
        options = {"teacher": str(tmp_path / "teacher")}
    changed = dataclasses.replace(OPTIONS, epochs=1, **options)
    with pytest.raises(ValueError, match=sentence):
        finetune(task, data, pretrained_folder, tmp_path / "run", changed)


def test_texts_without_targets_teach_nothing(pretrained_folder, data_folder, tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_bytes((data_folder / f"{name}.csv").read_bytes())
    write_csv(tmp_path / "unlabeled.csv", ["question"], [[text] for text in NEW])
    task = make_task()
    with pytest.raises(ValueError, match="3 unlabeled examples, from which nothing is learned"):
        finetune(task, task.read(tmp_path), pretrained_folder, tmp_path / "run", OPTIONS)


@pytest.mark.slow
def test_what_else_is_refused_in_one_sentence(run, tmp_path):
    folder, _ = run
    with pytest.raises(ValueError, match="beam_size is 0"):
        create_task("seq2seq", beam_size=0)
    with pytest.raises(ValueError, match="decoder is 'gpt2': choose one of bert2bert"):
        create_task("seq2seq", decoder="gpt2")
    with pytest.raises(ValueError, match="reads files with the columns source and target"):
        create_task("seq2seq").read("tfds:ted_hrlr_translate")
    with pytest.raises(ValueError, match="with WordPiece alone"):
        Seq2SeqHead().for_tokenizer(object())
    write_csv(tmp_path / "new.csv", ["question"], [[text] for text in NEW])
    with pytest.raises(ValueError, match="writes texts: which words made them is not explained"):
        explain_file(folder, tmp_path / "new.csv", tmp_path / "explained.jsonl")


def test_the_loss_is_the_mean_over_pieces_and_not_over_targets():
    """Targets of three pieces and of one: each piece counts a quarter."""
    keras.utils.set_random_seed(1)
    loss = Seq2SeqHead().loss(0.0)
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    labels = np.array([[1, 2, 3], [4, -1, -1]])
    values = tf.nn.log_softmax(logits).numpy()
    told = [values[0, 0, 1], values[0, 1, 2], values[0, 2, 3], values[1, 0, 4]]
    assert float(loss(labels, logits)) == approx(-np.mean(told), FORMULA)
