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
    "BertBiLSTMTagger": "models.bilstm_tagger",
    "create_encoder": "models.encoder",
    "register_encoder": "models.registry",
    "grow_vocabulary": "models.vocabulary_growth",
    "Vocabulary": "text.vocabulary",
    "train_vocabulary": "text.vocabulary_training",
    "BertTokenizer": "text.tokenizer",
    "BertPreprocessor": "text.preprocessor",
    "CreationOptions": "data.creation.options",
    "create_pretraining_data": "data.creation.create",
    "create_optimizer": "training.optimizer",
    "create_strategy": "training.strategy",
    "Objective": "pretraining.objectives.objective",
    "PretrainingOptions": "pretraining.options",
    "pretrain": "pretraining.pretrain",
    "Task": "finetuning.task",
    "TaskData": "finetuning.task",
    "accuracy": "finetuning.metrics",
    "FinetuningOptions": "finetuning.options",
    "finetune": "finetuning.finetune",
    "search": "finetuning.search",
    "create_task": "tasks.registry",
    "LabeledTexts": "tasks.classification.head",
    "TextHead": "tasks.classification.head",
    "TaggedSentence": "tasks.tagging.sentences",
    "Question": "tasks.question_answering.questions",
    "Answer": "tasks.question_answering.questions",
    "write_squad": "tasks.question_answering.squad_files",
    "FinetunedModel": "tasks.finetuned_model",
    "predict_file": "tasks.predict",
    "SentenceScorer": "tasks.fill_mask.scoring",
    "guess_every_word": "tasks.fill_mask.every_word",
    "fill_mask": "tasks.fill_mask.guesses",
    "FeatureExtractor": "tasks.feature_extraction.extraction",
    "ExportOptions": "signatures.options",
    "export_saved_model": "serving.saved_model",
    "SentenceEncoder": "serving.sentence_encoder",
    "export_litert": "serving.formats.litert_onnx",
    "export_onnx": "serving.formats.litert_onnx",
    "connect": "serving.client",
    "ServerError": "serving.client",
    "show_attention": "visualize.attention.view",
    "show_attributions": "visualize.attributions.view",
    "plot_learning_curves": "visualize.curves",
}

__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from keras_bert.config import BertConfig as BertConfig
    from keras_bert.data.creation.create import create_pretraining_data as create_pretraining_data
    from keras_bert.data.creation.options import CreationOptions as CreationOptions
    from keras_bert.finetuning.finetune import finetune as finetune
    from keras_bert.finetuning.metrics import accuracy as accuracy
    from keras_bert.finetuning.options import FinetuningOptions as FinetuningOptions
    from keras_bert.finetuning.search import search as search
    from keras_bert.finetuning.task import Task as Task
    from keras_bert.finetuning.task import TaskData as TaskData
    from keras_bert.models.bilstm_tagger import BertBiLSTMTagger as BertBiLSTMTagger
    from keras_bert.models.classifier import BertClassifier as BertClassifier
    from keras_bert.models.encoder import BertEncoder as BertEncoder
    from keras_bert.models.encoder import create_encoder as create_encoder
    from keras_bert.models.masked_lm import BertMaskedLM as BertMaskedLM
    from keras_bert.models.multiple_choice import BertMultipleChoice as BertMultipleChoice
    from keras_bert.models.pretrainer import BertPretrainer as BertPretrainer
    from keras_bert.models.registry import register_encoder as register_encoder
    from keras_bert.models.span_labeler import BertSpanLabeler as BertSpanLabeler
    from keras_bert.models.token_classifier import BertTokenClassifier as BertTokenClassifier
    from keras_bert.models.vocabulary_growth import grow_vocabulary as grow_vocabulary
    from keras_bert.pretraining.objectives.objective import Objective as Objective
    from keras_bert.pretraining.options import PretrainingOptions as PretrainingOptions
    from keras_bert.pretraining.pretrain import pretrain as pretrain
    from keras_bert.serving.client import ServerError as ServerError
    from keras_bert.serving.client import connect as connect
    from keras_bert.serving.formats.litert_onnx import export_litert as export_litert
    from keras_bert.serving.formats.litert_onnx import export_onnx as export_onnx
    from keras_bert.serving.saved_model import export_saved_model as export_saved_model
    from keras_bert.serving.sentence_encoder import SentenceEncoder as SentenceEncoder
    from keras_bert.signatures.options import ExportOptions as ExportOptions
    from keras_bert.tasks.classification.head import LabeledTexts as LabeledTexts
    from keras_bert.tasks.classification.head import TextHead as TextHead
    from keras_bert.tasks.feature_extraction.extraction import FeatureExtractor as FeatureExtractor
    from keras_bert.tasks.fill_mask.every_word import guess_every_word as guess_every_word
    from keras_bert.tasks.fill_mask.guesses import fill_mask as fill_mask
    from keras_bert.tasks.fill_mask.scoring import SentenceScorer as SentenceScorer
    from keras_bert.tasks.finetuned_model import FinetunedModel as FinetunedModel
    from keras_bert.tasks.predict import predict_file as predict_file
    from keras_bert.tasks.question_answering.questions import Answer as Answer
    from keras_bert.tasks.question_answering.questions import Question as Question
    from keras_bert.tasks.question_answering.squad_files import write_squad as write_squad
    from keras_bert.tasks.registry import create_task as create_task
    from keras_bert.tasks.tagging.sentences import TaggedSentence as TaggedSentence
    from keras_bert.text.preprocessor import BertPreprocessor as BertPreprocessor
    from keras_bert.text.tokenizer import BertTokenizer as BertTokenizer
    from keras_bert.text.vocabulary import Vocabulary as Vocabulary
    from keras_bert.text.vocabulary_training import train_vocabulary as train_vocabulary
    from keras_bert.training.optimizer import create_optimizer as create_optimizer
    from keras_bert.training.strategy import create_strategy as create_strategy
    from keras_bert.visualize.attention.view import show_attention as show_attention
    from keras_bert.visualize.attributions.view import show_attributions as show_attributions
    from keras_bert.visualize.curves import plot_learning_curves as plot_learning_curves


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
