"""What the library that owns a checkpoint computes from it, where that library is installed."""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from keras_bert.checkpoints import model_garden, tensorflow_file
from keras_bert.checkpoints.folder import SourceFormat
from keras_bert.config import ERNIE, BertConfig, find_config_file, read_json
from keras_bert.config_keys import ENCODER_DECODER_TYPE
from keras_bert.family_configs import LongformerConfig
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.models.encoder import BertEncoder
from keras_bert.rotary_configs import JinaEmbeddingsV3Config, NomicBertConfig, RotaryBertConfig

_BATCH, _LENGTH, _PADDING = 2, 16, 5


class Activations(NamedTuple):
    """The outputs of an encoder and the name of the library that computed them."""

    library: str
    sequence_output: np.ndarray
    pooled_output: np.ndarray | None


def random_features(config: BertConfig) -> dict[str, np.ndarray]:
    """Returns a batch of random ids and segments with some padding, int32 [B, S] each."""
    random = np.random.default_rng(0)
    length = min(_LENGTH, config.max_position_embeddings)
    mask = np.ones((_BATCH, length), np.int32)  # [2, S]
    # The last row ends in padding: a mask that is not applied shows in the outputs.
    mask[-1, length - min(_PADDING, length - 1) :] = 0
    ids = random.integers(0, config.vocab_size, mask.shape).astype(np.int32)
    # RoBERTa of transformers counts positions by the padding id, wherever it stands.
    ids[ids == config.pad_token_id] = (config.pad_token_id + 1) % config.vocab_size
    return {
        INPUT_IDS: ids,
        INPUT_MASK: mask,
        SEGMENT_IDS: random.integers(0, max(config.type_vocab_size, 1), mask.shape).astype(
            np.int32
        ),
    }


def our_activations(encoder: BertEncoder, features: dict[str, np.ndarray]) -> Activations:
    """Runs our encoder."""
    outputs = encoder(features)
    return Activations(
        "keras_bert", *(np.asarray(outputs[key]) for key in ("sequence_output", "pooled_output"))
    )


def library_activations(
    folder: str | os.PathLike,
    format: SourceFormat | Literal["keras"],
    config: BertConfig,
    features: dict[str, np.ndarray],
) -> Activations | None:
    """Runs the encoder of a folder in the library whose format it has.

    Args:
        folder: the checkpoint.
        format: whose it is. Google's original needs TensorFlow 1 and is never there, and there is
            none for ours.
        config: the encoder's numbers.
        features: the inputs.

    Returns:
        Its outputs, None where the library is not installed. The pooled output is None where the
        checkpoint has no pooler.
    """
    try:
        if format == "hf":
            return _transformers(folder, config, features)
        if format == "garden":
            return _model_garden(Path(folder), config, features)
        if format == "tfhub":
            return _saved_model(folder, features)
    except ImportError:
        return None
    return None


def largest_difference(
    left: Activations, right: Activations, features: dict[str, np.ndarray]
) -> float:
    """Returns the largest difference of any output that both have, padding left out."""
    # Nobody reads what stands there, and the Longformer of transformers does not compute it.
    real = features[INPUT_MASK].astype(bool)  # [B, S]
    pairs = [(left.sequence_output[real], right.sequence_output[real])]  # [real, H] each
    if left.pooled_output is not None and right.pooled_output is not None:
        pairs.append((left.pooled_output, right.pooled_output))  # [B, H] each
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def _transformers(
    folder: str | os.PathLike, ours: BertConfig, features: dict[str, np.ndarray]
) -> Activations:
    import torch
    import transformers

    # Their reading of the numbers in the file, whatever the file is called and holds besides.
    values = read_json(find_config_file(folder))
    if values.get("model_type") == ENCODER_DECODER_TYPE:
        return _transformers_pair(folder, features)
    fields = {field.name for field in dataclasses.fields(ours)} | set(ours.hugging_face_names or ())
    fields |= {"layer_types", "rope_parameters"}  # of ModernBERT: several of our fields in one
    fields |= {"task_type_vocab_size", "use_task_id"}  # of ERNIE
    # Keys of DeBERTa that name the only form which is supported here.
    fields |= ours.to_dict("hf").keys() - {"model_type"}
    if isinstance(ours, RotaryBertConfig) and ours.is_published_form(values):
        values = ours.to_dict("hf")  # theirs does not read it
    known = {key: values[key] for key in values if key in fields}
    # An ERNIE is read as a BERT, but theirs has a table more.
    kind = ERNIE if values.get("model_type") == ERNIE else ours.hugging_face_type
    config = transformers.AutoConfig.for_model(kind, **known)
    spelled = None
    if isinstance(ours, NomicBertConfig):
        spelled = {r"^bert\.": ""}  # what its own code calls the encoder beside a head
    if isinstance(ours, JinaEmbeddingsV3Config):
        spelled = {r"\.parametrizations\.weight\.original$": ".weight"}  # beside adapters
    # With what was told of the loading it is a pair, which its own annotation does not say.
    loaded: Any = transformers.AutoModel.from_pretrained(
        folder,
        config=config,
        output_loading_info=True,
        dtype=torch.float32,
        key_mapping=spelled,
    )
    model, loading = loaded
    # torch wants int64 ids; eval() turns dropout off.
    names = {"input_ids": INPUT_IDS, "attention_mask": INPUT_MASK}
    if ours.has_segments:
        names["token_type_ids"] = SEGMENT_IDS
    inputs = {
        name: torch.tensor(features[feature], dtype=torch.long) for name, feature in names.items()
    }
    if isinstance(ours, LongformerConfig):  # whose config does not say which positions are global
        positions = torch.arange(inputs["input_ids"].shape[1]).expand_as(inputs["input_ids"])
        inputs["global_attention_mask"] = (positions < ours.global_tokens).long()
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    # None where the family has no pooler; random where the checkpoint has none.
    pooled = outputs.get("pooler_output")
    if any("pooler" in name for name in loading["missing_keys"]):
        pooled = None
    return Activations(
        f"transformers {transformers.__version__}",
        outputs.last_hidden_state.numpy(),
        None if pooled is None else pooled.numpy(),
    )


def _transformers_pair(folder: str | os.PathLike, features: dict[str, np.ndarray]) -> Activations:
    """Runs the encoder of two models."""
    import torch
    import transformers

    pair = transformers.EncoderDecoderModel.from_pretrained(folder, dtype=torch.float32)
    names = {"input_ids": INPUT_IDS, "attention_mask": INPUT_MASK, "token_type_ids": SEGMENT_IDS}
    with torch.no_grad():
        outputs = pair.eval().encoder(
            **{name: torch.tensor(features[ours], dtype=torch.long) for name, ours in names.items()}
        )
    return Activations(
        f"transformers {transformers.__version__}",
        outputs.last_hidden_state.numpy(),
        outputs.pooler_output.numpy(),
    )


def _model_garden(
    folder: Path, config: BertConfig, features: dict[str, np.ndarray]
) -> Activations | None:
    import tensorflow as tf
    from official.nlp.modeling import networks

    prefix = tensorflow_file.find_prefix(folder)
    path = model_garden.encoder_path(tensorflow_file.ObjectGraph(prefix))
    if "/" in path:  # inside a model with a head, which would have to be built around it
        return None
    activations = {
        "gelu": lambda inputs: tf.nn.gelu(inputs, approximate=False),
        "gelu_tanh": lambda inputs: tf.nn.gelu(inputs, approximate=True),
        "relu": tf.nn.relu,
        "silu": tf.nn.silu,
        "tanh": tf.nn.tanh,
    }
    encoder = networks.BertEncoderV2(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        inner_dim=config.intermediate_size,
        inner_activation=activations[config.hidden_act],
    )
    encoder(encoder.inputs)  # creates its variables, which the checkpoint is then read into
    status = tf.train.Checkpoint(**{path: encoder}).read(str(prefix)).expect_partial()
    status.assert_nontrivial_match()  # else a wrong path would leave random weights unnoticed
    outputs = encoder(
        {
            "input_word_ids": features[INPUT_IDS],
            "input_mask": features[INPUT_MASK],
            "input_type_ids": features[SEGMENT_IDS],
        }
    )
    return Activations(
        "Model Garden", outputs["sequence_output"].numpy(), outputs["pooled_output"].numpy()
    )


def _saved_model(folder: str | os.PathLike, features: dict[str, np.ndarray]) -> Activations:
    import tensorflow as tf

    # Its own graph answers: [B, S, H] and [B, H].
    outputs = tf.saved_model.load(os.fspath(folder))(
        {
            "input_word_ids": tf.constant(features[INPUT_IDS]),
            "input_mask": tf.constant(features[INPUT_MASK]),
            "input_type_ids": tf.constant(features[SEGMENT_IDS]),
        }
    )
    return Activations(
        "the SavedModel", outputs["sequence_output"].numpy(), outputs["pooled_output"].numpy()
    )
