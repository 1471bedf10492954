"""Texts from a masked language model: new ones, and the blanks of given ones.

    texts --rows--> ids and blanks --batches of chains--> sampler --> ids --> texts, scores

Shapes: C chains of a batch, S positions, P blanks of the chain that has most.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.generation.blanks import fill_blanks
from keras_bert.generation.chains import Chains
from keras_bert.generation.draws import chain_seeds
from keras_bert.generation.metropolis_hastings import ChainState
from keras_bert.generation.options import GenerationOptions
from keras_bert.generation.sampler import TextSampler
from keras_bert.models.finite_outputs import check_finite
from keras_bert.models.masked_lm import BertMaskedLM, load_masked_lm
from keras_bert.progress import Progress
from keras_bert.storage.text_lines import check_string, check_strings
from keras_bert.tasks.fill_mask.masked_rows import MaskedRow, MaskedRows
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.tokenizer import BertTokenizer

# Few distinct lengths: compiled for a device, each is a program of its own.
_LENGTH_MULTIPLE = 8
_LARGEST_SEED = (1 << 62) - 1


class GeneratedText(NamedTuple):
    """A text that was sampled.

    Attributes:
        text: the text; where blanks of a text were filled, the rest of it as it was.
        pieces: its N pieces, those that were given too.
        log_likelihood: its pseudo-log-likelihood, see `SentenceScorer`, a sum of natural logarithms
            over all N pieces as they are (tokenized again, the text may have others).
        perplexity: the pseudo-perplexity exp(-log_likelihood / N).
        seed: seed of the text, with which it can be sampled again.
        sample: its number among the samples of the text, from 0 up.
        acceptance_rate: rate of the proposals that were accepted; None for gibbs.
    """

    text: str
    pieces: tuple[str, ...]
    log_likelihood: float
    perplexity: float
    seed: int
    sample: int
    acceptance_rate: float | None


class _Row(NamedTuple):
    """A sample of a text: its pieces, which of them are blanks, and how it is written."""

    text: str
    ids: np.ndarray  # int32 [N]
    blanks: np.ndarray  # [P], indices of pieces
    seed: int
    sample: int


class TextGenerator:
    """Samples texts from a masked language model.

    Equal seeds give equal texts, whatever the batch size and the texts beside them (rounding apart:
    processors may compute another shape in another order). [PAD], [UNK], [CLS], [SEP], [MASK] and
    [unusedN] are never sampled.

    Args:
        model: the masked language model.
        tokenizer: its tokenizer, a `BertTokenizer` made with `keep_special_tokens=True`.
        options: how texts are sampled; None takes the defaults.
        batch_size: texts that are sampled at a time, and rows of a score per call of the model.

    Raises:
        ValueError: the model predicts no masked words, the tokenizer is no `BertTokenizer` or reads
            [MASK] as plain text, or the vocabulary is another's.

    Example:
        generator = TextGenerator.from_preset("runs/mini/preset")
        for text in generator.generate(count=4, length=12, seed=1):
            print(text.log_likelihood, text.text)
        [samples] = generator.infill(["She was not [MASK] to be [MASK] ."], samples=3)
    """

    def __init__(
        self,
        model: BertMaskedLM,
        tokenizer: Tokenizer,
        options: GenerationOptions | None = None,
        batch_size: int = 32,
    ):
        if not isinstance(tokenizer, BertTokenizer):
            raise ValueError(
                f"the model has a {type(tokenizer).__name__}: generation joins word pieces, so "
                "give a model with a WordPiece vocabulary"
            )
        self._score = MaskedRows(model, tokenizer, batch_size)
        if not tokenizer.settings["keep_special_tokens"]:
            raise ValueError(
                f"the tokenizer reads {tokenizer.vocabulary.special_tokens.mask} as plain text: "
                "make it with keep_special_tokens=True"
            )
        self._options = options or GenerationOptions()
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._sampler = TextSampler(model, tokenizer.vocabulary, self._options, batch_size)
        rows = tf.TensorSpec([None, None], tf.int32)
        vector, energies = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float64)
        chains = Chains(rows, rows, vector, tf.TensorSpec([None], tf.uint64))
        state = ChainState(rows, energies, rows, energies, vector)
        number, heat = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32)
        self._start = tf.function(
            self._sampler.start, input_signature=[rows, chains], autograph=False
        )
        self._sweeps = {
            late: tf.function(
                lambda chains, state, number, heat, *, late=late: self._sampler.sweep(
                    chains, state, number, heat, late
                ),
                input_signature=[chains, state, number, heat],
                autograph=False,
            )
            for late in (False, True)
        }

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        options: GenerationOptions | None = None,
        ignore_config_keys: Collection[str] = (),
        **arguments: Any,
    ) -> "TextGenerator":
        """Opens a model folder of any format, in float32.

        Args:
            folder: the folder, or hf://org/name.
            options: how texts are sampled.
            ignore_config_keys: unknown keys of its config to pass over, see `BertConfig.from_dict`.
            **arguments: `batch_size`.
        """
        model = load_masked_lm(folder, ignore_config_keys, dtype="float32")
        tokenizer = load_tokenizer(folder, keep_special_tokens=True)
        return cls(model, tokenizer, options, **arguments)

    def generate(
        self, count: int = 1, length: int = 20, seed: int = 0, prefix: str = ""
    ) -> list[GeneratedText]:
        """Samples new texts.

        Args:
            count: how many.
            length: pieces that are sampled for each.
            seed: seed of the texts.
            prefix: what they all begin with; it stays as it is.

        Raises:
            ValueError: a number is none or too small, `prefix` is no string or holds a [MASK], the
                model has no room for the text, or what it answers is not finite.
        """
        needed_count("count", count)
        needed_count("length", length)
        needed_count("seed", seed, 0, _LARGEST_SEED)
        if self._options.start == "text":
            raise ValueError(
                "start=text samples the pieces of given texts: give them to infill(), or another "
                "start"
            )
        mask = self._tokenizer.vocabulary.special_tokens.mask
        prefix = check_string(prefix, "prefix")
        if mask in prefix:
            raise ValueError(
                f"the prefix {prefix!r} holds {mask}, but stays as it is: give it to infill() with "
                "all its blanks"
            )
        [found] = self.infill([" ".join([*filter(None, [prefix]), *[mask] * length])], count, seed)
        return found

    def infill(
        self, texts: Iterable[str], samples: int = 1, seed: int = 0
    ) -> list[list[GeneratedText]]:
        """Samples what stands in the places of [MASK]; all else stays as it is.

        With `start="text"` the texts have no [MASK], and all their pieces are sampled.

        Args:
            texts: the texts; each [MASK] becomes one piece.
            samples: how many samples of each text.
            seed: seed of the first text; each text after it has a seed larger by one.

        Returns:
            For each text its samples.

        Raises:
            ValueError: a text has nothing to sample, or is longer than the model takes; `texts` is
                one string, or one of them is none; or what the model answers is not finite.
        """
        texts = check_strings(texts)
        needed_count("samples", samples)
        needed_count("seed", seed, 0, _LARGEST_SEED)
        rows = [
            row._replace(sample=sample)  # the row of a text is made once
            for index, text in enumerate(texts)
            for row in [self._row(text, seed + index)]
            for sample in range(samples)
        ]
        if not rows:
            return []
        # Rows of about the same length, and of about as many blanks, stand together.
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), len(rows[i].blanks)))
        batches = [
            order[start : start + self._batch_size]
            for start in range(0, len(order), self._batch_size)
        ]
        ids: list[np.ndarray] = [np.empty(0)] * len(rows)
        energies: list[float] = [0.0] * len(rows)
        rates: list[float | None] = [None] * len(rows)
        with Progress(
            len(batches) * self._options.sweeps, "sweep", "sampling", at_once=True
        ) as progress:
            for batch in batches:
                sampled, energy, accepted = self._sample([rows[i] for i in batch], progress)
                for at, index in enumerate(batch):
                    ids[index] = sampled[at, 1 : 1 + len(rows[index].ids)]
                    energies[index] = float(energy[at])
                    if self._options.method != "gibbs":
                        proposals = len(rows[index].blanks) * self._options.sweeps
                        rates[index] = float(accepted[at] / proposals)
        if self._options.method != "gibbs" and self._options.energy == "normalized":
            check_finite(energies)
            scores = [-energy for energy in energies]  # by its definition, see energy.py
        else:
            scores = self._log_likelihoods(ids)
        found = self._answers(rows, ids, scores, rates)
        return [found[start : start + samples] for start in range(0, len(found), samples)]

    def _row(self, text: str, seed: int) -> _Row:
        vocabulary, room = self._tokenizer.vocabulary, self._score.room
        ids = self._tokenizer([text]).values.numpy()  # int32 [N]
        is_mask, mask = ids == vocabulary.mask_id, vocabulary.special_tokens.mask
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        if len(ids) > room:
            raise ValueError(
                f"{shown!r} has {len(ids)} pieces but the model has room for {room}: shorten it"
            )
        if self._options.start == "text":
            if is_mask.any():
                raise ValueError(
                    f"{shown!r} has {mask} in it, but start=text begins with all pieces of a text: "
                    "leave it out, or give another start"
                )
            # What is never drawn stays: a chain could not come back to it.
            blanks = np.flatnonzero(self._sampler.conditionals.may_be_drawn[ids])
        else:
            blanks = np.flatnonzero(is_mask)
        if not len(blanks):
            wanted = "words" if self._options.start == "text" else mask
            raise ValueError(f"{shown!r} has no {wanted}: there is nothing to sample")
        return _Row(text, ids, blanks, seed, 0)

    def _sample(
        self, rows: Sequence[_Row], progress: Progress
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Samples a batch.

        Returns:
            The ids [C, S] after all sweeps, their energies [C] (0 by gibbs), and how many proposals
            were accepted [C].
        """
        ids, chains = self._arrays(rows)
        state = self._start(ids, chains)
        for number in range(self._options.sweeps):
            heat = tf.constant(self._options.temperature_of(number), tf.float32)
            late = number >= self._options.burn_in
            state = self._sweeps[late](chains, state, tf.constant(number, tf.int64), heat)
            progress.update(1)
        if self._options.method == "annealing":
            kept = state.best_ids, state.best_energies
        else:
            kept = state.ids, state.energies
        return kept[0].numpy(), kept[1].numpy(), state.accepted.numpy()

    def _arrays(self, rows: Sequence[_Row]) -> tuple[tf.Tensor, Chains]:
        vocabulary = self._tokenizer.vocabulary
        longest = max(len(row.ids) for row in rows) + 2
        length = min(-(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE, self._score.room + 2)
        # A last batch of 5 has 8 rows, of which 3 are padding, without a blank.
        count = min(1 << (len(rows) - 1).bit_length(), self._batch_size)
        ids = np.full([count, length], vocabulary.pad_id, np.int32)
        mask = np.zeros_like(ids)
        positions = np.zeros([count, max(len(row.blanks) for row in rows)], np.int32)
        counts = np.zeros([count], np.int32)
        seeds = np.zeros([2, count], np.int64)
        # [CLS] [SEP], so that no row is all padding.
        ids[:, :2], mask[:, :2] = (vocabulary.cls_id, vocabulary.sep_id), 1
        for at, row in enumerate(rows):
            own = [*row.ids, *vocabulary.end_ids]
            ids[at, 1 : len(own) + 1], mask[at, : len(own) + 1] = own, 1
            positions[at, : len(row.blanks)], counts[at] = row.blanks + 1, len(row.blanks)
            seeds[:, at] = row.seed, row.sample
        own = chain_seeds(*map(tf.constant, seeds))
        blanks = tf.constant(positions), tf.constant(counts)
        return tf.constant(ids), Chains(tf.constant(mask), *blanks, own)

    def _answers(
        self,
        rows: Sequence[_Row],
        ids: Sequence[np.ndarray],
        scores: Sequence[float],
        rates: Sequence[float | None],
    ) -> list[GeneratedText]:
        vocabulary = self._tokenizer.vocabulary
        tokens = np.array(vocabulary.tokens, object)
        if self._options.start == "text":
            texts = _strings(self._tokenizer.detokenize(tf.ragged.constant(ids, tf.int32)))
        else:
            filled = tf.RaggedTensor.from_row_lengths(
                np.concatenate([tokens[p[r.blanks]] for p, r in zip(ids, rows, strict=True)]),
                [len(row.blanks) for row in rows],
            )
            given = tf.constant([row.text for row in rows])
            texts = _strings(fill_blanks(given, filled, vocabulary.special_tokens.mask))
        return [
            GeneratedText(
                text,
                tuple(tokens[pieces]),
                score,
                float(np.exp(-score / len(pieces))),
                row.seed,
                row.sample,
                rate,
            )
            for row, pieces, text, score, rate in zip(rows, ids, texts, scores, rates, strict=True)
        ]

    def _log_likelihoods(self, ids: Sequence[np.ndarray]) -> list[float]:
        rows = [MaskedRow(pieces, [i], [i]) for pieces in ids for i in range(len(pieces))]
        answers = iter(self._score(rows))
        return [
            float(sum(np.float64(next(answers).log_probabilities[0]) for _ in pieces))
            for pieces in ids
        ]


def _strings(texts: tf.Tensor) -> list[str]:
    return [text.decode("utf-8", errors="replace") for text in texts.numpy()]
