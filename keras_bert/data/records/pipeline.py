"""Records to batches: an endless stream whose every batch is a function of seed and position.

In each epoch the shards come in a random order and are read several at a time, one record of each
in turn; the records are then shuffled in large blocks. Everything up to the batch is strings, which
cost little to skip; a batch is parsed and masked as a whole.

    epoch -> shards in random order -> 16 at a time -> blocks of 160 MiB -> shuffled -> my batches
    seed,epoch                                        seed,epoch,block     counters     parse, mask

Each position of the shuffled epoch has a counter (seed, epoch, position); the masks of the record
that comes to stand there follow from it and from nothing else.

Records of several languages are such a stream each, from which examples are drawn one by one:

    stream of en --+
    stream of de --+-> choose by `group_sampling` -> batches -> my batches -> parse, mask
    stream of fi --+

Shapes: R records of a block (after a filter, those that are kept), B of a batch, S positions, P
predictions.
"""

import hashlib
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from keras_bert.data.prefetching import prefetched
from keras_bert.data.records.group_sampling import GroupSampling
from keras_bert.data.records.parsing import parse_examples, parse_masked_examples
from keras_bert.data.records.record_groups import RecordGroups
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_WEIGHTS,
    WORD_CONTINUATIONS,
)
from keras_bert.text.random_bits import random_permutation, seeds_of
from keras_bert.text.vocabulary import Vocabulary

# Records lie in the order of the corpus, so small blocks would follow its topics. One of this size
# holds about 130,000 records of 512 pieces or 400,000 of 128.
_BYTES_PER_BLOCK = 160 << 20
_FEWEST_RECORDS_PER_BLOCK = 1 << 10  # of one of many languages
_SHARDS_AT_ONCE = 16
# What the bits of the two orders of an epoch are told apart by.
_ORDER_OF_SHARDS, _ORDER_OF_RECORDS = range(2)


class Targets(Protocol):
    """Makes of a batch of the records what the model sees and what it is asked, in `tf.data`.

    Attributes:
        vocabulary: the word pieces and their ids.
        max_predictions_per_seq: P, the most positions of a sequence that are asked for.
    """

    vocabulary: Vocabulary
    max_predictions_per_seq: int

    def __call__(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        seeds: tf.Tensor,
        word_continuations: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Returns the features to add to the batch, or to replace in it.

        Args:
            input_ids: int32 [B, S].
            input_mask: int32 [B, S], 1 for real pieces.
            seeds: int64 [B, k]; whatever is drawn for a sequence follows from its row.
            word_continuations: int32 [B, S], 1 for pieces that go on with a word, 0 for those that
                begin one, -1 where the vocabulary decides; given for records that have it.

        Returns:
            `input_ids` int32 [B, S]; `masked_lm_positions`, `masked_lm_ids` (int32) and
            `masked_lm_weights` (float32), [B, P] each.
        """
        ...


def training_batches(
    data: PretrainingData,
    targets: Targets,
    batch_size: int,
    seed: int,
    first_batch: int = 0,
    input_pipeline_id: int = 0,
    num_input_pipelines: int = 1,
    replicas_per_pipeline: int = 1,
) -> tf.data.Dataset:
    """Returns an endless dataset of the batches that one input pipeline feeds to its replicas.

    The order of an epoch follows from seed and epoch, the masks of a record from seed, epoch and
    its position in the shuffled epoch. A global batch is the next run of this stream, dealt out to
    the replicas one after the other: the same examples whatever their number. A dataset that starts
    at `first_batch` equals the whole one without the batches before.

    Of `RecordGroups` each example of the stream comes from a group that is drawn at its rate, and
    a group's examples are those of its own endless stream: its epochs are passed at its own speed.

    Args:
        data: the records.
        targets: what is to be predicted; not used for records that come masked.
        batch_size: examples per replica.
        seed: seed of the order of records and of their masks.
        first_batch: number of global batches to skip, without parsing them.
        input_pipeline_id: which of the input pipelines this is.
        num_input_pipelines: how many there are; each reads all records and keeps its part.
        replicas_per_pipeline: replicas that one pipeline feeds.

    Returns:
        Dicts of the pretraining features (see `keras_bert.features`) with static shapes.
    """
    replicas = num_input_pipelines * replicas_per_pipeline
    first_example = first_batch * replicas * batch_size

    def is_mine(batches: tf.Tensor) -> tf.Tensor:
        # Two pipelines of two replicas: batches 0 1 go to pipeline 0, 2 3 to 1, 4 5 to 0.
        return tf.equal(batches % replicas // replicas_per_pipeline, input_pipeline_id)

    if isinstance(data, RecordGroups):
        examples = _mixed_examples(data, seed, first_example)
        batches = examples.batch(batch_size, drop_remainder=True)
        if num_input_pipelines > 1:
            # The first of them is the first of a global batch.
            numbered = batches.enumerate().filter(lambda number, _: is_mine(number))
            batches = numbered.map(lambda _, batch: batch)
    else:

        def kept(epoch: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
            return is_mine((epoch * data.num_examples + positions) // batch_size)

        blocks = _shuffled_blocks(
            data,
            seed,
            first_example,
            _records_in(data, _BYTES_PER_BLOCK),
            kept if num_input_pipelines > 1 else None,
        )
        batches = blocks.rebatch(batch_size, drop_remainder=True)
    return prefetched(
        batches,
        lambda serialized, counters: _parse_and_add_targets(data, targets, serialized, counters),
    )


def _records_in(data: PretrainingData, num_bytes: float) -> int:
    """Returns how many records of average size so many bytes hold, at least one."""
    return max(1, int(num_bytes * data.num_examples / data.num_bytes))


def _shuffled_blocks(
    data: PretrainingData,
    seed: int,
    first_example: int,
    records_per_block: int,
    is_kept: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    shards_at_once: int = _SHARDS_AT_ONCE,
) -> tf.data.Dataset:
    """Returns the endless stream of shuffled records from an example on, block by block.

    Args:
        data: the records.
        seed: seed of the order of records and of their masks.
        first_example: number of examples to skip.
        records_per_block: how many are shuffled at a time.
        is_kept: tells of an epoch (int64 scalar) and positions in it (int64 [R]) which records to
            keep, bool [R]; None keeps all.
        shards_at_once: how many files are open together.

    Returns:
        Pairs: the records, string [R], and what their masks follow from, int64 [R, 3].
    """
    # Examples already seen are whole epochs and a rest; the rest is whole blocks and a rest.
    first_epoch, first_position = divmod(first_example, data.num_examples)
    first_block, first_in_block = divmod(first_position, records_per_block)

    def blocks_of(epoch: tf.Tensor) -> tf.data.Dataset:
        skipped = tf.where(tf.equal(epoch, first_epoch), tf.constant(first_block, tf.int64), 0)
        # One record of each of several shards in turn.
        order = random_permutation(
            _seed_of(seed, _ORDER_OF_SHARDS, epoch), tf.constant(len(data.paths), tf.int64)
        )
        records = tf.data.Dataset.from_tensor_slices(tf.gather(data.paths, order)).interleave(
            tf.data.TFRecordDataset, cycle_length=shards_at_once, block_length=1
        )
        # Blocks that a resumed run is past are read and dropped as strings; numbers stay.
        blocks = records.batch(records_per_block).skip(skipped).enumerate(skipped)
        return blocks.map(lambda number, block: shuffle(epoch, number, block))

    def shuffle(
        epoch: tf.Tensor, number: tf.Tensor, block: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        block_seed = _seed_of(seed, _ORDER_OF_RECORDS, epoch, number)
        order = random_permutation(block_seed, tf.size(block, tf.int64))  # [R]
        # [R], in the epoch
        positions = number * records_per_block + tf.range(tf.size(block, tf.int64))
        counters = _mask_counters(seed, epoch, positions)  # [R, 3]
        shuffled = tf.gather(block, order)  # [R] strings
        if is_kept is not None:
            kept = is_kept(epoch, positions)  # bool [R]
            shuffled, counters = shuffled[kept], counters[kept]
        return shuffled, counters

    def without_skipped(serialized: tf.Tensor, counters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # A later epoch, or this one from `first_position` on: any of the two comparisons will do.
        kept = tf.reduce_any(counters[:, 1:] > [first_epoch, first_position - 1], axis=1)
        return serialized[kept], counters[kept]

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    blocks = epochs.flat_map(blocks_of)
    return blocks.map(without_skipped) if first_in_block else blocks


def _mixed_examples(data: RecordGroups, seed: int, first_example: int) -> tf.data.Dataset:
    """Returns the endless stream of examples of all groups, drawn at their rates.

    Each group is an endless stream of its own, with its own epochs and orders.

    Returns:
        Pairs: a record, string scalar, and what its masks follow from, int64 [3].
    """
    sampling = GroupSampling(list(data.rates.values()), seed)
    # All groups together have as many files open as one alone, or one each.
    shards_at_once = max(1, _SHARDS_AT_ONCE // len(data.groups))
    streams = []
    for (name, group), used in zip(
        data.groups.items(), sampling.counts_before(first_example), strict=True
    ):
        # All blocks together take the memory of one, and each lasts as long as that one.
        size = max(
            _FEWEST_RECORDS_PER_BLOCK, _records_in(group, _BYTES_PER_BLOCK * data.rates[name])
        )
        blocks = _shuffled_blocks(
            group, _seed_of_group(seed, name), used, size, shards_at_once=shards_at_once
        )
        streams.append(blocks.unbatch())
    return tf.data.Dataset.choose_from_datasets(streams, sampling.groups(first_example))


def _seed_of_group(seed: int, name: str) -> int:
    """Returns a seed that follows from the name of a group, whatever the other groups are."""
    hashed = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(hashed[:8]) >> 1  # fits int64


def evaluation_batches(
    data: PretrainingData, targets: Targets, batch_size: int, seed: int
) -> tf.data.Dataset:
    """Returns one pass over the records in a fixed order with fixed masks.

    The last batch is filled up with copies of its last row that have no weight, so that all
    batches have one static shape.

    Args:
        data: the records.
        targets: what is to be predicted; not used for records that come masked.
        batch_size: examples per batch.
        seed: seed of the masks.

    Returns:
        Dicts of the pretraining features, and `example_weights` float32 [B]: 1, and 0 for the
        rows that fill up.
    """

    def prepare(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.size(serialized, tf.int64)  # B, fewer in the last batch
        positions = number * batch_size + tf.range(rows)
        counters = _mask_counters(seed, tf.constant(0, tf.int64), positions)
        batch = _parse_and_add_targets(data, targets, serialized, counters)
        batch[EXAMPLE_WEIGHTS] = tf.ones([rows])  # [rows]
        # Copies, because a row of padding alone has no piece to attend to.
        # [B]: 0 1 2 2 2 for 3 rows of 5
        copied = tf.minimum(tf.range(batch_size, dtype=tf.int64), rows - 1)
        is_real = tf.cast(tf.range(batch_size, dtype=tf.int64) < rows, tf.float32)  # [B]: 1 1 1 0 0
        filled = {name: tf.gather(value, copied) for name, value in batch.items()}  # [B, ...]
        filled[MASKED_LM_WEIGHTS] *= is_real[:, None]  # [B, P] x [B, 1]
        filled[EXAMPLE_WEIGHTS] = is_real
        return filled

    batches = tf.data.TFRecordDataset(data.paths).batch(batch_size).enumerate()
    return prefetched(batches, prepare)


def stored_batches(data: PretrainingData, batch_size: int, pad_id: int = 0) -> tf.data.Dataset:
    """Returns one pass over the records as they are stored, masked or not.

    Args:
        data: the records.
        batch_size: examples per batch; the last has what is left.
        pad_id: id of [PAD].
    """
    batches = tf.data.TFRecordDataset(data.paths).batch(batch_size)
    return batches.map(lambda serialized: _parse(data, serialized, pad_id))


def _seed_of(seed: int, purpose: int, *counters: tf.Tensor) -> tf.Tensor:
    # [2 + counters]
    row = tf.stack([tf.constant(seed, tf.int64), tf.constant(purpose, tf.int64), *counters])
    return seeds_of(row[None])[0]  # [1, k] -> [1] -> []


def _mask_counters(seed: int, epoch: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns what the masks of records follow from: (seed, epoch, position), int64 [n, 3]."""
    return tf.stack(
        [tf.fill(tf.shape(positions), tf.cast(value, tf.int64)) for value in (seed, epoch)]
        + [positions],
        axis=1,
    )


def _parse(data: PretrainingData, serialized: tf.Tensor, pad_id: int) -> dict[str, tf.Tensor]:
    if data.max_predictions_per_seq is None:
        return parse_examples(serialized, data.max_seq_length, pad_id, data.packed, data.segmented)
    return parse_masked_examples(serialized, data.max_seq_length, data.max_predictions_per_seq)


def _parse_and_add_targets(
    data: PretrainingData,
    targets: Targets,
    serialized: tf.Tensor,
    counters: tf.Tensor,
) -> dict[str, tf.Tensor]:
    batch = _parse(data, serialized, targets.vocabulary.pad_id)
    if data.max_predictions_per_seq is None:
        words = (batch.pop(WORD_CONTINUATIONS),) if data.segmented else ()
        batch |= targets(batch[INPUT_IDS], batch[INPUT_MASK], counters, *words)
    rows = serialized.shape[:1]
    return {name: tf.ensure_shape(value, rows + value.shape[1:]) for name, value in batch.items()}
