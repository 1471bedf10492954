"""The outputs of a model for encoded rows, in their order, and the loss along the way."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress


class Inference(NamedTuple):
    """What a model says of E rows.

    Attributes:
        outputs: NumPy arrays whose first axis is that of the rows, or a list of arrays, one for
            each row, where outputs have an axis of positions; a dict of these for several outputs.
        loss: the mean over rows, or over their labeled pieces; None without targets.
    """

    outputs: Any
    loss: float | None


class InferenceRunner:
    """Runs a model over encoded rows; keeps its compiled forward pass from call to call.

    Args:
        model: takes what `EncodedRows` gives.
        before_batch: called before each batch; what it raises ends the call.
        answer: what makes outputs of the model's inputs; None for the model itself.
        kept: what is kept of a row's output, see `EvaluatedHead.keeping`; None for all of it.
    """

    def __init__(
        self,
        model: keras.Model,
        before_batch: Callable[[], None] | None = None,
        answer: Callable[[dict[str, tf.Tensor]], Any] | None = None,
        kept: Callable[[np.ndarray], Any] | None = None,
    ):
        answer = answer or functools.partial(model, training=False)
        self._before_batch = before_batch or (lambda: None)
        self._kept = kept
        self._strategy = model.distribute_strategy or tf.distribute.get_strategy()
        signature = None
        if not isinstance(self._strategy, tf.distribute.TPUStrategy):
            # One trace for all sizes; a TPU compiles each by itself.
            signature = [
                {
                    tensor.name: tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)
                    for tensor in model.inputs
                }
            ]

        # Each replica answers the whole batch: a TPU cannot be left out of the call, and what is
        # small enough to be fine-tuned is quick to evaluate.
        def forward(inputs: dict[str, tf.Tensor]) -> Any:
            return self._strategy.run(answer, args=(inputs,))

        self._forward = tf.function(forward, input_signature=signature)

    def __call__(
        self,
        encoded: EncodedRows,
        batch_size: int,
        per_position: bool = False,
        loss: Any = None,
        description: str = "predicting",
    ) -> Inference:
        """Runs the model over all rows, sorted by length so that little is padded.

        Args:
            encoded: the E rows, at least one.
            batch_size: rows per call.
            per_position: whether outputs have an axis of positions; they are cut to the row's
                length.
            loss: a loss, or a dict of losses by output; None where none is asked for.
            description: what the progress line says.

        Raises:
            ValueError: an output is not finite.
        """
        batches, positions = encoded.inference_batches(batch_size)
        # The second axis of an output: positions, or choices.
        sizes, cut = encoded.row_lengths, per_position
        if encoded.choices is not None and not encoded.joint:
            sizes, cut = encoded.choices, True
        sizes = sizes[np.argsort(positions)]
        outputs: list[Any] = []
        loss_sum, weight_sum, done = 0.0, 0.0, 0
        with Progress(len(batches), "batch", description) as progress:
            for inputs, targets in batches:
                self._before_batch()
                # That of the first replica: all of them answer alike.
                answer = tf.nest.map_structure(
                    lambda value: self._strategy.experimental_local_results(value)[0],
                    self._forward(inputs),
                )
                size = len(next(iter(_as_dict(answer).values())))
                if loss is not None and targets is not None:
                    # A model with several outputs has a loss for each: their mean.
                    parts = [(loss, targets, answer)]
                    if isinstance(answer, dict):
                        parts = [(loss[name], targets[name], answer[name]) for name in answer]
                    losses = [float(part(target, value)) for part, target, value in parts]
                    # A mean over pieces counts by them, any other by rows.
                    weight = np.sum(loss.counted(targets)) if hasattr(loss, "counted") else size
                    loss_sum += float(np.mean(losses) * weight)
                    weight_sum += float(weight)
                answer = {key: value.numpy() for key, value in _as_dict(answer).items()}
                if cut:
                    lengths = sizes[done : done + size]
                    answer = {
                        name: [row[:length] for row, length in zip(values, lengths, strict=True)]
                        for name, values in answer.items()
                    }
                for values in answer.values():
                    # Behind the cut: what stands for padding may be anything.
                    for row in values if cut else [values]:
                        check_finite(row)
                if self._kept is not None:
                    answer = {name: [*map(self._kept, rows)] for name, rows in answer.items()}
                outputs.append(answer)
                done += size
                progress.update()
        # Back in the order of the examples.
        joined: dict[str, Any] = {}
        for name in outputs[0]:
            rows = [row for batch in outputs for row in batch[name]]
            rows = [rows[position] for position in positions]
            joined[name] = rows if isinstance(outputs[0][name], list) else np.stack(rows)
        answers = joined[""] if "" in joined else joined
        return Inference(answers, None if loss is None else loss_sum / max(weight_sum, 1e-12))


def _as_dict(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {"": answer}
