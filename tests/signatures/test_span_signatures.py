"""Answers of the graph. Oracle: the live head, from logits of the padded Keras model.

Both choose with the same functions, which `tests/tasks/test_answers.py` holds against loops.
"""

import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.question_answering.questions import Question
from tests.signatures.tiny_models import ask, random_texts
from tests.tolerances import REORDERED


@pytest.mark.parametrize("name", ["spans", "spans_or_none"])
def test_answers_are_those_of_the_live_head(name, model_folder):
    folder = model_folder(name)
    contexts = random_texts(60, seed=1)
    questions = random.Random(2).choices(random_texts(20, seed=3, longest=8), k=len(contexts))
    live = FinetunedModel.load(folder).predict_examples(
        [Question(str(i), *pair) for i, pair in enumerate(zip(questions, contexts, strict=True))]
    )
    served = ask(folder, question=questions, context=contexts)
    assert [text.decode() for text in served["answer"]] == [said.answer.text for said in live]
    assert served["start"].tolist() == [said.answer.start for said in live]
    assert served["end"].tolist() == [said.answer.end for said in live]
    shares = [said.answer.probability for said in live]
    np.testing.assert_allclose(served["score"], shares, **REORDERED)
    nulls = [said.null_score for said in live]
    np.testing.assert_allclose(served["null_score"], nulls, **REORDERED)
    # The comparison is worth something only where answers are many, long contexts among them.
    assert len({said.answer.text for said in live}) > 20
    assert sum(not said.answer.text for said in live) >= (10 if name == "spans_or_none" else 1)
    assert max(said.answer.start for said in live) > 40


def test_no_questions_have_no_answers(model_folder):
    none = tf.zeros([0], tf.string)
    served = ask(model_folder("spans"), question=none, context=none)
    assert {name: value.shape for name, value in served.items()} == dict.fromkeys(served, (0,))
