"""Batches made ahead of the step that reads them, by a fixed number of threads.

tf.data can choose such numbers itself, by a thread that looks at the pipeline every 10, 20, 40
milliseconds and so on, at last once a minute. When the iterator is deleted, at the end of an epoch
or of an evaluation, TensorFlow 2.20 sometimes does not wake that thread but waits until it looks
again: about as long as the epoch has taken, a minute at most, with the processors idle.
"""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Making a batch takes a hundredth of a step or less: more threads would only hold more batches.
_MOST_THREADS = 16
# Batches that are ready: a few, as some take longer to make (a new block of records).
_READY = 4


def prefetched(batches: tf.data.Dataset, make: Callable[..., Any]) -> tf.data.Dataset:
    """Returns a dataset of what is made of batches, in their order.

    Args:
        batches: what `make` is called with.
        make: makes an element of the dataset; of several batches at the same time.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    made = batches.map(make, num_parallel_calls=_threads(), deterministic=True)
    return made.prefetch(_READY).with_options(options)


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: what the process may use
        return min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    return min(_MOST_THREADS, os.cpu_count() or 1)
