"""Entity metrics: the same numbers as seqeval, and entities worked out by hand."""

import random
import warnings

import numpy as np
import pytest

from keras_bert.tasks.tagging.entities import Entity, as_bio, detect_scheme, entities
from keras_bert.tasks.tagging.head import TagPrediction
from keras_bert.tasks.tagging.metrics import (
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
)


def predicted(sentences):
    return [TagPrediction(tuple(tags), np.ones(len(tags), np.float32)) for tags in sentences]


def random_sentences(draw, letters, types, count):
    tags = ["O", *(f"{letter}-{type_}" for letter in letters for type_ in types)]
    return [draw.choices(tags, k=draw.randint(1, 12)) for _ in range(count)]


@pytest.mark.oracle
@pytest.mark.parametrize("letters", ["BI", "I", "BIES"])
def test_thousands_of_random_sequences_score_as_in_seqeval(letters):
    # Random tags break every scheme, which is what models do as well.
    import seqeval.metrics as oracle

    warnings.simplefilter("ignore")
    draw = random.Random(letters)
    for _ in range(700):
        told = random_sentences(draw, letters, ["PER", "LOC", "A-B"], 5)
        found = [
            [tag if draw.random() < 0.7 else other for tag, other in zip(*pair, strict=True)]
            for pair in zip(
                told, [draw.choices(sum(told, []), k=len(tags)) for tags in told], strict=True
            )
        ]
        guess = predicted(found)
        assert entity_precision(guess, told) == oracle.precision_score(told, found)
        assert entity_recall(guess, told) == oracle.recall_score(told, found)
        assert entity_f1(guess, told) == pytest.approx(oracle.f1_score(told, found), abs=1e-12)
        assert tag_accuracy(guess, told) == oracle.accuracy_score(told, found)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        ("I-PER I-PER B-PER I-LOC", [("PER", 0, 1), ("PER", 2, 2), ("LOC", 3, 3)]),
        ("B-PER E-PER S-PER O S-LOC", [("PER", 0, 1), ("PER", 2, 2), ("LOC", 4, 4)]),
        ("B-PER E-PER I-PER", [("PER", 0, 1), ("PER", 2, 2)]),
        ("O I-PER O", [("PER", 1, 1)]),
        ("O O", []),
    ],
)
def test_entities_of_each_scheme(tags, expected):
    assert entities(tags.split()) == [Entity(*entity) for entity in expected]


def test_metrics_by_hand():
    told = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    found = [["B-PER", "I-PER", "B-LOC"], ["B-PER", "O"]]
    # Three predicted, two there, one right.
    assert entity_precision(predicted(found), told) == 1 / 3
    assert entity_recall(predicted(found), told) == 1 / 2
    assert entity_f1(predicted(found), told) == 2 / 5
    assert tag_accuracy(predicted(found), told) == 3 / 5


def test_no_entities_score_zero():
    assert entity_f1(predicted([["O"]]), [["O"]]) == 0.0
    assert entity_precision(predicted([["O"]]), [["B-PER"]]) == 0.0
    assert entity_recall(predicted([["B-PER"]]), [["O"]]) == 0.0


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (["B-PER I-PER O", "O B-LOC"], "BIO"),
        (["I-PER I-PER O", "I-LOC B-LOC"], "IOB1"),
        # One sentence begins an entity with B- where IOB1 has I-: an error in a file of BIO.
        (["I-PER O", "O B-LOC"], "BIO"),
        (["B-PER E-PER O", "S-LOC"], "BIOES"),
        (["NN VB", "DT NN"], "plain"),
        (["O O"], "BIO"),
    ],
)
def test_schemes_are_told_apart(sentences, scheme):
    assert detect_scheme([tags.split() for tags in sentences]) == scheme


@pytest.mark.parametrize(
    "tags",
    ["I-PER I-PER B-PER O I-LOC", "B-PER E-PER S-PER O S-LOC", "B-PER I-PER B-PER O B-LOC"],
)
def test_all_schemes_become_one(tags):
    assert as_bio(tags.split()) == ("B-PER", "I-PER", "B-PER", "O", "B-LOC")
