"""Words with tags, and encoders in which it is known what each layer knows."""

import numpy as np

from keras_bert import BertConfig, BertEncoder, BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

TAGS = ("A", "B", "C")
# Twelve words of each tag.
WORDS = {tag: [f"{tag.lower()}{letter}" for letter in "abcdefghijkl"] for tag in TAGS}
ALL_WORDS = [word for words in WORDS.values() for word in words]
TAG_OF = {word: tag for tag, words in WORDS.items() for word in words}
# How often each tag occurs.
SHARES = (0.5, 0.3, 0.2)


def sentences(count, seed):
    """Sentences of five words each, drawn by the shares of their tags."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        tags = draw.choice(TAGS, size=5, p=SHARES)
        yield [WORDS[tag][draw.integers(12)] for tag in tags]


def write_columns(path, rows):
    """Writes sentences of (word, tag) pairs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join("\n".join(f"{word} {tag}" for word, tag in row) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")


def write_data(folder, counts=(("train", 120), ("dev", 60), ("test", 60))):
    """Writes a data folder whose tags follow from the words."""
    for seed, (name, count) in enumerate(counts):
        rows = [[(word, TAG_OF[word]) for word in row] for row in sentences(count, seed)]
        write_columns(folder / f"{name}.txt", rows)
    return folder


def tiny_tokenizer(**settings):
    return BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *ALL_WORDS]), **settings)


def knowing_encoder():
    """Its embeddings tell the tag of a word and nothing else; layer 1 is the same for all words."""
    tokenizer = tiny_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    encoder = BertEncoder(config)
    table = np.zeros((len(tokenizer.vocabulary), 16), np.float32)
    for word, tag in TAG_OF.items():
        table[tokenizer.vocabulary.id_of(word), TAGS.index(tag)] = 1
    for variable in encoder.variables:
        if variable.path.startswith("word_embeddings/"):
            variable.assign(table)
        elif variable.path.startswith("embeddings/") and variable.shape.rank == 2:
            variable.assign(np.zeros(variable.shape))  # positions and segments
        elif variable.path.startswith("layer_0/") and variable.path.endswith("/gamma"):
            variable.assign(np.zeros(variable.shape))
    return encoder
