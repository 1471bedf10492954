"""A tiny model whose attention differs from head to head, and how to read a page of it."""

import base64
import json
import re
import zlib

import keras
import numpy as np

from keras_bert import BertEncoder, BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.signatures.tiny_models import PIECES, tiny_config

TEXT, PAIR = "The abc film, x", "film de the"
LONG = "the film abc , x . " * 30


def tiny_encoder(encoder_class=BertEncoder, **config):
    keras.utils.set_random_seed(3)
    numbers = dict(max_position_embeddings=160, num_hidden_layers=3, num_attention_heads=4)
    return encoder_class(tiny_config(**(numbers | config)))


def tiny_tokenizer(**settings):
    return BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES]), **settings)


def page_data(page):
    """What the element with the data of a page holds; probabilities as float32 [L, A, n, n + 1]."""
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    data = json.loads(text)
    count = len(data["pieces"])
    unpacked = zlib.decompress(base64.b64decode(data["probabilities"]))
    shape = (data["layers"], data["heads"], count, count + 1)
    roots = np.frombuffer(unpacked, np.uint8).reshape(shape) / np.float32(255)
    return data | {"probabilities": roots**2}
