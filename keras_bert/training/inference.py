"""The outputs of a model for encoded rows, in their order, and the loss along the way."""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.progress import Progress
from keras_bert.training.encoded_rows import EncodedRows


class Inference(NamedTuple):
    """What a model says of E rows.

    Attributes:
        outputs: NumPy arrays whose first axis is that of the rows, or a list of arrays, one for
            each row, where outputs have an axis of positions; a dict of these for several outputs.
        loss: the mean over batches weighted by their sizes; None without targets.
    """

    outputs: Any
    loss: float | None


def infer(
    model: keras.Model,
    encoded: EncodedRows,
    batch_size: int,
    per_position: bool = False,
    loss: Any = None,
    description: str = "predicting",
) -> Inference:
    """Runs the model over all rows, sorted by length so that little is padded.

    Args:
        model: takes what `encoded` gives.
        encoded: the E rows, at least one.
        batch_size: rows per call.
        per_position: whether outputs have an axis of positions; they are cut to the row's length.
        loss: a loss, or a dict of losses by output; None where none is asked for.
        description: what the progress line says.
    """
    batches, places = encoded.inference_batches(batch_size)
    lengths = encoded.row_lengths[np.argsort(places)]
    forward = _forward(model)
    outputs: list[Any] = []
    loss_sum, done = 0.0, 0
    with Progress(len(batches), "batch", description) as progress:
        for inputs, targets in batches:
            answer = forward(inputs)
            if loss is not None and targets is not None:
                loss_sum += _loss(loss, targets, answer) * _size(answer)
            answer = {key: value.numpy() for key, value in _as_dict(answer).items()}
            size = len(next(iter(answer.values())))
            outputs.append(_cut(answer, lengths[done : done + size]) if per_position else answer)
            done += size
            progress.update()
    return Inference(
        _in_order(outputs, places), loss_sum / done if loss is not None and done else None
    )


def _forward(model: keras.Model) -> Any:
    strategy = model.distribute_strategy or tf.distribute.get_strategy()

    # Each replica answers the whole batch: a TPU cannot be left out of the call, and what is small
    # enough to be fine-tuned is quick to evaluate.
    @tf.function(reduce_retracing=True)
    def forward(inputs: dict[str, tf.Tensor]) -> Any:
        return strategy.run(lambda features: model(features, training=False), args=(inputs,))

    return lambda inputs: tf.nest.map_structure(
        lambda value: strategy.experimental_local_results(value)[0], forward(inputs)
    )


def _as_dict(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {"": answer}


def _size(answer: Any) -> int:
    return len(next(iter(_as_dict(answer).values())))


def _loss(loss: Any, targets: Any, answer: Any) -> float:
    if not isinstance(answer, dict):
        return float(loss(targets, answer))
    return float(np.mean([float(loss[name](targets[name], answer[name])) for name in answer]))


def _cut(answer: dict[str, np.ndarray], lengths: np.ndarray) -> dict[str, list[np.ndarray]]:
    return {
        name: [row[:length] for row, length in zip(values, lengths, strict=True)]
        for name, values in answer.items()
    }


def _in_order(outputs: list[dict[str, Any]], places: np.ndarray) -> Any:
    joined: dict[str, Any] = {}
    for name in outputs[0]:
        rows = [row for batch in outputs for row in batch[name]]
        rows = [rows[place] for place in places]
        joined[name] = rows if isinstance(outputs[0][name], list) else np.stack(rows)
    return joined[""] if "" in joined else joined
