"""What the attention heads of a model do over many texts (Clark et al. 2019, arXiv:1906.04341).

Shapes: L layers, A heads, S tokens.
"""

import csv
import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.counts import check_count, needed_count
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.models.encoder import BertEncoder
from keras_bert.storage.files import atomic_file, write_json
from keras_bert.storage.paths import short_name
from keras_bert.storage.text_lines import check_several, each_string
from keras_bert.tasks.opened_encoder import open_encoder
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.visualize.attention.head_places import PLACES, place_sums, sentence

# Name of a statistic -> what it is, in a heading.
STATISTICS: Mapping[str, str] = {name: f"to {place}" for name, place in PLACES.items()} | {
    "distance": "mean distance, tokens",
    "entropy": "entropy, nats",
    "cls_entropy": "entropy from [CLS], nats",
    "sep_to_sep": "from [SEP] to [SEP]",
    "largest": "largest weight",
}
# Texts are sorted by length within so many batches; few distinct lengths waste little.
_BATCHES_PER_CHUNK = 8
_LENGTH_MULTIPLE = 8
# Probabilities of a batch, all layers together; four bytes each.
_MOST_PROBABILITIES = 1 << 25
_SPECIAL_TOKENS = 2
# Below it a head is not remarkable.
_LEAST_SHARE = 0.5
_TINY = np.finfo(np.float32).tiny


@dataclasses.dataclass(frozen=True, eq=False)
class HeadStatistics:
    """What each head does on average over all tokens of all texts; padding is none of them.

    Attributes:
        model: name of the model.
        texts: how many texts were read.
        tokens: how many tokens they had, [CLS] and [SEP] included.
        cut_texts: how many texts were longer than the model reads.
        uniform_entropy: the entropy that heads would have if each token looked at all alike, nats.
        values: float64 [L, A] by name, see `STATISTICS`: the fractions of weight that go to a
            place; "distance", the mean distance in tokens between words of the text, [CLS] and
            [SEP] left out; "entropy" of where a token looks, and "cls_entropy" of where [CLS] does,
            in nats; "sep_to_sep", the weight from each [SEP] to all of them; "largest", the mean of
            the largest weight of a token.
    """

    model: str
    texts: int
    tokens: int
    cut_texts: int
    uniform_entropy: float
    values: Mapping[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        layers, heads = self.values["entropy"].shape
        return layers, heads

    def rows(self) -> Iterator[dict[str, float]]:
        """Yields the numbers of each head, with its layer and its number from 0."""
        for layer, head in np.ndindex(self.shape):
            numbers = {name: float(values[layer, head]) for name, values in self.values.items()}
            yield {"layer": layer, "head": head} | numbers

    def sentences(self, least: float = _LEAST_SHARE) -> list[str]:
        """Returns a sentence on each remarkable head, those with the largest share first.

        Args:
            least: the share of its weight that a remarkable head gives to one of `PLACES`.
        """
        remarkable = []
        for row in self.rows():
            shares = {place: row[place] for place in PLACES}
            if max(shares.values()) >= least:
                name = f"Layer {row['layer']}, head {row['head']}"
                remarkable.append((-max(shares.values()), sentence(name, shares, least)))
        # Ties keep the order of the model.
        return [text for _, text in sorted(remarkable, key=lambda pair: pair[0])]

    def as_dict(self) -> dict[str, Any]:
        """Returns what `save` writes as JSON."""
        return {
            "model": self.model,
            "texts": self.texts,
            "tokens": self.tokens,
            "cut_texts": self.cut_texts,
            "uniform_entropy": self.uniform_entropy,
            "heads": list(self.rows()),
            "remarkable": self.sentences(),
        }

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `heads.csv` (a row a head) and `heads.json` into a folder, each whole.

        Args:
            folder: it is created when missing; other files in it stay.
        """
        with (
            atomic_file(Path(folder) / "heads.csv") as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            table = csv.DictWriter(file, ["layer", "head", *self.values])
            table.writeheader()
            for row in self.rows():
                table.writerow(
                    {
                        name: value if isinstance(value, int) else f"{value:.6g}"
                        for name, value in row.items()
                    }
                )
        write_json(Path(folder) / "heads.json", self.as_dict(), ensure_ascii=False)


def head_statistics(
    model: Any,
    texts: Iterable[str],
    *,
    tokenizer: Tokenizer | None = None,
    max_seq_length: int | None = None,
    batch_size: int = 16,
    ignore_config_keys: Collection[str] = (),
) -> HeadStatistics:
    """Tells where each head of a model looks, on average over many texts.

    Every token counts alike, [CLS] and [SEP] too, as in the paper; a text that is too long is cut,
    one without pieces is passed over. Sums are float64; memory holds a few batches.

    Args:
        model: a model folder of any format, a `BertEncoder`, a model with a head, or a
            `FinetunedModel`. It is computed in float32.
        texts: the texts; one at a time is read.
        tokenizer: that of a model that is given as an object; a folder brings its own.
        max_seq_length: the most tokens of a text; None takes all positions of the model.
        batch_size: the most texts of a call of the model.
        ignore_config_keys: unknown keys of a folder's config to pass over.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is no model of this package, there is no text with a piece, or a number is
            out of its range.

    Example:
        statistics = head_statistics("runs/mini/preset", ["He left the room .", "She came back ."])
        print(statistics.sentences())
    """
    check_several(texts)
    encoder, tokenizer = open_encoder(
        model, "attention_probs", tokenizer, ignore_config_keys, dtype="float32"
    )
    positions = encoder.config.max_position_embeddings
    check_count("max_seq_length", max_seq_length)
    length = positions if max_seq_length is None else max_seq_length
    if not _SPECIAL_TOKENS < length <= positions:
        raise ValueError(
            f"max_seq_length is {length}: it must be above {_SPECIAL_TOKENS} and at most "
            f"{positions}, the positions of the model"
        )
    needed_count("batch_size", batch_size)
    if not tokenizer.vocabulary.framing.ends:
        raise ValueError(
            "rows of this tokenizer have no token at their end, of which the statistics tell: give "
            "the folder of a tokenizer whose template ends with one"
        )
    reader = _Reader(encoder, tokenizer, length, batch_size)
    sums: dict[str, np.ndarray] = {}
    logarithms = 0.0
    for probabilities, pieces in reader.read(texts):
        for name, values in _text_sums(probabilities, pieces, tokenizer.vocabulary).items():
            sums[name] = sums.get(name, 0) + values
        logarithms += len(pieces) * np.log(len(pieces))
    if not reader.texts:
        raise ValueError("no text has a piece that the model reads: give at least one")
    # What a sum is divided by: all tokens, one [CLS] and one [SEP] a text, the weight in the text.
    denominators = {
        "cls_entropy": reader.texts,
        "sep_to_sep": reader.texts,
        "distance": np.maximum(sums.pop("within"), _TINY),
    }
    is_folder = isinstance(model, str | os.PathLike)
    return HeadStatistics(
        model=short_name(model) if is_folder else type(model).__name__,
        texts=reader.texts,
        tokens=reader.tokens,
        cut_texts=reader.cut_texts,
        uniform_entropy=float(logarithms / reader.tokens),
        values={name: sums[name] / denominators.get(name, reader.tokens) for name in STATISTICS},
    )


def _text_sums(
    probabilities: np.ndarray, pieces: Sequence[str], vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Returns the sums of a text, float64 [L, A] by name.

    Args:
        probabilities: float32 [L, A, S, S].
        pieces: S pieces, [CLS] first, [SEP] last.
        vocabulary: that of the model.
    """
    sums = place_sums(probabilities, pieces, vocabulary)
    # p ln p is 0 where p is.
    terms = probabilities * np.log(np.maximum(probabilities, _TINY))  # [L, A, S, S]
    entropies = -terms.sum(axis=-1, dtype=np.float64)  # [L, A, S]
    sums["entropy"] = entropies.sum(axis=-1)
    sums["cls_entropy"] = entropies[..., 0]
    sums["sep_to_sep"] = probabilities[..., -1, -1].astype(np.float64)
    sums["largest"] = probabilities.max(axis=-1).sum(axis=-1, dtype=np.float64)
    inner = probabilities[..., 1:-1, 1:-1]
    places = np.arange(len(pieces) - _SPECIAL_TOKENS, dtype=np.float64)
    distances = np.abs(places[:, None] - places)  # [S - 2, S - 2]
    sums["distance"] = np.einsum("lafs,fs->la", inner, distances)
    sums["within"] = inner.sum(axis=(-2, -1), dtype=np.float64)
    return sums


class _Reader:
    """Reads texts in batches of like length.

    Attributes:
        texts: how many texts with pieces were read so far.
        tokens: how many tokens they had.
        cut_texts: how many of them were cut.
    """

    def __init__(
        self, encoder: BertEncoder, tokenizer: Tokenizer, max_seq_length: int, batch_size: int
    ):
        rows = {name: tf.TensorSpec([None, None], tf.int32) for name in encoder.input}
        # One trace for batches of every shape.
        self._probabilities = tf.function(
            lambda inputs: encoder(inputs, training=False)["attention_probs"],
            input_signature=[rows],
        )
        self._config = encoder.config
        self._tokenizer = tokenizer
        self._max_seq_length = max_seq_length
        self._batch_size = batch_size
        self.texts = self.tokens = self.cut_texts = 0

    def read(self, texts: Iterable[str]) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Yields probabilities, float32 [L, A, S, S], and pieces of each text."""
        chunk: list[str] = []
        for text in each_string(texts):
            chunk.append(text)
            if len(chunk) == self._batch_size * _BATCHES_PER_CHUNK:
                yield from self._read_chunk(chunk)
                chunk = []
        if chunk:
            yield from self._read_chunk(chunk)

    def _read_chunk(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, list[str]]]:
        vocabulary = self._tokenizer.vocabulary
        room = self._max_seq_length - _SPECIAL_TOKENS
        ids = self._tokenizer(texts)  # ragged [texts, pieces]
        found = [part for part in np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])]
        rows = [
            np.array([vocabulary.cls_id, *part[:room], vocabulary.sep_id], np.int32)
            for part in found
            if len(part)
        ]
        self.cut_texts += sum(len(part) > room for part in found)
        rows.sort(key=len, reverse=True)
        start = 0
        while start < len(rows):
            longest = -(-len(rows[start]) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
            longest = min(longest, self._max_seq_length)
            heads = self._config.num_hidden_layers * self._config.num_attention_heads
            fitting = _MOST_PROBABILITIES // (heads * longest * longest)
            batch = rows[start : start + max(1, min(self._batch_size, fitting))]
            yield from self._read_batch(batch, longest)
            start += len(batch)

    def _read_batch(
        self, rows: Sequence[np.ndarray], length: int
    ) -> Iterator[tuple[np.ndarray, list[str]]]:
        vocabulary = self._tokenizer.vocabulary
        ids = np.full([len(rows), length], vocabulary.pad_id, np.int32)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        inputs = {INPUT_IDS: ids, INPUT_MASK: mask, SEGMENT_IDS: np.zeros_like(ids)}
        layers = self._probabilities(
            {name: tf.constant(value) for name, value in inputs.items()}
        )  # L of [B, A, S, S]
        layers = [layer.numpy() for layer in layers]
        for index, row in enumerate(rows):
            size = len(row)  # padding is cut off here and never counts
            own = np.stack([layer[index, :, :size, :size] for layer in layers])
            self.texts += 1
            self.tokens += size
            yield own, [vocabulary.tokens[number] for number in row]
