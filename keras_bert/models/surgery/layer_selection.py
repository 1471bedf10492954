"""A smaller model made of some layers of a larger one: how DistilBERT starts.

    layers 0, 2, 4 of      layer_0  layer_1  layer_2  layer_3  layer_4  layer_5
    become                 layer_0           layer_1           layer_2

Embeddings, pooler and head come along as they are (Sanh et al. 2019, arXiv:1910.01108, section 2).
"""

import dataclasses
import re
from collections.abc import Collection, Sequence

import numpy as np

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.modernbert_config import ModernBertConfig

UNIFORM = "uniform"

_POSITIONS = "embeddings/position_embeddings"
_SEGMENTS = "embeddings/segment_embeddings"
_FINAL_NORM = "/final_norm/"
# What decides the shapes of the weights that are taken over, and what is computed with them.
_SAME = (
    *("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("max_position_embeddings", "embedding_width", "layer_norm_eps"),
    *("first_position", "projects_global_attention", "is_pre_norm", "has_gates"),
    *("has_position_table", "unbiased_layers", "has_embedding_norm", "has_norm_offsets"),
    *("key_value_heads", "has_masked_lm_transform", "ties_words"),
    *("attention_window", "global_tokens"),  # of local attention, and the window of a ModernBERT
    *("distance_buckets", "distance_vectors", "distance_products", "farthest_distance"),
    "pos_att_type",  # of a DeBERTa
    *("rope_theta", "rope_factor"),  # of NomicBERT, GTE, Jina and EuroBERT
    # Of MobileBERT.
    *("block_width", "attention_input", "num_feedforward_networks", "normalization_type"),
    *("trigram_input", "has_pooler"),
)
_SAME_IN_MODERNBERT = ("global_attention_every", "global_rope_theta", "local_rope_theta")


def parsed_layers(given: Sequence[str], layers: int, wanted: int | None = None) -> tuple[int, ...]:
    """Returns the layers that the option `init_layers` names, counted from 0.

    Args:
        given: numbers; or "uniform" alone: every n-th of them from the first, where `wanted` says
            how many.
        layers: how many layers there are.
        wanted: how many layers the new model has; None for as many as are named.

    Raises:
        ValueError: a layer is not there, is named twice, or their number is another.
    """
    shown = ",".join(given)
    if tuple(given) == (UNIFORM,):
        if wanted is None:
            raise ValueError(
                f"init_layers is {UNIFORM!r}, but nothing says how many layers the model shall "
                "have: name the layers, such as 0,2,4"
            )
        # 12 layers for 6: 0 2 4 6 8 10; 12 for 5: 0 2 4 7 9
        given = tuple(str(index * layers // wanted) for index in range(wanted))
    numbers = [int(text) if text.strip().isdecimal() else -1 for text in given]
    if len(set(numbers)) < len(numbers) or not all(0 <= index < layers for index in numbers):
        raise ValueError(
            f"init_layers is {shown}: the model to start from has {layers} layers; give different "
            f"numbers from 0 to {layers - 1}"
        )
    if wanted is not None and len(numbers) != wanted:
        raise ValueError(
            f"init_layers names {len(numbers)} layers ({shown}) but num_hidden_layers is {wanted}: "
            "name as many"
        )
    return tuple(numbers)


def check_same_widths(source: BertConfig, config: BertConfig, folder: str) -> None:
    """Makes sure that a model can take layers of another as they are.

    Raises:
        ValueError: a width, or what is computed with them, differs.
    """
    of_family = _SAME_IN_MODERNBERT if isinstance(source, ModernBertConfig) else ()
    # Without a table of segments its first row joins the positions, see `select_layers`.
    joins = config.has_position_table and not config.has_segment_table
    segments = () if joins else ("type_vocab_size",)
    for name in (*_SAME, *segments, *of_family):
        found, wanted = getattr(source, name, None), getattr(config, name, None)
        if found != wanted:
            raise ValueError(
                f"init_layers takes layers of {folder} as they are, but its {name} is {found!r} "
                f"and the model's {wanted!r}: give the model the same"
            )


def check_separate_layers(config: BertConfig) -> None:
    """Makes sure that layers have parameters of their own, so that some can be taken.

    Raises:
        ValueError: they share them.
    """
    if config.shares_attention or config.shares_feed_forward:
        raise ValueError(
            "init_layers takes some layers of a model, but those of an ALBERT share their "
            "parameters: leave it out; a model with fewer of its layers is its folder with a lower "
            "num_hidden_layers in config.json"
        )


def _check_kinds(config: ModernBertConfig, layers: Collection[int]) -> None:
    """Makes sure that layers with full attention stay so, and that the first stays the first."""
    for new, old in enumerate(layers):
        if config.window_of(new) != config.window_of(old) or (new == 0) != (old == 0):
            raise ValueError(
                f"init_layers puts layer {old} of a ModernBERT in the place {new}: the first layer "
                "must stay the first, and of "
                f"{config.global_attention_every} layers the first attends to all and the others "
                "in a window; take layers whose kinds are in this order, such as "
                f"{','.join(map(str, range(config.global_attention_every)))}"
            )


def select_layers(
    checkpoint: Checkpoint, layers: Collection[int], config: BertConfig | None = None
) -> Checkpoint:
    """Returns a checkpoint with some of the layers.

    Args:
        checkpoint: the larger model.
        layers: those to take, in the order in which the new model applies them.
        config: config of the new model; None for that of the checkpoint with fewer layers. Where it
            has no segments, the embedding of the first segment goes into those of the positions:
            the embeddings of a single text stay what they were.

    Raises:
        ValueError: the layers share their parameters, so that none can be left out; there is a
            decoder besides, whose layers are others; or a ModernBERT's layer would stand where
            attention is of another kind.
    """
    if any(path.startswith("decoder/") for path in checkpoint.variables):
        raise ValueError(
            "init_layers takes some layers of an encoder, but the model has a decoder, too: leave "
            "it out"
        )
    check_separate_layers(checkpoint.config)
    if isinstance(checkpoint.config, ModernBertConfig):
        _check_kinds(checkpoint.config, layers)
    position = {index: new for new, index in enumerate(layers)}
    variables: dict[str, np.ndarray] = {}
    for path, value in checkpoint.variables.items():
        found = re.match(r"layer_(\d+)/", path)
        if found is None:
            variables[path] = value
        elif _FINAL_NORM in path:  # stands behind whichever is the last
            name = path.partition(_FINAL_NORM)[2]  # gamma or beta
            variables[f"layer_{len(position) - 1}{_FINAL_NORM}{name}"] = value
        elif int(found[1]) in position:
            variables[f"layer_{position[int(found[1])]}/{path[found.end() :]}"] = value
    config = config or checkpoint.config.replace(num_hidden_layers=len(position))
    if not config.type_vocab_size and _SEGMENTS in variables:
        variables[_POSITIONS] = variables[_POSITIONS] + variables.pop(_SEGMENTS)[0]
    return dataclasses.replace(checkpoint, config=config, variables=variables)
