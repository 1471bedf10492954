"""More training texts from few: words replaced by what a masked language model puts in their place.

    the film was great       the [MASK] was great    ->  movie  show  book  ...
                             the film was [MASK]     ->  good  fine  bad  ...
    copies: the movie was great; the film was fine; the show was good ...

This is the augmentation of TinyBERT (Jiao et al. 2020, arXiv:1909.10351, algorithm 1), but that the
candidates of every word come from the masked language model. The paper takes those of words of
several pieces from GloVe; here such a word is hidden by one [MASK]. A replaced word may change what
the text says, so the copies have no labels: a teacher answers them.
"""

import csv
import dataclasses
import math
import os
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, pairwise
from pathlib import Path

import numpy as np

from keras_bert.models.masked_lm import BertMaskedLM, load_masked_lm
from keras_bert.progress import Progress
from keras_bert.storage.files import atomic_file
from keras_bert.storage.paths import check_output
from keras_bert.storage.tables import read_table
from keras_bert.storage.text_lines import check_parts, check_several
from keras_bert.tasks.fill_mask.augmentation_options import AugmentationOptions
from keras_bert.tasks.fill_mask.masked_rows import MaskedRow, MaskedRows
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR
from keras_bert.text.tokenizer import BertTokenizer

_LABEL = "label"
# Texts whose masks are asked for at once, so that rows of one batch are of like length.
_TEXTS_PER_CHUNK = 64
# Guesses that are no candidates: pieces of words, punctuation, the word itself.
_SPARE_GUESSES = 30


@dataclasses.dataclass(frozen=True)
class _Word:
    """A word that may be replaced: `text[start:end]`, and by what."""

    start: int
    end: int
    candidates: tuple[str, ...]


class TextAugmenter:
    """Makes copies of texts with some words replaced.

    Args:
        model: the masked language model.
        tokenizer: its tokenizer, a `BertTokenizer`.
        options: how many copies and candidates.

    Raises:
        ValueError: the model predicts no masked words, the tokenizer is no `BertTokenizer`, or the
            vocabulary is another's.

    Example:
        augment = TextAugmenter(model, tokenizer, AugmentationOptions(copies=3))
        for copies in augment(["the film was great"]):
            print(copies)
    """

    def __init__(
        self,
        model: BertMaskedLM,
        tokenizer: Tokenizer,
        options: AugmentationOptions = AugmentationOptions(),  # noqa: B008 (frozen)
    ):
        if not isinstance(tokenizer, BertTokenizer):
            raise ValueError(
                f"the model has a {type(tokenizer).__name__}: augmentation joins word pieces, so "
                "give a model with a WordPiece vocabulary"
            )
        guesses = options.candidates + _SPARE_GUESSES
        self._ask = MaskedRows(model, tokenizer, options.batch_size, guesses)
        self._tokenizer = tokenizer
        self._options = options
        vocabulary = tokenizer.vocabulary
        continues, special = vocabulary.continuation_mask, vocabulary.special_tokens
        # Piece -> the word that it is; those that are none are left out.
        self._words = {
            index: token
            for index, token in enumerate(vocabulary.tokens)
            if not continues[index] and token not in special and _has_letter(token)
        }

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        options: AugmentationOptions = AugmentationOptions(),  # noqa: B008 (frozen)
        ignore_config_keys: Collection[str] = (),
    ) -> "TextAugmenter":
        """Opens a model folder of any format.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it holds no head that predicts words, or its vocabulary is not WordPiece.
        """
        model = load_masked_lm(folder, ignore_config_keys)
        return cls(model, load_tokenizer(folder), options)

    def __call__(self, texts: Iterable[str], column: int = 0) -> Iterator[list[str]]:
        """Yields the copies of each text, in order; none where no word can be replaced.

        They depend on the text, its number, the seed and the number of its column alone.

        Raises:
            ValueError: `texts` is a single string.
        """
        check_several(texts)
        return self._each(texts, column)

    def _each(self, texts: Iterable[str], column: int) -> Iterator[list[str]]:
        numbered = enumerate(texts)
        own = f" {column}" if column else ""  # texts of a pair are replaced apart
        while chunk := list(islice(numbered, _TEXTS_PER_CHUNK)):
            found = self._words_of([text for _, text in chunk])
            for (number, text), words in zip(chunk, found, strict=True):
                yield self._copies(
                    text, words, random.Random(f"{self._options.seed} {number}{own}")
                )

    def _words_of(self, texts: Sequence[str]) -> list[list[_Word]]:
        """Returns the words of each text with their candidates."""
        parts = self._tokenizer.tokenize_with_offsets(list(texts))
        words: list[list[_Word]] = []
        rows: list[MaskedRow] = []
        asked: list[tuple[int, int]] = []  # text and word of each guess of the rows, in order
        for number, text in enumerate(texts):
            ids, starts, ends = (part[number].numpy() for part in parts)
            begins = ~self._tokenizer.vocabulary.continuation_mask[ids]  # bool [N]
            begins[:1] = True
            bounds = [*np.flatnonzero(begins).tolist(), len(ids)]
            words.append([])
            spans = []  # of pieces, of each word
            for first, behind in pairwise(bounds):
                start, end = int(starts[first]), int(ends[behind - 1])
                if _has_letter(text[start:end]):
                    words[-1].append(_Word(start, end, ()))
                    spans.append((first, behind))
            # One word of so many is hidden in a row, each in a row of its own where rate is 0.
            rate = self._options.masking_rate
            step = math.ceil(1 / rate) if rate else max(1, len(spans))
            for least in range(min(step, len(spans))):
                rows += self._rows(ids, spans[least::step])
                asked += [(number, index) for index in range(least, len(spans), step)]
        guesses = chain.from_iterable(answer.guesses for answer in self._ask(rows))  # int32 [K]
        for (number, index), best in zip(asked, guesses, strict=True):
            word = words[number][index]
            candidates = self._candidates(best, texts[number][word.start : word.end])
            words[number][index] = dataclasses.replace(word, candidates=candidates)
        return words

    def _rows(self, ids: np.ndarray, spans: Sequence[tuple[int, int]]) -> Iterator[MaskedRow]:
        """Yields rows that ask for all these words, in order; a mask hides all pieces of one."""
        hidden, kept = ids.copy(), np.ones(len(ids), bool)
        for first, behind in spans:
            hidden[first] = self._tokenizer.vocabulary.mask_id
            kept[first + 1 : behind] = False
        hidden = hidden[kept]
        masks = (np.cumsum(kept) - 1)[[first for first, _ in spans]]  # their indices in `hidden`
        room = self._ask.room
        # A row of a longer text asks for what is in half of it: there is text around each word.
        reach = room if len(hidden) <= room else max(1, room // 2)
        for _, group in groupby(masks, lambda mask: (mask - masks[0]) // reach):
            places = np.array(list(group))
            middle = (places[0] + places[-1]) // 2
            begin = max(0, min(middle - room // 2, len(hidden) - room))
            within = masks[(masks >= begin) & (masks < begin + room)]
            yield MaskedRow(hidden[begin : begin + room], within - begin, places - begin)

    def _candidates(self, guesses: np.ndarray, word: str) -> tuple[str, ...]:
        found = (self._words.get(int(guess)) for guess in guesses)
        others = [piece for piece in found if piece and piece.lower() != word.lower()]
        return tuple(others[: self._options.candidates])

    def _copies(self, text: str, words: Sequence[_Word], draw: random.Random) -> list[str]:
        copies: dict[str, None] = {}
        for _ in range(self._options.copies):
            parts, before = [], 0
            for word in words:
                if word.candidates and draw.random() < self._options.replacement_rate:
                    parts += [text[before : word.start], draw.choice(word.candidates)]
                    before = word.end
            copies["".join([*parts, text[before:]])] = None
        copies.pop(text, None)
        return list(copies)


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def augment_file(
    model: str | os.PathLike,
    data: str | os.PathLike,
    output: str | os.PathLike,
    options: AugmentationOptions = AugmentationOptions(),  # noqa: B008 (frozen)
    text_columns: Sequence[str] = (),
    label_column: str = _LABEL,
    keep_labels: bool = False,
    ignore_config_keys: Collection[str] = (),
) -> int:
    """Writes copies of the rows of a table with words of their texts replaced.

    Args:
        model: folder of a model with a masked LM head.
        data: the table, CSV, TSV or JSON lines.
        output: the CSV file to write, whole or not at all; "unlabeled.csv" in the folder of the
            training data is what a teacher answers.
        options: how texts are changed.
        text_columns: the columns that are changed; empty for "text" and, where it is there,
            "text_pair". In a copy of a row all of them are copies.
        label_column: the column that is left out; "label", the default, if it is there.
        keep_labels: write it all the same: each copy has the label of its row.
        ignore_config_keys: unknown keys of the model's config to pass over.

    Returns:
        How many rows were written.

    Raises:
        FileNotFoundError: there is no such table, or no such model.
        ValueError: the model predicts no words, a column is missing, that of the label is one of
            the texts, or the output is no CSV file or the table itself.
    """
    check_output(output, data)
    data, output = Path(data), Path(output)
    if output.suffix != ".csv":
        raise ValueError(f"output is {output}: a CSV file is written, so let its name end in .csv")
    table = read_table(data)
    text_columns = check_parts(text_columns, "text_columns", "column")
    names = list(text_columns) or [name for name in (TEXT, TEXT_PAIR) if name in table.columns]
    names = names or [TEXT]
    texts = [table.texts(name, "name the right one with --text_columns") for name in names]
    if label_column != _LABEL:  # one that somebody named
        table.column(label_column, "name the right one with --label_column")
    if label_column in names:
        raise ValueError(
            f"the column {label_column!r} is among the texts to change and is that of the label: "
            "name another --label_column, or leave it out of --text_columns"
        )
    dropped = set() if keep_labels else {label_column}
    columns = [name for name in table.columns if name not in dropped]
    augment = TextAugmenter.from_preset(model, options, ignore_config_keys)
    of_columns = [augment(column, number) for number, column in enumerate(texts)]
    copies = zip(*of_columns, strict=True)  # for each row the copies of each column
    written = 0
    with (
        atomic_file(output) as path,
        open(path, "w", encoding="utf-8", newline="") as file,
        Progress(len(table.rows), "text", "augmenting") as progress,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        for row, made in zip(table.rows, copies, strict=True):
            # A column without a word to replace stays as it is beside the copies of the others.
            originals = [row.values[name] for name in names]
            most = max(map(len, made))
            for number in range(most):
                values = dict(row.values)
                for name, own, original in zip(names, made, originals, strict=True):
                    values[name] = own[number % len(own)] if own else original
                writer.writerow([values.get(name, "") for name in columns])
            written += most
            progress.update(1, rows=written)
    return written
