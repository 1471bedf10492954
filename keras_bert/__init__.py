"""BERT for TensorFlow and Keras 3: from raw text to pretraining, fine-tuning and serving."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_bert.version import __version__

# Public name -> the module that defines it. Imported on first use (PEP 562), so that the core works
# where TensorFlow is absent and `import keras_bert` is fast.
_PUBLIC = {
    "BertConfig": "config",
    "BertEncoder": "models.encoder",
    "BertPretrainer": "models.pretrainer",
    "BertMaskedLM": "models.masked_lm",
    "BertClassifier": "models.classifier",
    "BertMultipleChoice": "models.multiple_choice",
    "BertTokenClassifier": "models.token_classifier",
    "BertSpanLabeler": "models.span_labeler",
    "grow_vocabulary": "models.vocabulary_growth",
    "BertTokenizer": "text.tokenizer",
    "BertPreprocessor": "text.preprocessor",
    "create_optimizer": "training.optimizer",
    "SentenceEncoder": "serving.sentence_encoder",
}

__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from keras_bert.config import BertConfig as BertConfig
    from keras_bert.models.classifier import BertClassifier as BertClassifier
    from keras_bert.models.encoder import BertEncoder as BertEncoder
    from keras_bert.models.masked_lm import BertMaskedLM as BertMaskedLM
    from keras_bert.models.multiple_choice import BertMultipleChoice as BertMultipleChoice
    from keras_bert.models.pretrainer import BertPretrainer as BertPretrainer
    from keras_bert.models.span_labeler import BertSpanLabeler as BertSpanLabeler
    from keras_bert.models.token_classifier import BertTokenClassifier as BertTokenClassifier
    from keras_bert.models.vocabulary_growth import grow_vocabulary as grow_vocabulary
    from keras_bert.serving.sentence_encoder import (
        SentenceEncoder as SentenceEncoder,
    )
    from keras_bert.text.preprocessor import BertPreprocessor as BertPreprocessor
    from keras_bert.text.tokenizer import BertTokenizer as BertTokenizer
    from keras_bert.training.optimizer import create_optimizer as create_optimizer


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
