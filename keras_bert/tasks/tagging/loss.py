"""The loss of tags: cross-entropy of the pieces that carry one."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.tasks.classification.head import SmoothedCrossentropy


@keras.saving.register_keras_serializable("keras_bert")
class TagCrossentropy(SmoothedCrossentropy):
    """Cross-entropy of logits [B, S, C] and tags [B, S], below 0 where a piece carries none.

    It is the mean over the labeled pieces of the global batch, so that neither the number of
    replicas nor how full their rows are changes what a piece counts. Weights [B] make it a weighted
    mean over the pieces of each row.
    """

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Returns the mean, a float32 scalar."""
        weights = self.counted(y_true)
        if sample_weight is not None:
            sample_weight = ops.reshape(ops.cast(sample_weight, "float32"), [-1, 1])
            weights = weights * sample_weight
        losses = self.call(y_true, y_pred)
        total = ops.sum(weights)
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            # Gradients are summed over replicas, so each divides by what all of them have.
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, total)
        # No labeled piece, no loss.
        return ops.sum(losses * weights) / ops.maximum(total, 1e-12)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each piece, [B, S]; that of one without a tag means nothing."""
        return super().call(ops.maximum(ops.cast(y_true, "int32"), 0), y_pred)

    def counted(self, y_true: Any) -> Any:
        """Returns float32 [B, S]: 1 where a piece carries a tag, else 0."""
        return ops.cast(ops.convert_to_tensor(y_true, "int32") >= 0, "float32")
