"""Tags of running text. Oracle: the live head on the words that the graph found."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.signatures.code_points import code_points
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.tagging.entities import are_entity_tags, entities
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.tasks.tagging.text_words import join_words
from tests.markers import some_long
from tests.signatures.tiny_models import ask, random_texts
from tests.tolerances import REORDERED


def words_of(tokenizer, texts):
    """The words of each text as (start, end)."""
    _, starts, ends = tokenizer.tokenize_with_offsets(texts)
    words = join_words(starts, ends, code_points(tf.constant(texts)))
    found = [[] for _ in texts]
    for row, *place in zip(*(part.numpy().tolist() for part in words[:3]), strict=True):
        found[row].append(tuple(place))
    return found


@pytest.mark.parametrize("name", some_long(["tags", "plain_tags", "bilstm"], ("tags", "bilstm")))
def test_entries_are_those_of_the_live_head(name, model_folder):
    live = FinetunedModel.load(model_folder(name))
    texts = random_texts(40, seed=5)
    served = ask(model_folder(name), text=texts)
    places = words_of(live.tokenizer, texts)
    told = [i for i, words in enumerate(places) if words]
    sentences = [
        TaggedSentence(tuple(texts[i][start:end] for start, end in places[i])) for i in told
    ]
    predictions = dict(zip(told, live.predict_examples(sentences), strict=True))
    entries = 0
    for row, text in enumerate(texts):
        expected = _entries(predictions[row], places[row], live) if row in predictions else []
        found = [
            (label.decode(), start, end)
            for label, start, end in zip(
                served["labels"][row], served["starts"][row], served["ends"][row], strict=True
            )
            if label
        ]
        assert found == [entry[:3] for entry in expected]
        scores = served["scores"][row, : len(found)]
        np.testing.assert_allclose(scores, [entry[3] for entry in expected], **REORDERED)
        said = served["words" if name == "plain_tags" else "entities"][row, : len(found)]
        assert [word.decode() for word in said] == [text[start:end] for _, start, end in found]
        assert not served["scores"][row, len(found) :].any()
        assert (served["starts"][row, len(found) :] == -1).all()
        entries += len(found)
    assert entries > 100
    assert max(map(len, places)) > 48  # more than two windows


def _entries(prediction, places, live):
    if not are_entity_tags(live.description.labels):
        return [
            (tag, *place, score)
            for tag, place, score in zip(prediction.tags, places, prediction.scores, strict=True)
        ]
    return [
        (
            entity.type,
            places[entity.first][0],
            places[entity.last][1],
            prediction.scores[entity.first : entity.last + 1].min(),
        )
        for entity in entities(prediction.tags)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the film", ["the", "film"]),
        ("(the film), a.b.", ["(", "the", "film", ")", ",", "a.b", "."]),
        ("d's film's. 's s'", ["d", "'s", "film", "'s", ".", "'", "s", "s", "'"]),
        ("d\u2019s x'y's", ["d", "\u2019s", "x'y", "'s"]),
        ("a-b $c !? ...", ["a-b", "$", "c", "!", "?", ".", ".", "."]),
        ("\u4e2d\u65e5ab\u4e2d.", ["\u4e2d", "\u65e5", "ab", "\u4e2d", "."]),
        ("Zo\u00eb \U0001f642x\u0301", ["Zo\u00eb", "\U0001f642x\u0301"]),
        ("", []),
        (" \t", []),
    ],
)
def test_words_of_running_text(text, expected, model_folder):
    tokenizer = FinetunedModel.load(model_folder("plain_tags")).tokenizer
    assert [text[start:end] for start, end in words_of(tokenizer, [text])[0]] == expected


def test_no_texts_have_no_entries(model_folder):
    served = ask(model_folder("tags"), text=tf.zeros([0], tf.string))
    assert {name: value.shape for name, value in served.items()} == dict.fromkeys(served, (0, 0))
