"""Evaluation of the trained model on held-out records."""

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_bert.data.records.pipeline import evaluation_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.objectives.objective import Objective, Targets
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.step import StepSums, make_evaluation_step


def create_evaluation(
    model: keras.Model,
    objective: Objective,
    eval_data: PretrainingData,
    targets: Targets,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
) -> Callable[[], dict[str, float]]:
    """Returns a function that measures the model in one pass over the held-out records.

    Args:
        model: what the objective's `create_model` returned.
        objective: what is measured.
        eval_data: the held-out records.
        targets: from the objective.
        options: `batch_size`, `accumulation_steps` and `seed` are used.
        strategy: the `tf.distribute` strategy that it runs under.
    """
    dataset = evaluation_batches(eval_data, targets, options.batch_size, options.seed)
    baselines = objective.baselines(dataset, model.config.vocab_size)
    step = make_evaluation_step(model, objective, strategy)
    parts = strategy.distribute_datasets_from_function(
        lambda context: evaluation_part(eval_data, targets, options, context)
    )

    def evaluate() -> dict[str, float]:
        # Sums and counts, divided once at the end: some rows of the last batch do not count.
        sums = StepSums.zeros(objective.scales)
        for batch in parts:
            sums = sums + step(batch)
        return objective.metrics(sums.by_name) | baselines

    return evaluate


def evaluation_part(
    eval_data: PretrainingData,
    targets: Targets,
    options: PretrainingOptions,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """Returns one input pipeline's rows of the held-out records, in batches for its replicas.

    A batch is as large as a micro-batch of training: what fits there fits here.
    """
    # Made here and not once for all pipelines: each may belong to another machine.
    size = options.batch_size // options.accumulation_steps
    dataset = evaluation_batches(eval_data, targets, size, options.seed)
    rows = size // context.num_input_pipelines
    first = rows * context.input_pipeline_id

    def part(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {name: value[first : first + rows] for name, value in batch.items()}

    # Pipeline 1 of 2, batches of 8: rows 4 to 7 of each, [4, ...], in batches for its replicas.
    replica_batch = context.get_per_replica_batch_size(size)
    return dataset.map(part).rebatch(replica_batch, drop_remainder=True)
