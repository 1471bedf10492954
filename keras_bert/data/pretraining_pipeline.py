"""Records to batches: an endless stream whose every batch is a function of seed and position."""

import os
from pathlib import Path

import tensorflow as tf

from keras_bert.data.manifest import Manifest
from keras_bert.data.records import check_shard, parse_examples
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
)
from keras_bert.text.masking import MaskedLanguageModelMasking, record_seeds
from keras_bert.text.vocabulary import Vocabulary

_SHUFFLED_AT_ONCE = 20_000
_SHARDS_AT_ONCE = 16


class PretrainingData:
    """A folder of records, checked when it is opened.

    Args:
        folder: made by `create_pretraining_data`.

    Attributes:
        folder: the folder.
        manifest: what it holds.

    Raises:
        FileNotFoundError: the folder has no manifest or lacks a shard.
        ValueError: a shard is half-written, damaged or of another format, or there is no example.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        self.manifest = Manifest.read(folder)
        for shard in self.manifest.shards:
            path = self.folder / shard.name
            if not path.is_file():
                raise FileNotFoundError(
                    f"{path} is missing though the manifest lists it: make the records again"
                )
            if path.stat().st_size != shard.size:
                raise ValueError(
                    f"{path} has {path.stat().st_size} bytes but the manifest says {shard.size}: "
                    "the file is half-written or was changed; make the records again"
                )
            check_shard(str(path), self.max_seq_length)
        if not self.num_examples:
            raise ValueError(f"{folder} holds no example: give more text")

    @property
    def num_examples(self) -> int:
        """Examples in all shards."""
        return self.manifest.examples

    @property
    def max_seq_length(self) -> int:
        """The longest example in pieces."""
        return self.manifest.max_seq_length

    @property
    def sentence_task(self) -> str:
        """What the next sentence label means: "nsp", or "none" for nothing."""
        return self.manifest.sentence_task

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Makes sure that the ids belong to a vocabulary.

        Raises:
            ValueError: the records were made with another one.
        """
        if vocabulary.sha256 != self.manifest.vocabulary_sha256:
            raise ValueError(
                f"the records in {self.folder} were made with another vocabulary "
                f"({self.manifest.vocab_size} entries, sha256 "
                f"{self.manifest.vocabulary_sha256[:12]}...) than the model's ({len(vocabulary)} "
                f"entries, sha256 {vocabulary.sha256[:12]}...): make them again with the model's"
            )


def training_batches(
    data: PretrainingData,
    masking: MaskedLanguageModelMasking,
    batch_size: int,
    seed: int,
    first_batch: int = 0,
    input_pipeline_id: int = 0,
    num_input_pipelines: int = 1,
    replicas_per_pipeline: int = 1,
) -> tf.data.Dataset:
    """Returns an endless dataset of batches for one input pipeline.

    The examples of each epoch come in an order that follows from seed and epoch, and the masks of
    an example from seed and its position in the stream. A run that is resumed at `first_batch`
    reads exactly what the run that was never stopped would have read.

    Args:
        data: the records.
        masking: hides pieces.
        batch_size: examples per replica.
        seed: of order and masks.
        first_batch: number of global batches to skip; what is skipped is not parsed.
        input_pipeline_id: which of the input pipelines this is.
        num_input_pipelines: how many there are; a global batch is dealt out to them.
        replicas_per_pipeline: consecutive batches that belong to one global batch.

    Returns:
        Dicts of the pretraining features with static shapes.
    """
    replicas = num_input_pipelines * replicas_per_pipeline
    first_example = first_batch * replicas * batch_size
    first_epoch, offset = divmod(first_example, data.num_examples)

    def epoch_records(epoch: tf.Tensor) -> tf.data.Dataset:
        records = _shuffled_epoch(data, seed, epoch)
        return records.skip(tf.where(epoch == first_epoch, tf.constant(offset, tf.int64), 0))

    def is_mine(number: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        return number % replicas // replicas_per_pipeline == input_pipeline_id

    def prepare(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        positions = number * batch_size + tf.range(batch_size, dtype=tf.int64)
        return _parse_and_mask(data, masking, serialized, seed, positions, batch_size)

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    batches = epochs.flat_map(epoch_records).batch(batch_size, drop_remainder=True)
    batches = batches.enumerate(start=first_batch * replicas)
    if num_input_pipelines > 1:
        batches = batches.filter(is_mine)
    return batches.map(prepare, tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(
    data: PretrainingData, masking: MaskedLanguageModelMasking, batch_size: int, seed: int
) -> tf.data.Dataset:
    """Returns one pass over the records in a fixed order with fixed masks.

    The last batch is filled up with empty rows, whose weights (`masked_lm_weights`,
    `example_weights`) are zero, so that all batches have one static shape.

    Args:
        data: the records.
        masking: hides pieces.
        batch_size: examples per batch.
        seed: of the masks.
    """

    def prepare(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.shape(serialized)[0]
        positions = number * batch_size + tf.range(tf.cast(rows, tf.int64))
        batch = _parse_and_mask(data, masking, serialized, seed, positions, None)
        batch[EXAMPLE_WEIGHTS] = tf.ones([rows])
        return {name: _fill_up(value, batch_size) for name, value in batch.items()}

    records = tf.data.TFRecordDataset(_shard_paths(data))
    batches = records.batch(batch_size).enumerate()
    return batches.map(prepare, tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)


def _shard_paths(data: PretrainingData) -> list[str]:
    return [str(data.folder / shard.name) for shard in data.manifest.shards if shard.examples]


def _shuffled_epoch(data: PretrainingData, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """Shards in random order, several read in turn, then large blocks shuffled: all seeded."""
    low = tf.bitcast(record_seeds(seed, epoch), tf.int64)
    paths = _shuffle(tf.constant(_shard_paths(data)), low, tf.constant(-1, tf.int64))
    records = tf.data.Dataset.from_tensor_slices(paths).interleave(
        tf.data.TFRecordDataset, cycle_length=_SHARDS_AT_ONCE, block_length=1
    )
    # Whole blocks are shuffled, not a moving buffer: `Dataset.shuffle` takes no seed that is
    # computed in the graph.
    blocks = records.batch(_SHUFFLED_AT_ONCE).enumerate()
    return blocks.map(lambda number, block: _shuffle(block, low, number)).unbatch()


def _shuffle(values: tf.Tensor, seed: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(values, seed=tf.stack([seed, number]))


def _parse_and_mask(
    data: PretrainingData,
    masking: MaskedLanguageModelMasking,
    serialized: tf.Tensor,
    seed: int,
    positions: tf.Tensor,
    batch_size: int | None,
) -> dict[str, tf.Tensor]:
    batch = parse_examples(serialized, data.max_seq_length)
    batch = {name: _with_rows(value, batch_size) for name, value in batch.items()}
    masked = masking(batch[INPUT_IDS], batch[INPUT_MASK], record_seeds(seed, positions))
    return batch | {
        INPUT_IDS: masked.input_ids,
        MASKED_LM_POSITIONS: masked.masked_lm_positions,
        MASKED_LM_IDS: masked.masked_lm_ids,
        MASKED_LM_WEIGHTS: masked.masked_lm_weights,
    }


def _with_rows(value: tf.Tensor, batch_size: int | None) -> tf.Tensor:
    return tf.ensure_shape(value, (batch_size, *value.shape[1:]))


def _fill_up(value: tf.Tensor, batch_size: int) -> tf.Tensor:
    missing = batch_size - tf.shape(value)[0]
    padded = tf.pad(value, [[0, missing]] + [[0, 0]] * (len(value.shape) - 1))
    return _with_rows(padded, batch_size)
