"""Scores, entities, words and the loss of the package gliner, from the same folders."""

import numpy as np
import pytest

from keras_bert import DebertaV2Config, EntityRecognizer, RobertaConfig, load_tokenizer
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from keras_bert.tasks.entity_recognition.head import SpanCrossentropy
from tests.signatures.tiny_models import random_texts
from tests.tasks.entity_models import entity_model, entity_tokenizer
from tests.text.family_tokenizers import byte_level_files, golden_texts, sentencepiece_files
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

LABELS = ["the film", "person", "date of birth"]
POSITIONS, WORDS = 96, 40
ASKED = [
    {},
    {"multi_label": True},
    {"flat": False, "multi_label": True, "threshold": 0.4},
]


@pytest.fixture(scope="module", autouse=True)
def offline():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


def their_model(folder):
    import gliner

    return gliner.GLiNER.from_pretrained(str(folder), local_files_only=True)


@pytest.fixture(scope="module")
def written_by_us(tmp_path_factory):
    """Returns a function: a folder that we wrote, of any family of tokenizers."""

    def write(family):
        folder = tmp_path_factory.mktemp(family)
        if family == "bert":
            model, tokenizer = (
                entity_model(positions=POSITIONS, max_words=WORDS),
                entity_tokenizer(),
            )
            tokenizer.save(folder)
        elif family == "roberta":
            files = byte_level_files()
            config = RobertaConfig(
                vocab_size=len(files.vocabulary),
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=POSITIONS,
                initializer_range=0.5,
            )
            model = entity_model(config=config, max_words=WORDS)
            files.save(folder)
        else:
            files = sentencepiece_files("deberta")
            config = DebertaV2Config(
                vocab_size=len(files.vocabulary),
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=POSITIONS,
                position_buckets=16,
                initializer_range=0.5,
            )
            # A width of its own, and no LSTM.
            model = entity_model(
                seed=4, scale=1.0, config=config, num_rnn_layers=0, max_words=WORDS
            )
            files.save(folder)
        checkpoints.write(preset.as_checkpoint(model), folder, "gliner")
        return folder

    return write


@pytest.fixture(scope="module")
def written_by_them(tmp_path_factory, written_by_us):
    """A folder that gliner wrote: its tokenizer.json has the markers, its config their ids."""
    folder = tmp_path_factory.mktemp("theirs")
    their_model(written_by_us("bert")).save_pretrained(folder, safe_serialization=True)
    assert (folder / "tokenizer.json").is_file() and not (folder / "vocab.txt").exists()
    return folder


def texts_of_one_row():
    texts = [*random_texts(8, seed=4, longest=12), *(text[:40] for text in golden_texts()[:60])]
    # Words of removed characters alone have no piece, and move the vectors of all words behind
    # them by one in gliner.
    texts = [text for text in texts if text.isprintable() and len(text) < 60]
    return texts + ["Zo\u00eb-Marie was_born--on 3-4-2020 (in New York)!", ""]


def check(folder):
    theirs, ours = their_model(folder), EntityRecognizer.from_preset(folder)
    texts, several = texts_of_one_row(), 0
    for asked in ASKED:
        flat, multi_label = asked.get("flat", True), asked.get("multi_label", False)
        threshold = asked.get("threshold", 0.5)
        expected = theirs.inference(
            texts, LABELS, flat_ner=flat, multi_label=multi_label, threshold=threshold
        )
        found = ours.recognize(texts, LABELS, threshold, flat, multi_label)
        for text, one, other in zip(texts, found, expected, strict=True):
            places = [(e.start, e.end, e.text, e.label) for e in one]
            keys = ("start", "end", "text", "label")
            assert places == [tuple(e[key] for key in keys) for e in other], text
            scores = [e["score"] for e in other]
            np.testing.assert_allclose([e.score for e in one], scores, **ORACLE)
            several += len(places)
    assert several > 100


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta"])
def test_gliner_answers_alike_from_folders_that_we_write(written_by_us, family):
    check(written_by_us(family))


def test_we_answer_alike_from_folders_that_gliner_writes(written_by_them):
    check(written_by_them)
    pieces = len(entity_tokenizer().vocabulary)
    assert load_tokenizer(written_by_them).vocabulary.tokens == entity_tokenizer().vocabulary.tokens
    assert BertEntityMatcher.from_preset(written_by_them).entity_token_id == pieces + 1


def test_words_are_those_of_gliner():
    from gliner.data_processing.tokenizer import WhitespaceTokenSplitter

    from tests.tasks.test_entity_recognition import words_of

    texts, splitter = golden_texts(), WhitespaceTokenSplitter()
    expected = [[(start, end) for _, start, end in splitter(text)] for text in texts]
    assert words_of(texts) == expected


@pytest.mark.parametrize(("alpha", "gamma"), [(None, 0.0), (0.75, 2.0)])
def test_the_loss_is_that_of_gliner(alpha, gamma):
    import torch
    from gliner.modeling.loss_functions import focal_loss_with_logits

    draw = np.random.default_rng(0)
    scores = draw.normal(size=(2, 3, 2, 4)).astype(np.float32)
    targets = draw.integers(0, 2, size=scores.shape).astype(np.float32)
    expected = focal_loss_with_logits(
        torch.tensor(scores), torch.tensor(targets), -1 if alpha is None else alpha, gamma
    )
    found = SpanCrossentropy(alpha, gamma).call(targets, scores)
    np.testing.assert_allclose(found, expected.numpy().sum((1, 2, 3)), **ORACLE)


def test_f1_is_that_of_seqeval():
    from seqeval.metrics import f1_score

    from keras_bert.tasks.entity_recognition.metrics import span_f1
    from keras_bert.tasks.entity_recognition.sentences import EntitySpan, ScoredSpan

    draw = np.random.default_rng(2)
    tags, spans = [[], []], [[], []]
    for _ in range(50):
        for side in range(2):
            of_text, found = [], []
            while len(of_text) < 12:
                if draw.random() < 0.5:
                    size, label = int(draw.integers(1, 3)), str(draw.choice(["x", "y"]))
                    last = len(of_text) + size - 1
                    found.append(EntitySpan(len(of_text), last, label))
                    of_text += [f"B-{label}", *[f"I-{label}"] * (size - 1)]
                else:
                    of_text.append("O")
            tags[side].append(of_text + ["O"] * (14 - len(of_text)))
            spans[side].append(found)
    predicted = [[ScoredSpan(*span, 0.9) for span in of_text] for of_text in spans[1]]
    assert span_f1(predicted, spans[0]) == pytest.approx(f1_score(*tags))
