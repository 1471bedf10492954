"""The cross-entropy that heads of several kinds of tasks learn by."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy of logits [B, C] and class indices [B], with label smoothing, in float32.

    Args:
        label_smoothing: the fraction of the target that is spread evenly over all classes
            (Szegedy et al. 2016, arXiv:1512.00567, section 7).
    """

    def __init__(self, label_smoothing: float = 0.0, name: str = "crossentropy", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each example, [B]."""
        log_probabilities = ops.log_softmax(ops.cast(y_pred, "float32"))  # [B, C]
        return self.smoothed(log_probabilities, y_true, ops.mean(log_probabilities, axis=-1))

    def smoothed(self, log_probabilities: Any, classes: Any, mean: Any) -> Any:
        """Returns the cross-entropy with a smoothed target, [B].

        Args:
            log_probabilities: float32 [B, C].
            classes: the right ones, integers [B].
            mean: of the log probabilities of the classes that an example has, float32 [B].
        """
        target = ops.expand_dims(ops.cast(classes, "int32"), -1)  # [B, 1]
        told = -ops.take_along_axis(log_probabilities, target, axis=-1)[..., 0]  # [B]
        # The target is 1 - s at the right class and s / C at each of all C: their sum is 1.
        return (1 - self.label_smoothing) * told - self.label_smoothing * mean

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"label_smoothing": self.label_smoothing}
