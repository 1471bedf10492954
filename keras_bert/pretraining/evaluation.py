"""Evaluation of the trained model on held-out records."""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable

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

    Of records of several languages it returns the metrics of all together, and those of each under
    "<metric>/<language>".

    Args:
        model: what the objective's `create_model` returned.
        objective: what is measured.
        eval_data: the held-out records.
        targets: of the held-out records, from the objective.
        options: `batch_size`, `accumulation_steps` and `seed` are used.
        strategy: the `tf.distribute` strategy that it runs under.
    """
    groups = eval_data.groups or {"": eval_data}
    step = make_evaluation_step(model, objective, strategy)

    def batches_of(group: PretrainingData) -> tf.data.Dataset:
        return evaluation_batches(group, targets, options.batch_size, options.seed)

    def parts_of(group: PretrainingData) -> Iterable:
        return strategy.distribute_datasets_from_function(
            lambda context: evaluation_part(group, targets, options, context)
        )

    vocab_size = model.config.vocab_size
    everything = itertools.chain.from_iterable(map(batches_of, groups.values()))
    baselines = objective.baselines(everything, vocab_size)
    parts = {name: parts_of(group) for name, group in groups.items()}
    baselines_of = {
        name: objective.baselines(batches_of(group), vocab_size)
        for name, group in eval_data.groups.items()
    }

    def evaluate() -> dict[str, float]:
        # Sums and counts, divided once at the end: some rows of the last batch do not count.
        sums_of = dict.fromkeys(groups, StepSums.zeros(objective.scales))
        for name, batches in parts.items():
            for batch in batches:
                sums_of[name] = sums_of[name] + step(batch)
        total = functools.reduce(operator.add, sums_of.values())
        metrics = objective.metrics(total.by_name) | baselines
        for name, of_group in baselines_of.items():
            measured = objective.metrics(sums_of[name].by_name) | of_group
            metrics |= {f"{metric}/{name}": value for metric, value in measured.items()}
        if baselines_of:
            # To tell languages apart is no use of context: the bound of all is the mean of theirs.
            for loss, bound in objective.plateaus.items():
                weights = {
                    name: float(sums.by_name[loss.removesuffix("_loss")].weight)
                    for name, sums in sums_of.items()
                }
                bounds = sum(metrics[f"{bound}/{name}"] * weights[name] for name in weights)
                metrics[bound] = bounds / max(sum(weights.values()), 1.0)
        return metrics

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
