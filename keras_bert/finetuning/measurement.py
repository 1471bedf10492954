"""What a fine-tuning run measures: predictions and metrics of every split."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import EvaluatedHead, FinetuningHead, PerExample
from keras_bert.finetuning.inference import Inference, InferenceRunner
from keras_bert.finetuning.options import ResolvedOptions
from keras_bert.finetuning.run import Metrics
from keras_bert.finetuning.task import TEST, TRAIN, UNLABELED, VALIDATION, Task, TaskData
from keras_bert.training.termination import Termination


class Measurement:
    """Predictions and metrics of the splits."""

    def __init__(
        self,
        task: Task,
        head: FinetuningHead,
        data: TaskData,
        splits: Mapping[str, EncodedRows],
        model: keras.Model,
        options: ResolvedOptions,
        termination: Termination,
    ):
        self._metrics = task.metrics
        self._head = head
        self._examples = data.splits
        self._splits = splits
        # A process that is told to end does not finish an evaluation first, unless it is one of
        # several, which do so together.
        strategy = model.distribute_strategy
        together = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        before_batch = None if together else termination.check
        answer, final = (head.answering(model, final) for final in (False, True))
        self._run = self._final_run = InferenceRunner(model, before_batch, answer, head.keeping())
        if final is not None:
            self._final_run = InferenceRunner(model, before_batch, final, head.keeping())
        # A head that answers by itself measures the loss by itself.
        self._loss = head.loss() if answer is None else None
        self._batch_size = options.batch_size
        self._references = {name: head.references(split) for name, split in data.splits.items()}

    def validation(self) -> Metrics:
        """Measures the validation data; no split, no metrics."""
        if VALIDATION not in self._splits:
            return {}
        outputs, loss = self._infer(VALIDATION, self._run)
        predictions = self._predictions(VALIDATION, outputs, self._head)
        return self._measures(VALIDATION, predictions, loss)

    def all_splits(self) -> tuple[FinetuningHead, dict[str, Metrics], dict[str, PerExample]]:
        """Returns the tuned head, and metrics and predictions of all splits but "train"."""
        head = self._head
        learned_from = (TRAIN, UNLABELED)
        outputs = {
            name: self._infer(name, self._final_run)
            for name in self._splits
            if name not in learned_from
        }
        if self._references.get(VALIDATION) is not None:
            found = self._predictions(VALIDATION, outputs[VALIDATION].outputs, head)
            head = head.tuned(found, self._references[VALIDATION])
        metrics: dict[str, Metrics] = {}
        predictions: dict[str, PerExample] = {}
        for name, (values, loss) in outputs.items():
            predictions[name] = self._predictions(name, values, head)
            if self._references[name] is not None:
                metrics[name] = self._measures(name, predictions[name], loss)
        return head, metrics, predictions

    def collapse(self, predictions: Mapping[str, PerExample]) -> str | None:
        """Returns what is wrong with the predictions of the first labeled split."""
        for name in (VALIDATION, TEST):
            if name in predictions and self._references[name] is not None:
                return self._head.collapse(predictions[name], self._references[name])
        return None

    def tables(
        self, predictions: Mapping[str, PerExample], table: Callable[[Any, Any], np.ndarray | None]
    ) -> dict[str, list[list[Any]]]:
        """Returns a table of predictions and references of each labeled split.

        Args:
            predictions: of each split.
            table: makes it of both; None where there is no such thing.
        """
        found = {}
        for name, values in predictions.items():
            if self._references[name] is not None:
                made = table(values, self._references[name])
                if made is not None:
                    found[name] = made.tolist()
        return found

    def _infer(self, name: str, run: InferenceRunner) -> Inference:
        labeled = self._references[name] is not None
        return run(
            self._splits[name],
            self._batch_size,
            self._head.per_position,
            self._loss if labeled else None,
            f"evaluating {name}",
        )

    def _predictions(self, name: str, outputs: Any, head: EvaluatedHead) -> PerExample:
        return head.predictions(outputs, self._splits[name], self._examples[name])

    def _measures(self, name: str, predictions: PerExample, loss: float | None) -> Metrics:
        references = self._references[name]
        measured = {key: f(predictions, references) for key, f in self._metrics.items()}
        values = {key: value for key, value in measured.items() if value is not None}
        return values if loss is None else values | {"loss": loss}
