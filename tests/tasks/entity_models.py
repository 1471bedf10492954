"""A small model that scores spans against labels, with weights large enough that answers differ."""

import keras
import numpy as np

from keras_bert import BertTokenizer
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.signatures.tiny_models import PIECES, tiny_config

LABELS = ["the film", "ab", "x-y"]
WIDTH, POSITIONS = 3, 40


def entity_tokenizer():
    return BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES]))


def entity_model(seed=1, scale=1.5, positions=POSITIONS, config=None, **arguments):
    """Returns a model whose spans have probabilities on both sides of one half."""
    keras.utils.set_random_seed(seed)
    config = config or tiny_config(max_position_embeddings=positions)
    numbers = {"max_width": WIDTH, "span_hidden_size": 12, **arguments}
    model = BertEntityMatcher(config, **numbers)
    draw = np.random.default_rng(seed)
    for weight in model.weights:
        if weight.path.startswith("entity_scores") and "bias" not in weight.path:
            weight.assign(scale * weight)
        elif weight.path.startswith("entity_scores"):
            weight.assign(draw.normal(scale=0.2, size=weight.shape))
    return model
