"""Learns a byte-level BPE with the trainer of Hugging Face's `tokenizers`."""

import json
from collections.abc import Iterable

from keras_bert.counts import needed_count
from keras_bert.storage.text_lines import check_several, each_string
from keras_bert.text.byte_level.files import ByteLevelBpeFiles
from keras_bert.text.framing import ROBERTA_FRAMING, ROBERTA_TOKENS
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary


def train_byte_level_bpe(
    texts: Iterable[str], vocab_size: int, min_frequency: int = 2
) -> ByteLevelBpeFiles:
    """Learns a byte-level BPE as RoBERTa's: <s>, <pad>, </s>, <unk>, bytes, merges and <mask>.

    Args:
        texts: paragraphs or sentences, with their case and spaces.
        vocab_size: number of entries. Fewer come back where the texts do not hold enough pairs.
        min_frequency: how often a pair must occur to become one piece.

    Returns:
        Vocabulary and merges; `save(folder)` writes vocab.json and merges.txt.

    Raises:
        ValueError: `vocab_size` has no room for the 256 bytes, special tokens and a merge,
            `min_frequency` is below 1, texts are a single string or one of them is none, or no pair
            occurs that often.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    first = [ROBERTA_TOKENS.cls, ROBERTA_TOKENS.pad, ROBERTA_TOKENS.sep, ROBERTA_TOKENS.unk]
    vocab_size = needed_count("vocab_size", vocab_size)
    least = 256 + len(first) + 2
    if vocab_size < least:
        raise ValueError(
            f"vocab_size is {vocab_size}: 256 bytes, five special tokens and a merge take {least}"
        )
    min_frequency = needed_count("min_frequency", min_frequency)
    check_several(texts)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,  # the mask comes last
        min_frequency=min_frequency,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(each_string(texts), trainer)
    stored = json.loads(tokenizer.to_str())["model"]
    merges = tuple((one, two) for one, two in stored["merges"])
    if not merges:
        raise ValueError(
            f"no pair of characters occurs {min_frequency} times in the texts: check --input"
        )
    tokens = sorted(stored["vocab"], key=stored["vocab"].__getitem__)
    vocabulary = Vocabulary(
        [*tokens, ROBERTA_TOKENS.mask], ROBERTA_TOKENS, BYTE_LEVEL_SPACE, ROBERTA_FRAMING
    )
    return ByteLevelBpeFiles(vocabulary, merges)
