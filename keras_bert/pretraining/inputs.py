"""What a pretraining run reads: masked batches for every replica, and held-out ones."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

import keras
import tensorflow as tf

from keras_bert.data.records.parsing import count_records
from keras_bert.data.records.pipeline import evaluation_batches, training_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.evaluation import evaluate, most_frequent_piece_accuracy
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.step import make_evaluation_step
from keras_bert.storage.remote_folders import is_remote, local_copy
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.masking_strategy import predictions_per_sequence
from keras_bert.text.next_token import NextTokenTargets
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.strategy import has_other_hosts

Masking = MaskedLanguageModelMasking | NextTokenTargets


def open_records(folder: str, strategy: tf.distribute.Strategy) -> PretrainingData:
    """Opens a folder of records, local or remote.

    Raises:
        FileNotFoundError: there are no records.
        ValueError: a file is damaged.
    """
    data = PretrainingData(local_copy(folder))
    if is_remote(folder) and has_other_hosts(strategy):
        # The hosts of a TPU slice read for their own chips, and know nothing of the local copy.
        data.paths = [f"{folder.rstrip('/')}/{os.path.basename(path)}" for path in data.paths]
    return data


@contextlib.contextmanager
def damage_named(*records: PretrainingData | None) -> Iterator[None]:
    """Names the file in which a record is found damaged; TensorFlow tells its offset only.

    Raises:
        ValueError: a record is damaged.
    """
    try:
        yield
    except tf.errors.DataLossError:
        for path in (path for data in records if data for path in data.paths):
            count_records(path)
        raise


def create_masking(
    options: PretrainingOptions, tokenizer: BertTokenizer, data: PretrainingData
) -> Masking:
    """Returns what makes targets of the records' sequences.

    Raises:
        ValueError: a rate or a number of predictions is out of its range.
    """
    if options.objective == "left_to_right":
        return NextTokenTargets(tokenizer.vocabulary, data.max_seq_length)
    return MaskedLanguageModelMasking(
        tokenizer.vocabulary,
        predictions_per_sequence(
            options.max_predictions_per_seq, options.masked_lm_prob, data.max_seq_length
        ),
        masked_lm_prob=options.masked_lm_prob,
        mask_token_rate=options.mask_token_rate,
        random_token_rate=options.random_token_rate,
        strategy=options.masking,
    )


def distributed_batches(
    data: PretrainingData,
    masking: Masking,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    step: int,
) -> Iterable:
    """Returns the endless batches of all replicas from a step on.

    Every input pipeline reads all records and parses those of its replicas only. Reading strings
    costs little beside a step, and the order of the examples is the same whatever the number of
    pipelines, so that a run goes on exactly on other machines; shards dealt out to pipelines would
    tie it to their number.
    """

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return training_batches(
            data,
            masking,
            context.get_per_replica_batch_size(options.batch_size),
            options.seed,
            first_batch=step,
            input_pipeline_id=context.input_pipeline_id,
            num_input_pipelines=context.num_input_pipelines,
            replicas_per_pipeline=context.num_replicas_in_sync // context.num_input_pipelines,
        )

    return strategy.distribute_datasets_from_function(dataset)


def create_evaluation(
    model: keras.Model,
    eval_data: PretrainingData | None,
    masking: Masking,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    next_sentence: bool,
) -> Callable[[], dict[str, float]] | None:
    """Returns a function that measures the model on the held-out records, if there are any."""
    if eval_data is None:
        return None
    dataset = evaluation_batches(eval_data, masking, options.batch_size, options.seed)
    baseline = most_frequent_piece_accuracy(dataset, model.config.vocab_size)
    step = make_evaluation_step(model, strategy)
    parts = strategy.distribute_datasets_from_function(
        lambda context: evaluation_part(eval_data, masking, options, context)
    )

    def run() -> dict[str, float]:
        metrics = evaluate(step, parts, next_sentence)
        return metrics | {"most_frequent_piece_accuracy": baseline}

    return run


def evaluation_part(
    eval_data: PretrainingData,
    masking: Masking,
    options: PretrainingOptions,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """Returns one input pipeline's rows of the held-out records, in batches for its replicas.

    A batch is as large as a micro-batch of training: what fits there fits here.
    """
    # Made here and not once for all pipelines: each may belong to another machine.
    size = options.batch_size // options.accumulation_steps
    dataset = evaluation_batches(eval_data, masking, size, options.seed)
    rows = size // context.num_input_pipelines
    first = rows * context.input_pipeline_id

    def part(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {name: value[first : first + rows] for name, value in batch.items()}

    replica_batch = context.get_per_replica_batch_size(size)
    return dataset.map(part).rebatch(replica_batch, drop_remainder=True)
