"""The cross-entropy that heads of several kinds of tasks learn by."""

from typing import Any

import keras


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
        logits = keras.ops.cast(y_pred, "float32")
        log_probabilities = keras.ops.log_softmax(logits)  # [B, C]
        target = keras.ops.expand_dims(keras.ops.cast(y_true, "int32"), -1)  # [B, 1]
        told = -keras.ops.take_along_axis(log_probabilities, target, axis=-1)[..., 0]  # [B]
        # [B]: cross-entropy with the even distribution
        even = -keras.ops.mean(log_probabilities, axis=-1)
        return (1 - self.label_smoothing) * told + self.label_smoothing * even

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"label_smoothing": self.label_smoothing}
