"""Which words of a field deserve a piece of their own, and lists of words that somebody chose.

    old vocabulary    an ##gio ##plast ##y    4 pieces, 212 times in the texts
    new word          angioplasty             1 piece, whose embedding further pretraining learns

Pieces of byte-level BPE and SentencePiece follow from merges or a model file: they cannot grow so.
"""

import heapq
import os
from pathlib import Path

from keras_bert.storage.text_lines import TextLines
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.coverage import WordCounts


def choose_new_words(
    counts: WordCounts, most: int, min_pieces: int, min_frequency: int
) -> list[str]:
    """Returns the commonest words that are cut into many pieces, the commonest first.

    An embedding is learned from the places where its word stands, so frequency decides. Words
    without a letter are left out, and so are words that are [UNK], which have no pieces to start
    from. Equally frequent words come in alphabetical order.

    Args:
        counts: the words of the texts, from `keras_bert.text.coverage.count_words`.
        most: how many words to return at most.
        min_pieces: the fewest pieces that a word is cut into so far; at least 2.
        min_frequency: how often a word occurs at least.

    Raises:
        ValueError: `min_pieces` is below 2.
    """
    if min_pieces < 2:
        raise ValueError(f"min_pieces is {min_pieces}: a word of one piece needs no other")
    found = (
        (word, frequency)
        for word, frequency in counts.words.items()
        if frequency >= min_frequency
        and any(map(str.isalpha, word))
        and len(counts.pieces(word)) >= min_pieces
    )
    return [word for word, _ in heapq.nsmallest(most, found, key=lambda pair: (-pair[1], pair[0]))]


def read_words(path: str | os.PathLike, tokenizer: CorpusTokenizer) -> list[str]:
    """Reads a file with a word on each line; returns them as the tokenizer normalizes them.

    Empty lines are passed over, and of equal words the first stays.

    Args:
        path: the file, UTF-8; what `TextLines` reads.
        tokenizer: of the vocabulary that shall grow.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is not UTF-8, or not one word to the tokenizer, which splits at white
            space and punctuation; a character is not in the vocabulary, so that the word has no
            pieces to start from; a word has more characters than the tokenizer takes; or the file
            holds no word.
    """
    found: dict[str, None] = {}
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist: give a file with a word a line")
    for number, line in enumerate(map(str.strip, TextLines(path)), start=1):
        if not line:
            continue
        words = tokenizer.words(line)
        if len(words) != 1:
            raise ValueError(
                f"{path}, line {number}: {line!r} is {len(words)} words to the tokenizer "
                f"({' '.join(words)}), and a piece never reaches over one: give one word a line"
            )
        limit = tokenizer.settings.max_input_chars_per_word
        if len(words[0]) > limit:
            raise ValueError(
                f"{path}, line {number}: a word of {len(words[0])} characters is [UNK] whatever "
                f"the vocabulary, the limit is {limit}: leave it out"
            )
        if tokenizer.pieces(words[0])[0] == tokenizer.vocabulary.unk_id:
            raise ValueError(
                f"{path}, line {number}: {line!r} is {tokenizer.vocabulary.special_tokens.unk} "
                "with the vocabulary so far, so that it has no pieces to start from: leave it out"
            )
        found[words[0]] = None
    if not found:
        raise ValueError(f"{path} holds no word: give one a line")
    return list(found)
