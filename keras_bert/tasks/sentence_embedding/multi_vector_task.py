"""The task that learns vectors of tokens from tables of texts and what answers them."""

import functools
from typing import Any

from keras_bert.finetuning.task import Task
from keras_bert.tasks.sentence_embedding.embedding_files import (
    DEFAULTS,
    POSITIVE,
    answer_columns,
    read_answers,
)
from keras_bert.tasks.sentence_embedding.metrics import ranking_metrics
from keras_bert.tasks.sentence_embedding.multi_vector_head import MultiVectorHead
from keras_bert.text.preprocessor import TEXT


def multi_vector_retrieval_task(
    text_column: str = TEXT,
    positive_column: str = POSITIVE,
    projection_dim: int | None = None,
    query_length: int | None = None,
    temperature: float | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    teacher_weight: float | None = None,
    teacher_temperature: float | None = None,
) -> Task:
    """Returns a task of late interaction (ColBERT); training data is that of the task retrieval.

    Measured is how texts find what answers them, by the sum over the tokens of a text of the
    largest product with a token of the other (MaxSim).

    Args:
        text_column: column of the text, such as a question.
        positive_column: column of the text that is to be found.
        projection_dim: numbers of a token's vector; None takes what the model folder says that
            training starts from, and 128 where it has no such vectors, or the width of a narrower
            encoder.
        query_length: the most positions of a text of the text column; None takes what the folder
            says, and 32 where it says nothing.
        temperature: divides the sums that are learned as logits; None is 0.3.
        query_prompt: stands before every text of the text column; None takes what the model folder
            says, mostly nothing.
        document_prompt: stands before all other texts; None takes what the model folder says.
        teacher_weight: part of a teacher's scores in the loss, from 0 to 1; None is 0.5. Where the
            training data has none it is refused, as is the next one.
        teacher_temperature: divides a teacher's scores; None is 1.

    Raises:
        ValueError: an argument is out of its range, or both columns are one.
    """
    of_teacher = {"teacher_weight": teacher_weight, "teacher_temperature": teacher_temperature}
    of_loss: dict[str, Any] = {"temperature": temperature, **of_teacher}
    given = {name: value for name, value in of_loss.items() if value is not None}
    head = MultiVectorHead(
        projection_dim=projection_dim,
        query_length=query_length,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        **given,
    )
    read = functools.partial(
        read_answers,
        columns=answer_columns(text_column, positive_column),
        of_loss={name: given[name] for name in of_teacher if name in given},
        scores_are="sums over tokens",
    )
    return Task("multi_vector_retrieval", head, read, ranking_metrics(), DEFAULTS)
