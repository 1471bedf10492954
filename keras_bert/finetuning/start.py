"""What training starts from: a folder's encoder, its table of static embeddings, or a fresh one."""

import os
from collections.abc import Collection
from typing import NamedTuple

from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.checkpoints.static_embeddings.folders import check_has_encoder, is_static_folder
from keras_bert.config import BertConfig
from keras_bert.finetuning.head import TrainableHead
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.models.embedders.static_embedder import (
    StaticEmbeddingConfig,
    read_trainable,
    static_config,
)
from keras_bert.models.preset import read_config
from keras_bert.storage import hub
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.wordpiece.tokenizer_json import tokenizer_json


class Start(NamedTuple):
    """A folder as a model starts from it.

    Attributes:
        folder: what the model is opened from; of sentence-transformers that of the encoder.
        tokenizer: of the folder.
        config: of the model.
    """

    folder: str
    tokenizer: Tokenizer
    config: BertConfig | StaticEmbeddingConfig


def read_start(
    init_from: str | os.PathLike, head: TrainableHead, ignore_config_keys: Collection[str] = ()
) -> Start:
    """Reads config and tokenizer of a folder.

    Args:
        init_from: the folder, or `hf://org/name`.
        head: of the task; says whether a table can learn, and whether a fresh one is to.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: a file is damaged, the vocabulary is of another size than the model, or the head
            needs an encoder and the folder has none.
    """
    local = hub.local_folder(init_from)
    encoder = encoder_source(init_from)
    if not head.learns_static:
        check_has_encoder(local)
    if is_static_folder(local):
        table = read_trainable(init_from)
        tokenizer = load_tokenizer(encoder)
        tokenizer.vocabulary.check_size(len(table.vectors))
        return Start(os.fspath(init_from), tokenizer, static_config(table, head.static_width))
    tokenizer = load_tokenizer(encoder)
    if head.static_width is not None:
        stored = tokenizer_json(local, tokenizer)
        size = len(tokenizer.vocabulary)
        return Start(encoder, tokenizer, StaticEmbeddingConfig(size, head.static_width, stored))
    config = read_config(encoder, ignore_config_keys)
    tokenizer.vocabulary.check_size(config.vocab_size)
    return Start(encoder, tokenizer, config)


def check_table_options(options: FinetuningOptions) -> None:
    """Refuses options that are for the layers of an encoder, which a table has none of.

    Raises:
        ValueError: one of them is given.
    """
    names = ["init_layers", "freeze_encoder", "remat", "teacher", *options.about_the_encoder]
    given = [name for name in dict.fromkeys(names) if getattr(options, name)]
    if options.mixed_precision in ("bfloat16", "float16"):
        given.append("mixed_precision")
    if given:
        raise ValueError(
            f"{' and '.join(given)} would change an encoder, and static embeddings are one table, "
            f"whose rows are averaged in float32: leave {'it' if len(given) == 1 else 'them'} out"
        )


def check_fresh_table(head: TrainableHead, options: FinetuningOptions) -> None:
    """Refuses a fresh table that is not said to start from nothing.

    Raises:
        ValueError: `static_width` is given without `from_scratch`.
    """
    if head.static_width is not None and not options.from_scratch:
        raise ValueError(
            f"static_width is {head.static_width}, the width of a fresh table, which takes no "
            "weights of the model folder: add --from_scratch, or leave static_width out"
        )
