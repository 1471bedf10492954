"""Predictions of a fine-tuned model for a file: what it holds and the answers beside it."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from keras_bert.finetuning.prediction_table import write_predictions
from keras_bert.finetuning.task import PredictionInput, TaskDescription
from keras_bert.storage.paths import check_output
from keras_bert.storage.tables import check_columns
from keras_bert.tasks.ensemble import EnsembleDescription, FinetunedEnsemble
from keras_bert.tasks.finetuned_model import AnsweringModel, FinetunedModel
from keras_bert.tasks.kinds import kind_of, load_description
from keras_bert.tasks.registry import TASKS, create_task
from keras_bert.tasks.seq2seq.head import Seq2SeqHead
from keras_bert.text.loading import load_tokenizer


def predict_file(
    model_dir: str | os.PathLike | Sequence[str | os.PathLike],
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    batch_size: int = 32,
    iterations: int | None = None,
    length_candidates: int | None = None,
) -> int:
    """Writes a CSV of the input's columns and the predictions; returns the number of examples.

    Classes: `predicted_label` and `score_<label>`, the probability of each label. Several labels:
    `predicted_labels` and the same scores. Regression: `predicted_value`. Questions: `answer` and
    where it stands. Tags: a row for each entity. Multiple choice: `predicted_choice` and scores.
    Text to text: `generated_text` and `score`.

    Args:
        model_dir: the folder of a fine-tuning run, or several for an ensemble: see
            `FinetunedEnsemble`.
        input_path: a file in the format that the model was trained on; labels are not needed.
        output_path: the CSV to write.
        batch_size: rows per call of the model.
        iterations: passes over a text of a model that is decoded by Mask-Predict; None for those of
            the run.
        length_candidates: lengths that Mask-Predict tries; None for those of the run.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the input lacks a column, or has one that the output adds; the members of an
            ensemble do not fit each other; or the model is not decoded by Mask-Predict.
    """
    folders = [model_dir] if isinstance(model_dir, str | os.PathLike) else list(model_dir)
    # What can be refused is refused before a model is opened.
    check_output(output_path, input_path)
    if len(folders) == 1:
        description = load_description(folders[0])
    else:
        ensemble = EnsembleDescription.read(folders)
        description = ensemble.description
    if iterations is not None or length_candidates is not None:
        head = description.head
        if not isinstance(head, Seq2SeqHead):
            raise ValueError(
                f"iterations and length_candidates are for texts written by Mask-Predict, but "
                f"{folders[0]} has a {head.kind} head: leave them out"
            )
        head = head.with_search(iterations, length_candidates)
        description = dataclasses.replace(description, head=head)
    found = read_to_predict(input_path, description)
    if found.table is not None:
        check_columns(input_path, found.table[0], description.head.answer_columns())
    model: AnsweringModel
    if len(folders) == 1:
        model = FinetunedModel.open(folders[0], load_tokenizer(folders[0]), description)
    else:
        model = FinetunedEnsemble.open(ensemble)
    predictions = model.predict_examples(found.examples, batch_size)
    write_predictions(output_path, description.head, found.examples, predictions, found.table)
    return len(found.examples)


def read_to_predict(input_path: str | os.PathLike, description: TaskDescription) -> PredictionInput:
    """Reads a file in the format that a model was trained on.

    Args:
        input_path: the file; labels are not needed.
        description: the model's task.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it lacks a column, or a row is damaged.
    """
    # The reader of the task, where it has one and is one of ours, else of its kind.
    own = create_task(description.task).read_for_prediction if description.task in TASKS else None
    return (own or kind_of(description).read)(Path(input_path), description)
