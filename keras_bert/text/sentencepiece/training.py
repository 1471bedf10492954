"""Learns a SentencePiece model with the trainer of its library."""

import io
import random
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

from keras_bert.counts import check_switch, needed_count
from keras_bert.storage.text_lines import check_several, each_string
from keras_bert.text.sentencepiece.files import (
    SentencePieceFiles,
    SentencePieceSettings,
    load_library,
)
from keras_bert.text.sentencepiece.preparation import prepare_text

SentencePieceScheme = Literal["albert", "xlm_roberta", "deberta"]

# Bytes; the library leaves out what is longer without a word.
_LARGEST_SENTENCE = 4192
_SEED = 12345  # of the sample that is learned from

# README of google-research/albert: what its published models were trained with.
_ALBERT_SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]  # each always a piece of its own
_ALBERT_COVERAGE = 0.99995

# The ids and names of special tokens, and what else the trainer is told, by scheme.
_SPECIAL: dict[str, dict[str, Any]] = {
    "albert": {
        **{"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "pad_piece": "<pad>"},
        "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
        **{"user_defined_symbols": _ALBERT_SYMBOLS, "character_coverage": _ALBERT_COVERAGE},
    },
    "xlm_roberta": {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1},
    "deberta": {
        **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3},
        **{"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"},
    },
}
# Entries of a vocabulary that are no pieces of its model: <pad> and <mask>; [MASK].
_ENTRIES_BESIDE = {"albert": 0, "xlm_roberta": 2, "deberta": 1}


def train_sentencepiece(
    texts: Iterable[str],
    vocab_size: int,
    scheme: SentencePieceScheme = "albert",
    lowercase: bool = True,
    input_sentence_size: int = 10_000_000,
) -> SentencePieceFiles:
    """Learns a unigram SentencePiece model (Kudo 2018, arXiv:1804.10959), as ALBERT and XLM-R have.

    Needs the extra `sentencepiece`. The settings of "albert" are those of ALBERT's own command;
    of XLM-R and DeBERTa none was published, and the trainer's defaults stand.

    Args:
        texts: paragraphs or sentences.
        vocab_size: number of entries, special tokens among them. Fewer come back where the texts
            hold no more.
        scheme: "albert", "xlm_roberta" or "deberta": which special tokens there are, and how text
            is prepared.
        lowercase: lower-case the text and strip accents; of "albert" alone.
        input_sentence_size: how many texts are kept in memory and learned from: so many, drawn at
            random, of a larger corpus. The same texts give the same draw.

    Returns:
        The model; `save(folder)` writes spiece.model, sentencepiece.bpe.model or spm.model.

    Raises:
        ValueError: the scheme is unknown, a number is below 1, texts are a single string or one of
            them is none, the library is not installed, or it cannot learn so many pieces from the
            texts.
    """
    vocab_size = needed_count("vocab_size", vocab_size)
    check_switch("lowercase", lowercase)
    input_sentence_size = needed_count("input_sentence_size", input_sentence_size)
    check_several(texts)
    if scheme not in get_args(SentencePieceScheme):
        raise ValueError(
            f"scheme is {scheme!r}: it must be one of {', '.join(get_args(SentencePieceScheme))}"
        )
    library = load_library()
    is_albert = scheme == "albert"
    settings = SentencePieceSettings(
        scheme, lowercase and is_albert, keep_accents=not (lowercase and is_albert)
    )
    prepared = (prepare_text(text, *settings[:3]) for text in each_string(texts))
    parts = (part for text in prepared for part in _parts(text))
    model = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=_sample(parts, input_sentence_size),
            model_writer=model,
            vocab_size=vocab_size - _ENTRIES_BESIDE[scheme],
            model_type="unigram",
            hard_vocab_limit=False,
            minloglevel=2,
            max_sentence_length=_LARGEST_SENTENCE,
            **_SPECIAL[scheme],
        )
    except (RuntimeError, OSError) as error:
        remedy = (
            "raise --vocab_size"  # each character is a piece
            if "required_chars" in str(error)
            else "lower --vocab_size, give more text or, of too much text, lower "
            "--input_sentence_size"
        )
        raise ValueError(
            f"SentencePiece cannot learn {vocab_size} pieces from the texts ({error}): {remedy}"
        ) from None
    return SentencePieceFiles(model.getvalue(), settings)


def _sample(parts: Iterable[str], size: int) -> Iterator[str]:
    """Yields so many of some texts, drawn at random, or all if there are no more.

    The library can draw, too, but draws others in each process, whatever seed it is given. This is
    algorithm R of Vitter (1985): each text that is read takes the place of one that was drawn with
    just the probability that leaves all texts alike.
    """
    drawn: list[str] = []
    rng = random.Random(_SEED)
    for number, part in enumerate(parts):
        if number < size:
            drawn.append(part)
        elif (place := rng.randrange(number + 1)) < size:
            drawn[place] = part
    # The library keeps them: what it has is let go of here.
    drawn.reverse()
    while drawn:
        yield drawn.pop()


def _parts(text: str) -> Iterator[str]:
    """Yields a text in parts that the library takes, divided before white space if it has any."""
    start = 0
    while start < len(text):
        window = text[start : start + _LARGEST_SENTENCE].encode("utf-8", "replace")
        fitting = len(window[:_LARGEST_SENTENCE].decode("utf-8", "ignore"))  # characters
        end = start + fitting
        if end < len(text):
            end = next((i for i in range(end, start, -1) if text[i].isspace()), end)
        yield text[start:end]
        start = end
