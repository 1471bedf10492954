"""The model that fine-tuning starts from: opened, partly fresh, partly frozen; its optimizer."""

import os
import re
from typing import Any

from keras_bert.checkpoints.model_classes import TOKEN_LABELERS
from keras_bert.config import BertConfig
from keras_bert.finetuning.head import TrainableHead
from keras_bert.finetuning.options import FinetuningOptions, ResolvedOptions
from keras_bert.models import preset, registry
from keras_bert.models.embedders.static_embedder import StaticEmbeddingConfig
from keras_bert.models.surgery.layer_selection import parsed_layers, select_layers
from keras_bert.models.surgery.lora import enable_lora
from keras_bert.training.base_optimizer import NOT_DECAYED, BaseOptimizer
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.precision import dtype_policy
from keras_bert.training.rematerialization import rematerialize

_EMBEDDINGS = r"^(word_embeddings|embeddings|embeddings_projection)/"


def check_fresh_layers(config: BertConfig, options: FinetuningOptions) -> None:
    """Checks `reinitialized_layers` against the layers that there are.

    Raises:
        ValueError: more are to start fresh than there are, or some of those that share parameters.
    """
    if options.reinitialized_layers > config.num_hidden_layers:
        raise ValueError(
            f"reinitialized_layers is {options.reinitialized_layers} but the model has "
            f"{config.num_hidden_layers} layers: name at most as many"
        )
    shares = config.shares_attention or config.shares_feed_forward
    if shares and 0 < options.reinitialized_layers < config.num_hidden_layers:
        raise ValueError(
            f"reinitialized_layers is {options.reinitialized_layers} but the layers of the model "
            f"share parameters: start all {config.num_hidden_layers} fresh, or none"
        )


def create_model(
    head: TrainableHead,
    init_from: str | os.PathLike,
    config: BertConfig | StaticEmbeddingConfig,
    options: FinetuningOptions,
) -> Any:
    """Returns the model to fine-tune.

    Args:
        head: its kind of head.
        init_from: the model folder to start from.
        config: the config of the folder, or of the layers that are taken from it.
        options: `init_layers`, `from_scratch`, `reinitialized_layers`, `freeze_encoder`,
            `lora_rank`, `lora_alpha`, `mixed_precision`, `layer_decay`, `remat`, `seed`,
            `ignore_config_keys` are used.

    Raises:
        ValueError: an encoder that is only a source of features is to be changed.
    """
    arguments = head.model_arguments() | {
        "seed": options.seed,
        "dtype": dtype_policy(options.mixed_precision),
    }
    if options.from_scratch:
        model = head.model_class(config, **arguments)
    elif options.init_layers:
        source = preset.read_checkpoint(init_from, options.ignore_config_keys)
        layers = parsed_layers(options.init_layers, source.config.num_hidden_layers)
        source = select_layers(source, layers)
        model = preset.from_checkpoint(head.model_class, source, arguments)
    else:
        model = head.model_class.from_preset(
            os.fspath(init_from), options.ignore_config_keys, **arguments
        )
    if options.about_the_encoder and not model.encoder.trainable_weights:
        raise ValueError(
            "a model on frozen features does not train the encoder: leave out "
            f"{' and '.join(options.about_the_encoder)}"
        )
    if options.reinitialized_layers:
        count = model.config.num_hidden_layers
        names = "|".join(
            f"layer_{index}" for index in range(count - options.reinitialized_layers, count)
        )
        fresh = {weight.path: weight for weight in type(model.encoder)(model.config).weights}
        for weight in model.encoder.weights:
            if re.match(rf"({names}|pooler)/", weight.path):
                weight.assign(fresh[weight.path].value)
    leave_out_unread(model, head, options.freeze_encoder)
    if not model.trainable_weights:
        raise ValueError(
            "freeze_encoder leaves nothing to be trained, since this head has no weights of its "
            "own: leave it out"
        )
    if options.lora_rank is not None:
        enable_lora(model.encoder, options.lora_rank, options.lora_alpha, options.seed)
    if options.remat:
        rematerialize(model.encoder)
    return model


def leave_out_unread(model: Any, head: TrainableHead, freeze_encoder: bool = False) -> None:
    """Takes the pooler from what is trained where the head does not read it.

    Where a family reads tokens through it, heads that label them read it, too.

    Args:
        model: the model.
        head: its kind of head.
        freeze_encoder: leave the rest of the encoder out, too.
    """
    for layer in model.encoder.layers:
        if layer.name == "pooler":
            # Keras would warn of missing gradients.
            read = head.reads_pooler or (
                model.config.reads_tokens_through_pooler
                and registry.architecture_of(type(model)) in TOKEN_LABELERS
            )
            layer.trainable = layer.trainable and read
        elif freeze_encoder:
            layer.trainable = False


def finetuning_optimizer(model: Any, options: ResolvedOptions, steps: int) -> BaseOptimizer:
    """Returns the optimizer of a fine-tuning run.

    Args:
        model: the model.
        options: rate, warmup, correction and `layer_decay`.
        steps: steps of the whole run.
    """
    arguments: dict[str, Any] = dict(model.optimizer_arguments)
    # Norms of a variant of the encoder may have other names; its user has no patterns to fix.
    learning = [weight.path for weight in model.trainable_weights]
    arguments["not_decayed"] = [
        pattern for pattern in NOT_DECAYED if any(re.search(pattern, path) for path in learning)
    ]
    if options.layer_decay != 1:
        rates = layer_rates(model.config, options.layer_decay)
        if options.lora_rank is not None:
            del rates[_EMBEDDINGS]  # they are frozen
        arguments["rate_scales"] = rates
    return create_optimizer(
        options.learning_rate,
        train_steps=steps,
        warmup_steps=int(options.warmup_proportion * steps),
        bias_correction=options.bias_correction,
        **arguments,
    )


def layer_rates(config: BertConfig, decay: float) -> dict[str, float]:
    """Returns the scale of the learning rate by patterns of variable paths.

    Pooler and head learn at the full rate, encoder block k of n at decay^(n - k) counted from 0,
    the embeddings at decay^(n + 1). Parameters that all blocks share learn as those of the
    uppermost.

    Args:
        config: the number of encoder blocks, n, and what they share.
        decay: what each layer down multiplies the rate with.
    """
    count = config.num_hidden_layers
    # What blocks share has the name of the first; the first pattern that matches counts.
    shared = [
        *(["attention", "attention_norm"] if config.shares_attention else []),
        *(["intermediate", "output", "feed_forward_norm"] if config.shares_feed_forward else []),
    ]
    rates = {rf"^layer_0/({'|'.join(shared)})/": decay} if shared else {}
    all_shared = config.shares_attention and config.shares_feed_forward
    for index in range(0 if all_shared else count):
        rates[rf"^layer_{index}/"] = decay ** (count - index)
    return rates | {_EMBEDDINGS: decay ** (count + 1)}
