"""Signatures of trained vectors: those of an encoder whose pooling is known, or of a table."""

import dataclasses
from pathlib import Path
from typing import Any, cast

from keras_bert.checkpoints.sentence_modules import Normalize, SentenceModules
from keras_bert.checkpoints.static_embeddings.folders import StaticTable
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.feature_extraction.signatures import EncoderSignatures
from keras_bert.tasks.feature_extraction.static_signatures import StaticSignatures
from keras_bert.tasks.sentence_embedding.head import EmbeddingHead, StaticEmbeddingHead
from keras_bert.text.base_tokenizer import Tokenizer


def embedding_signatures(
    description: TaskDescription,
    model: Any,
    tokenizer: Tokenizer,
    max_seq_length: int,
    options: ExportOptions,
) -> EncoderSignatures:
    """Returns the signatures of a `BertSentenceEmbedder`: `text` -> `sentence_embedding`.

    A model folder with `modules.json` is served by what that says; this is for one without.

    Args:
        description: the task, whose head knows the pooling.
        model: the model.
        tokenizer: its tokenizer.
        max_seq_length: the most positions of a row.
        options: settings of the export.
    """
    # "[MASK]" in a text is that token, as in training.
    tokenizer = tokenizer.with_settings(keep_special_tokens=True)
    modules = _modules(cast(EmbeddingHead, description.head), options)
    return EncoderSignatures(model.encoder, tokenizer, max_seq_length, options, modules)


def static_embedding_signatures(
    description: TaskDescription,
    model: Any,
    tokenizer: Tokenizer,
    max_seq_length: int,
    options: ExportOptions,
) -> StaticSignatures:
    """Returns the signatures of a `StaticEmbedder`: `text` -> `sentence_embedding`.

    Args:
        description: the task, whose head knows how texts are read.
        model: the model.
        tokenizer: its tokenizer.
        max_seq_length: the most pieces of a text.
        options: settings of the export.
    """
    head = cast(StaticEmbeddingHead, description.head)
    modules = dataclasses.replace(_modules(head, options), max_seq_length=max_seq_length)
    table = StaticTable(
        model.encoder.word_embeddings.embeddings.numpy(),
        modules,
        Path(),
        head.drops_unknown,
        head.model2vec,
    )
    tokenizer = tokenizer.with_settings(keep_special_tokens=True)
    return StaticSignatures(table, tokenizer, options)


def _modules(head: EmbeddingHead, options: ExportOptions) -> SentenceModules:
    """Returns what stands behind the encoder, with the prompts that are asked for, else trained."""
    query, document = (
        (trained or "") if asked is None else asked
        for asked, trained in (
            (options.query_prompt, head.query_prompt),
            (options.document_prompt, head.document_prompt),
        )
    )
    return SentenceModules(
        (head.pooling or "mean",),
        (Normalize(),),
        prompt=query if query == document else "",
        query_prompt=query,
        document_prompt=document,
        truncate_dim=options.truncate_dim,
    )
