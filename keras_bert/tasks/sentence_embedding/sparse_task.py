"""The task that learns sparse vectors from tables of texts and what answers them."""

import functools
from typing import Any

from keras_bert.choices import SparseActivation
from keras_bert.finetuning.task import Task
from keras_bert.tasks.sentence_embedding.embedding_files import (
    DEFAULTS,
    POSITIVE,
    answer_columns,
    read_answers,
)
from keras_bert.tasks.sentence_embedding.metrics import sparse_ranking_metrics
from keras_bert.tasks.sentence_embedding.sparse_head import SparseEmbeddingHead
from keras_bert.text.preprocessor import TEXT


def sparse_retrieval_task(
    text_column: str = TEXT,
    positive_column: str = POSITIVE,
    activation: SparseActivation | None = None,
    temperature: float | None = None,
    query_regularizer_weight: float | None = None,
    document_regularizer_weight: float | None = None,
    initial_active_dims: int | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    teacher_weight: float | None = None,
    teacher_temperature: float | None = None,
) -> Task:
    """Returns a task of sparse vectors (SPLADE); training data is that of the task retrieval.

    Measured is how texts find what answers them, by products, and how many weights vectors have.

    Args:
        text_column: column of the text, such as a question.
        positive_column: column of the text that is to be found.
        activation: how scores of pieces become weights: "relu" or "log1p_relu"; None takes what the
            model folder says that training starts from, and "relu" where it says nothing.
        temperature: divides the products that are learned as logits; None is 1.
        query_regularizer_weight: how much it counts that queries have few weights; None is 5e-5.
        document_regularizer_weight: the same of texts to be found; None is 3e-5.
        initial_active_dims: as many weights a text has before training, in the mean; 0 leaves the
            scores of the model as they are, None does so with a sparse encoder and else is 128, or
            a quarter of a small vocabulary.
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
    of_loss: dict[str, Any] = {
        "temperature": temperature,
        "query_regularizer_weight": query_regularizer_weight,
        "document_regularizer_weight": document_regularizer_weight,
        **of_teacher,
    }
    given = {name: value for name, value in of_loss.items() if value is not None}
    head = SparseEmbeddingHead(
        activation=activation,
        initial_active_dims=initial_active_dims,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        **given,
    )
    read = functools.partial(
        read_answers,
        columns=answer_columns(text_column, positive_column),
        of_loss={name: given[name] for name in of_teacher if name in given},
        scores_are="products of sparse vectors",
    )
    return Task("sparse_retrieval", head, read, sparse_ranking_metrics(), DEFAULTS)
