"""One answer of several models: logits of an ensemble from those of its members.

What is averaged are probabilities (or numbers), not logits: a member that is sure counts for no
more than its vote. The mean is given back as logits, so that whatever reads the logits of one model
reads those of an ensemble:

    logits of each member --softmax--> probabilities --mean--> --log--> logits of the ensemble
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def mean_logits(members: Sequence[Any], logits_are: str) -> tf.Tensor:
    """Returns logits whose probabilities are the mean of those of the members.

    Args:
        members: float [..., C], the logits of each member for the same rows and classes.
        logits_are: a `LogitsMeaning`: "classes" have a softmax, "labels" a sigmoid each, of a
            "number" the mean is taken as it is.

    Returns:
        float32 [..., C]; of classes the logarithms of the mean probabilities.
    """
    logits = tf.stack([tf.cast(member, tf.float32) for member in members])  # [M, ..., C]
    if logits_are == "number":
        return tf.reduce_mean(logits, axis=0)
    # In logarithms throughout, which keeps probabilities near 0 and 1 apart.
    if logits_are == "labels":
        # The logit of a mean p is log p - log(1 - p); the number of members cancels.
        likely = tf.reduce_logsumexp(tf.math.log_sigmoid(logits), axis=0)
        unlikely = tf.reduce_logsumexp(tf.math.log_sigmoid(-logits), axis=0)
        return likely - unlikely
    total = tf.reduce_logsumexp(tf.nn.log_softmax(logits), axis=0)
    return total - math.log(len(members))
