"""Text to text by Mask-Predict: masks and losses by hand, a task that is learned, its export."""

import csv
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertTokenizer, FinetunedModel, predict_file
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.serving.graph_operations import graph_operations
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.kinds import load_description
from keras_bert.tasks.registry import create_task
from keras_bert.tasks.seq2seq import metrics
from keras_bert.tasks.seq2seq.head import Seq2SeqHead, SourceTarget
from keras_bert.tasks.seq2seq.metrics import GeneratedText
from keras_bert.tasks.seq2seq.rows import drawn_masks
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.conftest import WORDS, write_csv
from tests.tolerances import FORMULA, REORDERED, approx
from tests.tools.test_faults import run_tools

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *WORDS])
TOKENIZER = BertTokenizer(VOCABULARY)
CLS, SEP, PAD = 2, 3, 0
SHOWN = ("decoder_input_ids", "decoder_masked")
NEW = ["good bad", "nice great awful", "bad bad poor great"]


# --- Rows and losses by hand ----------------------------------------------------------------------


def ids(text):
    return [VOCABULARY.id_of(piece) for piece in text.split()]


def encoded(targets, max_target_length=8):
    head = Seq2SeqHead(max_target_length=max_target_length, decoding="mask_predict")
    examples = [SourceTarget("a film", target) for target in targets]
    return head.encode(TOKENIZER, examples, 8, "tokenizing")


def epoch_of(rows, numbers, epoch, whole=None):
    numbers = tf.constant(numbers, tf.int64)
    whole = numbers if whole is None else tf.constant(whole, tf.int64)
    return rows.training_examples(numbers, whole, tf.constant([7, epoch], tf.int64))


def test_rows_are_whole_targets_and_labels_are_what_is_hidden():
    rows = encoded(["good book", "it was a very good film", None], 6)
    inputs, labels = epoch_of(rows, [0, 1, 2], 0)
    assert inputs["decoder_input_ids"].numpy().tolist() == [
        [CLS, *ids("good book"), SEP, PAD, PAD, PAD],
        [CLS, *ids("it was a very good"), SEP],  # cut to six with the end
        [CLS, SEP, PAD, PAD, PAD, PAD, PAD],
    ]
    mask = [[1, 1, 1, 1, 0, 0, 0], [1] * 7, [1, 1, 0, 0, 0, 0, 0]]
    assert inputs["decoder_input_mask"].numpy().tolist() == mask
    masked = inputs["decoder_masked"].numpy()
    assert not masked[:, 0].any() and not masked[0, 3:].any() and not masked[1, 6]
    assert masked[0].sum() in (1, 2) and 1 <= masked[1].sum() <= 5 and not masked[2].any()
    expected = np.where(masked == 1, inputs["decoder_input_ids"], -1)
    np.testing.assert_array_equal(labels["logits"], expected)
    assert labels["length_logits"].numpy().tolist() == [1, 4, 0]  # classes of 2, 5 and 1 pieces


def test_masks_follow_from_seed_epoch_and_example_alone():
    rows = encoded(["it was a very good film"] * 8, 12)

    def masks(*arguments):
        return epoch_of(rows, *arguments)[0]["decoder_masked"].numpy()

    first = masks(range(8), 0)
    np.testing.assert_array_equal(masks([5, 2], 0, range(8)), first[[5, 2]])
    assert (masks(range(8), 1) != first).any(axis=1).sum() >= 6
    assert (first[1:] != first[0]).any(axis=1).sum() >= 6
    # Evaluation hides the same in every epoch.
    [one, two] = [rows.examples(tf.range(8), tf.range(8))[0]["decoder_masked"] for _ in range(2)]
    np.testing.assert_array_equal(one, two)


def test_batches_carry_seed_and_epoch_to_the_masks():
    words = WORDS[:12]
    rows = encoded([" ".join(words[n : n + 6]) for n in range(6)], 12)

    def masks(seed, epoch, **arguments):
        """The masks by targets, which epochs bring in other orders."""
        batches = rows.training_batches(4, seed).epoch(epoch, **arguments).as_numpy_iterator()
        return {
            tuple(ids.tolist()): tuple(masked.tolist())
            for inputs, *_ in batches
            for ids, masked in zip(
                inputs["decoder_input_ids"], inputs["decoder_masked"], strict=True
            )
        }

    first = masks(3, 0)
    assert len(first) == 6 and masks(3, 0) == first
    assert masks(3, 0, first_batch=1) == dict(list(first.items())[4:])
    for other in (masks(3, 1), masks(4, 0)):
        assert other.keys() == first.keys()
        assert sum(other[ids] != first[ids] for ids in first) >= 4


def test_every_number_of_gaps_and_every_place_is_as_likely():
    counters = tf.stack([tf.range(6000, dtype=tf.int64), tf.zeros(6000, tf.int64)], axis=1)
    masked = drawn_masks(tf.fill([6000], 4), tf.constant(7), counters).numpy()  # [6000, 7]
    assert not masked[:, 0].any() and not masked[:, 5:].any()
    # 1500 of each number and 2.5 gaps in 4 places: 3750 of each; five standard deviations.
    numbers = np.bincount(masked.sum(axis=1), minlength=5)
    assert numbers[0] == 0 and np.abs(numbers[1:] - 1500).max() < 5 * np.sqrt(6000 * 0.1875)
    assert np.abs(masked[:, 1:5].sum(axis=0) - 3750).max() < 5 * np.sqrt(6000 * 0.234)


def test_the_losses_are_of_hidden_pieces_and_of_the_length():
    losses = Seq2SeqHead(decoding="mask_predict").loss(0.1)
    assert losses.keys() == {"logits", "length_logits"}
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(2, 3, 5)).astype(np.float32)
    labels = np.array([[-1, 2, 3], [-1, 4, -1]])
    values = tf.nn.log_softmax(logits).numpy()
    smoothed = 0.9 * values + 0.1 * values.mean(axis=-1, keepdims=True)
    told = [smoothed[0, 1, 2], smoothed[0, 2, 3], smoothed[1, 1, 4]]
    assert float(losses["logits"](labels, logits)) == approx(-np.mean(told), FORMULA)
    lengths = draw.normal(size=(2, 6)).astype(np.float32)
    values = tf.nn.log_softmax(lengths).numpy()  # not smoothed
    expected = -(values[0, 1] + values[1, 0]) / 2
    assert float(losses["length_logits"](np.array([1, 0]), lengths)) == approx(expected, FORMULA)


def test_right_lengths_are_counted():
    found = [GeneratedText("a", -1.0, "b", 1, 2, 3.0, right) for right in (True, False, True)]
    assert metrics.length_accuracy(found, None) == approx(2 / 3, FORMULA)
    assert "length_accuracy" not in metrics.seq2seq_metrics()


# --- A task that is learned -----------------------------------------------------------------------


def reverse(text):
    return " ".join(reversed(text.split()))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on sources that are to be reversed: its folder and its result."""
    folder = tmp_path_factory.mktemp("reverse")
    draw = random.Random(0)
    for name, count in {"train": 960, "dev": 32}.items():
        texts = [" ".join(draw.choices(WORDS[:8], k=draw.randint(2, 4))) for _ in range(count)]
        rows = [(text, reverse(text)) for text in texts]
        write_csv(folder / f"{name}.csv", ["source", "target"], rows)
    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        initializer_range=0.1,
    )
    BertEncoder(config).save_to_preset(folder / "start", TOKENIZER)
    task = create_task(
        "seq2seq",
        decoding="mask_predict",
        iterations=4,
        length_candidates=1,
        max_target_length=6,
    )
    options = FinetuningOptions(
        epochs=9, batch_size=32, learning_rate=5e-3, max_seq_length=8, mixed_precision="float32"
    )
    data = task.read(folder)
    return folder / "run", finetune(task, data, folder / "start", folder / "run", options)


def written(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_what_was_learned_is_written(run, tmp_path):
    folder, result = run
    assert result.validation["token_accuracy"] > 0.95
    assert result.validation["length_accuracy"] > 0.9  # 1, but for another processor's rounding
    write_csv(tmp_path / "new.csv", ["source"], [[text] for text in NEW])
    predict_file(folder, tmp_path / "new.csv", tmp_path / "written.csv")
    rows = written(tmp_path / "written.csv")
    assert [row["generated_text"] for row in rows] == [reverse(text) for text in NEW]
    assert all(-1 < float(row["score"]) < 0 for row in rows)
    head = load_description(folder).head
    assert (head.iterations, head.length_candidates, head.mask_token_id) == (4, 1, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [
        {"iterations": 1},
        pytest.param({}, marks=pytest.mark.long),
        pytest.param({"length_candidates": 3}, marks=pytest.mark.long),
    ],
)
def test_an_export_writes_what_the_live_model_writes(run, search, tmp_path):
    # The live model is asked by the tool, whose flags these are.
    folder, _ = run
    write_csv(tmp_path / "new.csv", ["source"], [[text] for text in NEW])
    command = ["predict.py", f"--model_dir={folder}", "--input=new.csv", "--output=written.csv"]
    command += [f"--{name}={value}" for name, value in search.items()]
    [ran] = run_tools([{"command": command}], tmp_path)
    assert ran["status"] == 0, ran["printed"]
    rows = written(tmp_path / "written.csv")
    version = export_saved_model(folder, tmp_path / "served", options=ExportOptions(**search))
    assert not graph_operations(version) & {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
    served = tf.saved_model.load(str(version)).signatures["serving_default"]
    found = served(source=tf.constant(NEW))
    assert [text.decode() for text in found["generated_text"].numpy()] == [
        row["generated_text"] for row in rows
    ]
    scores = [float(row["score"]) for row in rows]
    np.testing.assert_allclose(found["score"], scores, **REORDERED)
    none = served(source=tf.constant([], tf.string))
    assert none["generated_text"].shape == (0,) and none["score"].shape == (0,)
    if search:  # the run's own has four iterations over the likeliest length alone
        live = FinetunedModel.load(folder)
        examples = [SourceTarget(text) for text in NEW]
        sure = [one.score for one in live.predict_examples(examples)]
        assert np.abs(np.array(scores) - sure).max() > 1e-4


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"decoding": "parallel"}, "decoding is 'parallel': choose one of autoregressive, mask_p"),
        ({"iterations": 4}, "iterations: of the decoding 'mask_predict', but decoding is 'autore"),
        (
            {"decoding": "mask_predict", "beam_size": 4, "length_penalty": 1.0},
            "beam_size and length_penalty: of the decoding 'autoregressive'",
        ),
        ({"decoding": "mask_predict", "iterations": 0}, "iterations is 0: it must be at least 1"),
        (
            {"decoding": "mask_predict", "max_target_length": 4, "length_candidates": 4},
            "a target of at most 4 pieces with its end has 3 lengths: give at most as many",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_task("seq2seq", **arguments)


def test_search_settings_are_refused_where_there_is_no_such_search():
    with pytest.raises(ValueError, match="iterations: the model writes texts piece by piece"):
        Seq2SeqHead().with_search(iterations=2)
    with pytest.raises(ValueError, match="iterations is 0: it must be at least 1"):
        ExportOptions(iterations=0)
    head = Seq2SeqHead(max_target_length=16, decoding="mask_predict")
    config = BertConfig.from_name("bert_tiny", vocab_size=100, max_position_embeddings=16)
    with pytest.raises(ValueError, match="one of which is for .CLS.: use at most 15"):
        head.check_config(config)


def test_other_models_take_no_iterations(sentiment_run, tmp_path):
    folder, _ = sentiment_run
    write_csv(tmp_path / "new.csv", ["text"], [["good"]])
    with pytest.raises(ValueError, match="has a text head: leave them out"):
        predict_file(folder, tmp_path / "new.csv", tmp_path / "out.csv", iterations=3)
    with pytest.raises(ValueError, match="--iterations is for encoders with a decoder: leave it"):
        export_saved_model(folder, tmp_path / "served", options=ExportOptions(iterations=3))
