"""Any model folder as signatures: which kind of model it holds.

    what the folder holds                       what it is served as
    modules.json (sentence-transformers)        encoder with a sentence embedding, or words with
                                                weights where it lists SpladePooling, or
                                                vectors of tokens where it is of late interaction
    a table of static embeddings                its sentence embedding
    files of BGE-M3                             encoder with a sentence embedding, and all three
    task.json (a fine-tuning run of ours)       the head of its task
    a head of another library                   the head, described as far as its config tells
    masked LM or pretraining heads              fill-mask, unless it reads from left to right
    nothing but an encoder                      encoder

The first row that fits counts; `head` asks for one of the last two by name.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_bert.checkpoints import multi_vector_modules, sentence_modules, sparse_modules
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.m3 import folder as m3
from keras_bert.checkpoints.model_classes import WORD_PREDICTORS
from keras_bert.checkpoints.sentence_prompts import Prompts
from keras_bert.checkpoints.static_embeddings import folders as static_embeddings
from keras_bert.checkpoints.variables import POOLER
from keras_bert.choices import check_choice
from keras_bert.finetuning.task import TASK_FILE, TaskDescription
from keras_bert.generation.signatures import GenerationSignatures
from keras_bert.models import preset
from keras_bert.models.embedders.multi_vector_embedder import BertMultiVectorEmbedder
from keras_bert.models.embedders.sparse_embedder import BertSparseEmbedder
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.models.task_model import check_sees_text
from keras_bert.serving.int8_products import quantize, quantize_for_onednn
from keras_bert.signatures.base import SignatureFamily
from keras_bert.signatures.options import ExportOptions, Head
from keras_bert.storage import hub
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.ensemble import EnsembleDescription
from keras_bert.tasks.feature_extraction.pooling import (
    check_no_pooling,
    sentence_settings,
    sentence_tokenizer,
)
from keras_bert.tasks.feature_extraction.signatures import EncoderSignatures
from keras_bert.tasks.feature_extraction.static_signatures import StaticSignatures
from keras_bert.tasks.fill_mask.signatures import MaskedLMSignatures
from keras_bert.tasks.kinds import KINDS, describe_foreign, kind_of, load_description
from keras_bert.tasks.sentence_embedding.m3_signatures import M3Signatures
from keras_bert.tasks.sentence_embedding.multi_vector_head import MultiVectorHead
from keras_bert.tasks.sentence_embedding.multi_vector_signatures import MultiVectorSignatures
from keras_bert.tasks.sentence_embedding.sparse_head import SparseEmbeddingHead
from keras_bert.tasks.sentence_embedding.sparse_signatures import SparseSignatures
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.preprocessor import TEXT
from keras_bert.text.tokenizer import BertTokenizer


def open_signatures(
    folder: str | os.PathLike, options: ExportOptions, head: Head = "auto"
) -> SignatureFamily:
    """Opens a model folder and returns the signatures that suit it.

    Args:
        folder: a fine-tuning run, a model folder, or one of another library.
        options: settings of the export.
        head: "auto" takes what the folder holds: the head it was fine-tuned with, else the masked
            language model, else the encoder. The others ask for these. What a folder of
            sentence-transformers holds is an encoder.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: it does not hold such a head or there is none of that name, a length is longer
            than the model, or the options state what is not so.
    """
    check_choice("head", head, Head)
    folder = hub.local_folder(folder)
    if head in ("auto", "encoder") and static_embeddings.is_static_folder(folder):
        return _static_signatures(folder, options)
    if head == "encoder" or (head == "auto" and _has_sentences(folder)):
        return _encoder_signatures(folder, options)
    if head == "auto" and sparse_modules.is_sparse_folder(folder):
        return _sparse_signatures(folder, options)
    if head == "auto" and multi_vector_modules.is_multi_vector_folder(folder):
        return _multi_vector_signatures(folder, options)
    # Ours: task.json says which head it is, what its labels are and how long its rows were.
    if head == "auto" and (folder / TASK_FILE).is_file():
        description = load_description(folder)
        return _described(
            _own_model(folder, description, options), load_tokenizer(folder), description, options
        )
    # Of another library, or pretrained: its weights tell which head it has.
    checkpoint = preset.read_checkpoint(folder, options.ignore_config_keys)
    if head == "auto" and (foreign := describe_foreign(checkpoint)) is not None:
        model = _model(foreign.head.model_class, checkpoint, options)
        return _described(model, load_tokenizer(folder), foreign, options)
    # A pretrained model: what it can be asked for is words.
    # A left-to-right one predicts the piece behind a place, and not what a mask there hides.
    predicts = checkpoint.architecture in WORD_PREDICTORS and not checkpoint.config.left_to_right
    if predicts:
        _check_overrides(None, options, generates=True)
        check_no_pooling(options)
        length = _length(options, checkpoint.config.max_position_embeddings, folder)
        model = _model(BertMaskedLM, checkpoint, options)
        # "[MASK]" in a text must stay one token: it is what the model is asked about.
        tokenizer = load_tokenizer(folder, keep_special_tokens=True)
        if options.generate_sweeps is not None:
            if not isinstance(tokenizer, BertTokenizer):
                raise ValueError(
                    f"{folder} has a {type(tokenizer).__name__}: --generate_sweeps joins word "
                    "pieces and needs a WordPiece vocabulary; leave it out"
                )
            return GenerationSignatures(model, tokenizer, length, options)
        return MaskedLMSignatures(model, tokenizer, length, options)
    if head == "masked_lm" and checkpoint.config.left_to_right:
        raise ValueError(
            f"{folder} reads from left to right, so what follows a mask cannot tell what it hides: "
            "export it as an encoder, with --head=auto"
        )
    if head == "masked_lm":
        raise ValueError(
            f"{folder} holds a {checkpoint.architecture}, which has no masked language model head: "
            "export it with --head=auto, or give a pretrained model with that head"
        )
    return _encoder_signatures(folder, options, checkpoint)


def open_pair_signatures(
    folder: str | os.PathLike, max_seq_length: int | None = None
) -> SignatureFamily:
    """Opens a model folder as one of pairs of texts, if it is a classifier or a regression.

    Args:
        folder: the folder, or `hf://org/name`. That of another library does not tell what its
            classifier reads: it is taken for one of pairs.
        max_seq_length: the most positions of a row; None takes those of the training, of another
            library's model what its tokenizer states, else all.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: it knows one segment only, or the length is longer than the model.
    """
    folder, text_pair = hub.local_folder(folder), None
    if not (folder / TASK_FILE).is_file():
        checkpoint = preset.read_checkpoint(folder)
        described = describe_foreign(checkpoint)
        if described is not None and isinstance(described.head, TextHead):
            if not checkpoint.config.takes_pairs:
                raise ValueError(
                    f"{folder} knows one segment only, so it does not read pairs of texts: give a "
                    "model that was trained on them"
                )
            text_pair = True
        stated = sentence_modules.row_length(folder)
        if max_seq_length is None and stated is not None:
            max_seq_length = min(stated, checkpoint.config.max_position_embeddings)
    options = ExportOptions(max_seq_length=max_seq_length, text_pair=text_pair)
    return open_signatures(folder, options)


def open_ensemble(
    folders: Sequence[str | os.PathLike], options: ExportOptions, head: Head = "auto"
) -> SignatureFamily:
    """Opens several fine-tuning runs and returns the signatures of them as an ensemble.

    They are those of one model, `serve_ids` only where all members read the same rows.

    Args:
        folders: the runs, see `keras_bert.tasks.ensemble.FinetunedEnsemble`.
        options: settings of the export; a null threshold is that of the ensemble.
        head: "auto" alone.

    Raises:
        FileNotFoundError: a folder is not that of a complete run.
        ValueError: the members do not fit each other, a length is longer than one of the models,
            or the options state what is not so.
    """
    if head != "auto":
        raise ValueError(f"--head={head} is for one model: leave it out, or give one --model_dir")
    ensemble = EnsembleDescription.read([hub.local_folder(folder) for folder in folders])
    # The first one decides for all, by the description of the ensemble.
    described = (ensemble.description, *ensemble.descriptions[1:])
    first, *others = [
        _described(_own_model(Path(folder), description, options), tokenizer, description, options)
        for folder, tokenizer, description in zip(
            ensemble.folders, ensemble.tokenizers, described, strict=True
        )
    ]
    first.add_members(others, ensemble.join)
    first.reason = f"{first.reason}; an ensemble of {len(first.members)} models"
    return first


def _own_model(folder: Path, description: TaskDescription, options: ExportOptions) -> Any:
    """Returns the model of a folder that has a `task.json`."""
    model_class, dtype = description.head.model_class, _built_dtype(options)
    return _quantized(model_class.from_preset(os.fspath(folder), dtype=dtype), options)


def _encoder_signatures(
    folder: Path, options: ExportOptions, checkpoint: Checkpoint | None = None
) -> EncoderSignatures:
    _check_overrides(None, options)
    sentences, why = sentence_settings(folder, options)
    if checkpoint is None:
        checkpoint = preset.read_checkpoint(
            sentence_modules.encoder_folder(folder), options.ignore_config_keys
        )
    told = None if sentences is None else sentences.max_seq_length
    length = _length(options, checkpoint.config.max_position_embeddings, folder, told)
    if sentences is not None:
        check_sees_text(checkpoint.config, sentences.pooling)
        if "pooler" in sentences.pooling and not any(
            path in checkpoint.variables for path in POOLER
        ):
            raise ValueError(f"--pooling=pooler: {folder} has no pooler; choose another pooling")
        if "pooler" in sentences.pooling and _never_read_its_pooler(folder):
            raise ValueError(
                f"--pooling=pooler: {folder} was trained without its pooler; choose another pooling"
            )
        sentences.width(checkpoint.config.hidden_size)  # before the minutes that a model may take
    model = _model(BertEncoder, checkpoint, options)
    tokenizer = load_tokenizer(folder)
    if _has_sentences(folder):
        inner, lowercase = (
            sentence_modules.encoder_folder(folder),
            bool(sentences and sentences.lowercase),
        )
        tokenizer = sentence_tokenizer(folder, inner, lowercase)
    if sentences is not None and m3.is_m3_folder(folder):
        layers = m3.read(folder, checkpoint.config.hidden_size)
        family: EncoderSignatures = M3Signatures(
            model, tokenizer, length, options, sentences, layers
        )
    else:
        family = EncoderSignatures(model, tokenizer, length, options, sentences)
    family.reason = why
    return family


def _has_sentences(folder: Path) -> bool:
    """Whether a folder says how sentences become dense vectors."""
    return sentence_modules.is_sentence_folder(folder) or m3.is_m3_folder(folder)


def _static_signatures(folder: Path, options: ExportOptions) -> StaticSignatures:
    _check_overrides(None, options)
    table = static_embeddings.read(folder)
    # "[MASK]" in a text is that token.
    tokenizer = sentence_tokenizer(folder, table.tokenizer_folder, lowercase=False)
    family = StaticSignatures(table, tokenizer, options)
    family.reason = "sentence_embedding is the mean of static embeddings, as the files say"
    return family


def _sparse_signatures(folder: Path, options: ExportOptions) -> SparseSignatures:
    modules = sparse_modules.read(folder)
    modules = dataclasses.replace(modules, prompts=_prompts(modules.prompts, options))
    inner = sparse_modules.model_folder(folder)
    most = preset.read_config(inner, options.ignore_config_keys).max_position_embeddings
    length = _length(options, most, folder, modules.max_seq_length)
    head = SparseEmbeddingHead(modules.activation)
    _check_overrides(TaskDescription("", head, {TEXT: TEXT}, length), options)
    check_no_pooling(options, "sparse vectors")
    model = BertSparseEmbedder.from_preset(
        os.fspath(folder),
        options.ignore_config_keys,
        activation=modules.activation,
        dtype=_built_dtype(options),
    )
    tokenizer = sentence_tokenizer(folder, inner, modules.lowercase)
    family = SparseSignatures(_quantized(model, options), tokenizer, length, options, modules)
    family.reason = f"weights of words, as {sentence_modules.MODULES_FILE} says"
    return family


def _multi_vector_signatures(folder: Path, options: ExportOptions) -> MultiVectorSignatures:
    modules = multi_vector_modules.read(folder)
    modules = dataclasses.replace(modules, prompts=_prompts(modules.prompts, options))
    inner = multi_vector_modules.model_folder(folder)
    most = preset.read_config(inner, options.ignore_config_keys).max_position_embeddings
    length = _length(options, most, folder, modules.max_seq_length)
    if modules.expansion is not None and modules.expansion.length > most:
        raise ValueError(
            f"{folder} fills queries up to {modules.expansion.length} positions, but its encoder "
            f"has only {most}: write a smaller length of query_expansion there"
        )
    _check_overrides(TaskDescription("", MultiVectorHead(), {TEXT: TEXT}, length), options)
    check_no_pooling(options, "a vector for each token")
    if options.max_windows is not None:
        raise ValueError(
            "--max_windows is for one vector of a text, and the folder has one for each token: "
            "leave it out, or cut long texts into passages"
        )
    model = BertMultiVectorEmbedder.from_preset(
        os.fspath(folder), options.ignore_config_keys, dtype=_built_dtype(options)
    )
    tokenizer = sentence_tokenizer(folder, inner, modules.lowercase)
    family = MultiVectorSignatures(_quantized(model, options), tokenizer, length, options, modules)
    family.reason = "vectors of tokens, as the files of the folder say"
    return family


def _never_read_its_pooler(folder: Path) -> bool:
    try:
        return not load_description(folder).head.reads_pooler
    except (FileNotFoundError, ValueError):  # of a task that says nothing, the encoder is whole
        return False


def _model(model_class: Any, checkpoint: Checkpoint, options: ExportOptions) -> Any:
    arguments = {"dtype": _built_dtype(options)}
    return _quantized(preset.from_checkpoint(model_class, checkpoint, arguments), options)


def _built_dtype(options: ExportOptions) -> str:
    # int8 is not a dtype to build with: a float32 model is quantized afterwards.
    return "bfloat16" if options.dtype.startswith("bfloat16") else "float32"


def _quantized(model: keras.Model, options: ExportOptions) -> keras.Model:
    if options.dtype == "int8":
        quantize(model)
    if options.dtype == "int8_onednn":
        quantize_for_onednn(model)
    return model


def _described(
    model: Any, tokenizer: Tokenizer, description: TaskDescription, options: ExportOptions
) -> SignatureFamily:
    check_no_pooling(options)
    length = _length(options, description.max_seq_length, "the model")
    # What the user overrides of the task, because the folders of other libraries do not tell it.
    _check_overrides(description, options)
    # Such as --null_threshold of question answering.
    kind = kind_of(description)
    why = "as in training" if description.task else kind.untold
    if kind.override is not None and kind.overriding(options):
        stated = kind.override(description, options, model.config)
        if stated is not None:
            description, why = stated, "as you state"
    family = kind_of(description).signatures(description, model, tokenizer, length, options)
    family.reason = why
    return family


def _check_overrides(
    description: TaskDescription | None, options: ExportOptions, generates: bool = False
) -> None:
    """Checks that the options override nothing of another head.

    Args:
        description: the task; None for encoders and masked language models.
        options: settings of the export.
        generates: whether it is a masked language model, which guesses and can generate.

    Raises:
        ValueError: they do.
    """
    for name in ("generate_sweeps", "top_k"):
        if getattr(options, name) is not None and not generates:
            raise ValueError(f"--{name} is for masked language models: leave it out")
    for name, kind in KINDS.items():
        of_this_kind = description is not None and description.head.kind == name
        if not of_this_kind and (given := kind.overriding(options)):
            raise ValueError(f"--{given[0]} is for {kind.models}: leave it out")


def _prompts(prompts: Prompts, options: ExportOptions) -> Prompts:
    """Returns the prompts that are asked for, else those of a folder."""
    query, document = options.query_prompt, options.document_prompt
    return prompts._replace(
        query=prompts.query if query is None else query,
        document=prompts.document if document is None else document,
    )


def _length(
    options: ExportOptions, most: int, folder: str | os.PathLike, told: int | None = None
) -> int:
    """Returns the most positions of a row: what is asked for, else what a folder cuts to, else all.

    Args:
        options: settings of the export.
        most: positions of the model.
        folder: where it lies, for the error.
        told: to what the folder cuts; None where it says nothing.
    """
    length = options.max_seq_length
    if length is not None and length > most:
        raise ValueError(
            f"max_seq_length is {length} but {folder} was made for {most} positions: give at most "
            "that"
        )
    if length is not None:
        return length
    return most if told is None else min(most, told)
