"""Names of files to classes of models: heads by the architecture, encoders by the model type.

A preset says two things of a model: its `architecture`, which is the head ("BertClassifier"; see
`keras_bert.checkpoints.model_classes` for the rows), and the `model_type` of its config, which is
the encoder. The two are independent: every head goes on every encoder.

A variant of the encoder is a config and a class, registered in one line; the heads, tasks, presets
and signatures then take it as they take BERT's own:

    @dataclasses.dataclass(frozen=True)
    class ScaledConfig(BertConfig):
        model_type: ClassVar[str] = "scaled"
        embedding_scale: float = 1.0

    @register_encoder(ScaledConfig)
    class ScaledEncoder(BertEncoder):
        @staticmethod
        def create_embeddings(config, seed, dtype):
            return ScaledEmbeddings(...)

    model = BertClassifier(ScaledConfig.from_name("tiny"), num_classes=2)

tests/models/test_encoder_seam.py takes such a variant from pretraining to serving.
"""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import keras

from keras_bert.checkpoints.model_classes import ENCODER, MODEL_CLASSES
from keras_bert.config import CONFIG_CLASSES, BertConfig

_Encoder = TypeVar("_Encoder", bound=type)

# Module of each encoder of the package; it registers its class when it is imported.
_MODULES = {
    "bert": "keras_bert.models.encoder",
    "distilbert": "keras_bert.models.family_encoders",
    "electra": "keras_bert.models.family_encoders",
    "albert": "keras_bert.models.family_encoders",
    "roberta": "keras_bert.models.family_encoders",
    "longformer": "keras_bert.models.family_encoders",
    "mpnet": "keras_bert.models.family_encoders",
    "modernbert": "keras_bert.models.family_encoders",
    "deberta-v2": "keras_bert.models.family_encoders",
    "nomic_bert": "keras_bert.models.family_encoders",
    "gte": "keras_bert.models.family_encoders",
    "jina_embeddings_v3": "keras_bert.models.family_encoders",
    "mobilebert": "keras_bert.models.family_encoders",
    "eurobert": "keras_bert.models.family_encoders",
    "local_bert": "keras_bert.models.family_encoders",
    "megatron-bert": "keras_bert.models.family_encoders",
}
# model_type -> class of the encoder, as far as they are imported.
_ENCODERS: dict[str, type] = {}


def register_encoder(config_class: type[BertConfig]) -> Callable[[_Encoder], _Encoder]:
    """Returns a decorator that makes a class the encoder of all configs of one class.

    The class is registered with Keras, too, so that `.keras` files open.

    Args:
        config_class: `BertConfig` or a subclass with a `model_type` of its own, which is none of
            those of transformers: a config file that names it is read as one of ours.

    Raises:
        ValueError: the model type belongs to another class of configs.
    """
    model_type = config_class.model_type
    if CONFIG_CLASSES.setdefault(model_type, config_class) is not config_class:
        raise ValueError(
            f"model_type {model_type!r} belongs to {CONFIG_CLASSES[model_type].__name__}: give "
            f"{config_class.__name__} a model_type of its own"
        )

    # Keras must know the class, too: a `.keras` file names it.
    def register(encoder: _Encoder) -> _Encoder:
        _ENCODERS[model_type] = encoder
        return keras.saving.register_keras_serializable("keras_bert")(encoder)

    return register


def encoder_class(config: BertConfig) -> Any:
    """Returns the class of the encoder that a config describes.

    Raises:
        ValueError: nobody registered one.
    """
    # Imported only now: the encoder imports this module, and variants need no import of BERT.
    if config.model_type in _MODULES:
        importlib.import_module(_MODULES[config.model_type])
    if config.model_type not in _ENCODERS:
        raise ValueError(
            f"no encoder is registered for the model_type {config.model_type!r} of "
            f"{type(config).__name__}: register one with register_encoder"
        )
    return _ENCODERS[config.model_type]


def is_encoder_class(cls: type) -> bool:
    """Whether a class is a registered encoder."""
    return cls in _ENCODERS.values()


def class_for(cls: Any, config: BertConfig) -> Any:
    """Returns the class to build where a model of class `cls` is asked for.

    For a head that is the class itself, since heads take any encoder. For an encoder it is that of
    the config, which must be `cls` or a variant of it.

    Raises:
        ValueError: the config describes another encoder.
    """
    # BertClassifier stays what it is; BertEncoder of a ScaledConfig becomes ScaledEncoder.
    if not is_encoder_class(cls):
        return cls
    wanted = encoder_class(config)
    if not issubclass(wanted, cls):
        raise ValueError(
            f"the config describes a {wanted.__name__} (model_type {config.model_type!r}), no "
            f"{cls.__name__}: open it as {wanted.__name__}"
        )
    return wanted


def check_class(cls: type, config: BertConfig) -> None:
    """Checks that a registered encoder is the one that its config describes.

    Raises:
        ValueError: it is another.
    """
    if (wanted := class_for(cls, config)) is not cls:
        raise ValueError(
            f"the config describes a {wanted.__name__}, not a {cls.__name__}: make it with "
            "create_encoder(config)"
        )


def check_registered(cls: type, config: BertConfig) -> None:
    """Checks that files that keep a config alone will open as the same class of encoder.

    Raises:
        ValueError: the config describes another, or none is registered for it.
    """
    if (described := encoder_class(config)) is not cls:
        raise ValueError(
            f"the encoder is a {cls.__name__}, but its config describes a {described.__name__} "
            f"(model_type {config.model_type!r}), which files and copies of the model would hold: "
            "give it a subclass of BertConfig with a model_type of its own and register it with "
            "register_encoder"
        )


def architecture_of(cls: type) -> str:
    """Returns the architecture that a preset of a model class names."""
    # All encoders have one name there: the model type in the config tells them apart.
    return ENCODER if is_encoder_class(cls) else cls.__name__


def model_class(architecture: str) -> Any:
    """Returns the class of an architecture such as "BertMaskedLM".

    Raises:
        KeyError: there is no such architecture.
    """
    # Imported when it is asked for, so that a classifier does not wait for all other heads.
    module = MODEL_CLASSES[architecture].module
    return getattr(importlib.import_module(f"keras_bert.models.{module}"), architecture)
