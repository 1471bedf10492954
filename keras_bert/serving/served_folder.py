"""Any model folder as signatures: which kind of model it holds."""

import os
from pathlib import Path
from typing import Any, Literal

import keras

from keras_bert.checkpoints import sentence_modules
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.model_classes import WORD_PREDICTORS
from keras_bert.checkpoints.variables import POOLER
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.finetuning.task import TASK_FILE, TaskDescription
from keras_bert.models import preset
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.serving.overrides import check_statable, reason, with_stated
from keras_bert.signatures.base import SignatureFamily
from keras_bert.signatures.options import ExportOptions
from keras_bert.storage import hub
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.classification.signatures import TextSignatures
from keras_bert.tasks.feature_extraction.pooling import (
    check_no_pooling,
    sentence_settings,
    sentence_tokenizer,
)
from keras_bert.tasks.feature_extraction.signatures import EncoderSignatures
from keras_bert.tasks.fill_mask.signatures import MaskedLMSignatures
from keras_bert.tasks.multiple_choice.head import ChoiceHead
from keras_bert.tasks.multiple_choice.signatures import ChoiceSignatures
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.signatures import SpanSignatures
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.signatures import TagSignatures
from keras_bert.text.preprocessor import TEXT
from keras_bert.text.tokenizer import BertTokenizer

Head = Literal["auto", "encoder", "masked_lm"]
HEADS: tuple[Head, ...] = ("auto", "encoder", "masked_lm")

# What a fine-tuned model of another library is taken for, by its architecture.
_TASK_HEADS: dict[str, FinetuningHead] = {
    head.model_class.__name__: head for head in (TextHead(), TagHead(), SpanHead(), ChoiceHead())
}
# What transformers writes into the config of a model that may give a text several labels.
_SEVERAL_LABELS = "multi_label_classification"


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
        ValueError: it does not hold such a head, a length is longer than the model, or the options
            state what is not so.
    """
    folder = hub.local_folder(folder)
    sentences = head == "auto" and sentence_modules.is_sentence_folder(folder)
    if head == "encoder" or sentences:
        return _encoder_signatures(folder, options)
    if head == "auto" and (folder / TASK_FILE).is_file():
        description = TaskDescription.load(folder)
        model_class, dtype = description.head.model_class, _built_dtype(options)
        model = _quantized(model_class.from_preset(os.fspath(folder), dtype=dtype), options)
        return _described(model, BertTokenizer.from_preset(folder), description, options)
    checkpoint = preset.read_checkpoint(folder, options.ignore_config_keys)
    if head == "auto" and checkpoint.architecture in _TASK_HEADS:
        description = _description(checkpoint)
        model = _model(description.head.model_class, checkpoint, options)
        return _described(model, BertTokenizer.from_preset(folder), description, options)
    if checkpoint.architecture in WORD_PREDICTORS:
        return _masked_lm_signatures(checkpoint, folder, options)
    if head == "masked_lm":
        raise ValueError(
            f"{folder} holds a {checkpoint.architecture}, which has no masked language model head: "
            "export it with --head=auto, or give a pretrained model with that head"
        )
    return _encoder_signatures(folder, options, checkpoint)


def _masked_lm_signatures(
    checkpoint: Checkpoint, folder: Path, options: ExportOptions
) -> MaskedLMSignatures:
    check_statable(None, options)
    check_no_pooling(options)
    length = _length(options, checkpoint.config.max_position_embeddings, folder)
    model = _model(BertMaskedLM, checkpoint, options)
    tokenizer = BertTokenizer.from_preset(folder, keep_special_tokens=True)
    return MaskedLMSignatures(model, tokenizer, length, options)


def _encoder_signatures(
    folder: Path, options: ExportOptions, checkpoint: Checkpoint | None = None
) -> EncoderSignatures:
    check_statable(None, options)
    sentences, why = sentence_settings(folder, options)
    if checkpoint is None:
        checkpoint = preset.read_checkpoint(
            sentence_modules.encoder_folder(folder), options.ignore_config_keys
        )
    most = checkpoint.config.max_position_embeddings
    length = _length(options, most, folder)
    if sentences is not None:
        if options.max_seq_length is None and sentences.max_seq_length is not None:
            length = min(most, sentences.max_seq_length)
        if "pooler" in sentences.pooling and any(
            path not in checkpoint.variables for path in POOLER
        ):
            raise ValueError(f"--pooling=pooler: {folder} has no pooler; choose another pooling")
        sentences.width(checkpoint.config.hidden_size)  # before the minutes that a model may take
    model = _model(BertEncoder, checkpoint, options)
    tokenizer = sentence_tokenizer(folder, sentences)
    family = EncoderSignatures(model, tokenizer, length, options, sentences)
    family.reason = why
    return family


def _model(model_class: Any, checkpoint: Checkpoint, options: ExportOptions) -> Any:
    arguments = {"dtype": _built_dtype(options)}
    return _quantized(preset.from_checkpoint(model_class, checkpoint, arguments), options)


def _built_dtype(options: ExportOptions) -> str:
    return "float32" if options.dtype == "int8" else options.dtype


def _quantized(model: keras.Model, options: ExportOptions) -> keras.Model:
    if options.dtype == "int8":
        model.quantize("int8", filters=lambda layer: isinstance(layer, keras.layers.Dense))
    return model


def _description(checkpoint: Checkpoint) -> TaskDescription:
    """Returns what a run's task.json would say of a fine-tuned model of another library."""
    head = _TASK_HEADS[checkpoint.architecture]
    classes = checkpoint.head.get("num_classes") or 0
    labels = checkpoint.head.get("labels") or [f"LABEL_{index}" for index in range(classes)]
    if isinstance(head, TextHead):
        several = checkpoint.head.get("problem_type") == _SEVERAL_LABELS
        head = TextHead("multi_label" if several else "class" if classes > 1 else "regression")
        labels = labels if classes > 1 or several else []
    length = checkpoint.config.max_position_embeddings
    return TaskDescription("", head, tuple(labels), {TEXT: TEXT}, length)


def _described(
    model: Any, tokenizer: BertTokenizer, description: TaskDescription, options: ExportOptions
) -> SignatureFamily:
    check_no_pooling(options)
    length = _length(options, description.max_seq_length, "the model")
    why = reason(description, options)
    description = with_stated(description, options, model.config)
    family = _family(description, (model, tokenizer, length, options))
    family.reason = why
    return family


def _family(description: TaskDescription, arguments: tuple[Any, ...]) -> SignatureFamily:
    if isinstance(description.head, ChoiceHead):
        return ChoiceSignatures(*arguments)
    families = {TextHead: TextSignatures, TagHead: TagSignatures, SpanHead: SpanSignatures}
    return families[type(description.head)](description, *arguments)


def _length(options: ExportOptions, most: int, folder: str | os.PathLike) -> int:
    length = options.max_seq_length
    if length is not None and length > most:
        raise ValueError(
            f"max_seq_length is {length} but {folder} was made for {most} positions: give at most "
            "that"
        )
    return most if length is None else length
