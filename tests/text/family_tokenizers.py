"""Tiny vocabularies of each family, learned from the golden texts, and texts to try them on."""

import functools
import json
import random
import unicodedata
from pathlib import Path

from keras_bert import Vocabulary, train_byte_level_bpe, train_sentencepiece, train_vocabulary
from keras_bert.text.framing import MPNET_TOKENS, ROBERTA_FRAMING
from keras_bert.text.sentencepiece.files import SentencePieceFiles
from keras_bert.text.wordpiece.files import WordPieceFiles
from keras_bert.text.wordpiece.settings import Settings

GOLDEN = Path(__file__).parents[1] / "golden" / "tokenization.jsonl"

# fmt: off
_PARTS = (
    "'s", "'t", "'re", "'ve", "'ll", "'", "'m", "'d", "'S", "``", "''", "a", "b", "the", "\u03a3",
    "\u0130", " ", "  ", "\n", "\t", "\xa0", "\u3000", "\u200b", "\x00", "\ufffd", "\xe9",
    "e\u0301", "\xdf", "\xbd", "\u6f22\u5b57", "\U0001f600", "\ud55c", "1", "23", "\xb2", ".",
    "!", "...", "\u2581", "\U000e0001", "9,", "<mask>", " <mask>", "[MASK]", " [MASK]", "<s>",
    "</s>", "<pad>", "<", "mask>", "Package", "aaaa", "ing",
)
# fmt: on


@functools.cache
def golden_texts():
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


@functools.cache
def byte_level_files():
    return train_byte_level_bpe(golden_texts(), 1500)


@functools.cache
def sentencepiece_files(scheme):
    if scheme == "camembert":  # another order of the same pieces
        files = sentencepiece_files("xlm_roberta")
        return SentencePieceFiles(files.model, files.settings._replace(scheme=scheme))
    return train_sentencepiece(golden_texts()[:200], 1000, scheme)


@functools.cache
def mpnet_files():
    """In the order of microsoft/mpnet-base: fairseq's tokens, BERT's vocabulary, the mask."""
    pieces = train_vocabulary(golden_texts(), 1500).tokens
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"]
    return WordPieceFiles(Vocabulary(tokens, MPNET_TOKENS, framing=ROBERTA_FRAMING), Settings())


def fuzzed_texts(count, seed=0):
    """Strings of parts in which tokenizers differ, and as many of any characters."""
    draw = random.Random(seed)
    characters = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) != "Cs"]
    texts = ["".join(draw.choices(_PARTS, k=draw.randint(0, 12))) for _ in range(count)]
    texts += ["".join(draw.choices(characters, k=draw.randint(1, 15))) for _ in range(count // 4)]
    return ["", " ", "\n", *texts]
