"""Trains a WordPiece vocabulary on text."""

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from keras_bert.text.vocabulary import CONTINUATION_PREFIX, SPECIAL_TOKENS, UNKNOWN, Vocabulary

# Most different characters that get an entry of their own: enough for CJK text, and rare symbols
# do not push words out.
_MOST_CHARACTERS = 1000


def train_vocabulary(
    texts: Iterable[str],
    vocab_size: int,
    lowercase: bool = True,
    min_frequency: int = 2,
) -> Vocabulary:
    """Trains a vocabulary with the WordPiece trainer of Hugging Face's `tokenizers`.

    The text is normalized and split into words as the tokenizer does it. The special tokens come
    first. The same texts give the same vocabulary.

    Args:
        texts: sentences or lines.
        vocab_size: entries wanted; there are fewer when the text does not hold as many pieces.
        lowercase: whether the text is lower-cased and its accents are dropped.
        min_frequency: how often a pair of pieces must occur to be joined.

    Raises:
        ValueError: there is no text, or the size has no room for the special tokens.
    """
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"vocab_size is {vocab_size}: it must be above {len(SPECIAL_TOKENS)}, "
            "the number of special tokens"
        )
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=lowercase, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        limit_alphabet=min(_MOST_CHARACTERS, vocab_size - len(SPECIAL_TOKENS)),
        continuing_subword_prefix=CONTINUATION_PREFIX,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab()
    if len(ids) <= len(SPECIAL_TOKENS):
        raise ValueError("the texts hold no word: give text to train a vocabulary on")
    return Vocabulary(sorted(ids, key=ids.__getitem__))
