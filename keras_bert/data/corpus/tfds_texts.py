"""Texts of TensorFlow Datasets, such as `tfds:wikipedia/20230601.en`, as documents of a corpus."""

from collections.abc import Iterator
from typing import NamedTuple

from keras_bert.data.corpus.documents import Document, decoded, documents_of_text
from keras_bert.storage.data_sets import TFDS_PREFIX, import_tfds, open_data_set

_SPLIT = "train"


class TfdsShard(NamedTuple):
    """One file of the "train" split of a data set.

    Attributes:
        name: what the data set was asked for by, "tfds:" included, and the part of it.
        size: about how many bytes it takes.
        text_field: the feature that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.
        dataset: name, config and version.
        index: number of the file.
        examples: its number of examples.
    """

    name: str
    size: int
    text_field: str
    errors: str
    dataset: str
    index: int  # type: ignore[assignment]  # hides tuple's method, which nobody calls on a shard
    examples: int

    @property
    def text_bytes(self) -> int:
        """About how many bytes of text it holds."""
        return self.size

    def fingerprint(self) -> str:
        """Returns what identifies the content: a data set's version never changes."""
        return f"{self.dataset}/{self.index}/{self.examples}"

    def documents(self, numbers: Iterator[int]) -> Iterator[tuple[Document, int]]:
        """Yields the documents, each with the bytes of text that were read for it.

        Args:
            numbers: gives each document its number.

        Raises:
            ValueError: a text is not UTF-8.
        """
        tfds = import_tfds()
        split = f"{_SPLIT}[{self.index}shard]"
        dataset = tfds.builder(self.dataset).as_dataset(split=split, shuffle_files=False)
        read = 0
        for number, example in enumerate(tfds.as_numpy(dataset)):
            content = example[self.text_field]
            read += len(content)
            text = decoded(content, self.errors, f"{self.name}, example {number}", self.text_field)
            for document in documents_of_text(text, numbers):
                yield document, min(read, self.size)


def find_shards(source: str, text_field: str, errors: str) -> list[TfdsShard]:
    """Returns the files of a data set; it is downloaded and prepared where it is not yet there.

    Args:
        source: "tfds:name" or "tfds:name/config", perhaps with ":1.0.0" behind it.
        text_field: the feature that holds the text.
        errors: "strict" or "replace".

    Raises:
        ValueError: TensorFlow Datasets is not installed or knows no such data set, or it has no
            such split or feature.
    """
    builder = open_data_set(source)
    if _SPLIT not in builder.info.splits:
        raise ValueError(
            f"{source} has no split {_SPLIT!r} (its splits: {', '.join(builder.info.splits)}): "
            "choose another data set or config"
        )
    if text_field not in builder.info.features:
        raise ValueError(
            f"{source} has no text in feature {text_field!r} (its features: "
            f"{', '.join(builder.info.features)}): name the right one with --text_field"
        )
    feature = builder.info.features[text_field]
    if feature.shape != () or feature.tf_dtype != "string":
        raise ValueError(
            f"{source}: feature {text_field!r} holds no text (it is {feature!r}): name another "
            "with --text_field"
        )
    split = builder.info.splits[_SPLIT]
    name = source.removeprefix(TFDS_PREFIX).partition(":")[0]  # may have named the version
    bytes_per_example = split.num_bytes / max(split.num_examples, 1)
    return [
        TfdsShard(
            f"{source}, {_SPLIT}[{index}shard]",
            round(examples * bytes_per_example),
            text_field,
            errors,
            f"{name}:{builder.version}",
            index,
            examples,
        )
        for index, examples in enumerate(split.shard_lengths)
    ]
