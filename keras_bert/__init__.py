"""BERT for TensorFlow and Keras 3: from raw text to pretraining, fine-tuning and serving."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_bert.version import __version__

# Public name -> the module that defines it. Imported on first use (PEP 562), so that the core works
# where TensorFlow is absent and `import keras_bert` is fast.
_PUBLIC = {
    "BertConfig": "config",
    "AlbertConfig": "family_configs",
    "DistilBertConfig": "family_configs",
    "ElectraConfig": "family_configs",
    "ModernBertConfig": "modernbert_config",
    "DebertaV2Config": "deberta_config",
    "NomicBertConfig": "rotary_configs",
    "GteConfig": "rotary_configs",
    "JinaEmbeddingsV3Config": "rotary_configs",
    "MobileBertConfig": "mobilebert_config",
    "EuroBertConfig": "rotary_configs",
    "MPNetConfig": "family_configs",
    "MegatronBertConfig": "family_configs",
    "RobertaConfig": "family_configs",
    "LocalBertConfig": "family_configs",
    "LongformerConfig": "family_configs",
    "BertEncoder": "models.encoder",
    "AlbertEncoder": "models.family_encoders",
    "DistilBertEncoder": "models.family_encoders",
    "ElectraEncoder": "models.family_encoders",
    "ModernBertEncoder": "models.family_encoders",
    "DebertaV2Encoder": "models.family_encoders",
    "NomicBertEncoder": "models.family_encoders",
    "GteEncoder": "models.family_encoders",
    "JinaEmbeddingsV3Encoder": "models.family_encoders",
    "MobileBertEncoder": "models.family_encoders",
    "EuroBertEncoder": "models.family_encoders",
    "MPNetEncoder": "models.family_encoders",
    "MegatronBertEncoder": "models.family_encoders",
    "RobertaEncoder": "models.family_encoders",
    "LocalBertEncoder": "models.family_encoders",
    "LongformerEncoder": "models.family_encoders",
    "BertPretrainer": "models.pretrainer",
    "BertMaskedLM": "models.masked_lm",
    "BertClassifier": "models.classifier",
    "BertDocumentClassifier": "models.document_classifier",
    "BertEncoderDecoder": "models.seq2seq.encoder_decoder",
    "SearchOptions": "models.seq2seq.sequence_search",
    "MaskPredictOptions": "models.seq2seq.mask_predict",
    "BertMultipleChoice": "models.multiple_choice",
    "BertReplacedTokenDetector": "models.replaced_token_detector",
    "BertTokenClassifier": "models.token_classifier",
    "BertSentenceEmbedder": "models.embedders.sentence_embedder",
    "BertSparseEmbedder": "models.embedders.sparse_embedder",
    "BertMultiVectorEmbedder": "models.embedders.multi_vector_embedder",
    "StaticEmbedder": "models.embedders.static_embedder",
    "StaticEmbeddingConfig": "models.embedders.static_embedder",
    "BertSpanLabeler": "models.span_labeler",
    "BertBiLSTMTagger": "models.bilstm_tagger",
    "BertEntityMatcher": "models.entities.entity_matcher",
    "create_encoder": "models.encoder",
    "register_encoder": "models.registry",
    "grow_vocabulary": "models.surgery.vocabulary_growth",
    "enable_lora": "models.surgery.lora",
    "save_lora_adapter": "models.surgery.lora_adapter",
    "extend_positions": "models.surgery.position_extension",
    "with_local_attention": "models.surgery.local_attention",
    "Vocabulary": "text.vocabulary",
    "train_vocabulary": "text.vocabulary_training",
    "train_byte_level_bpe": "text.byte_level.training",
    "train_sentencepiece": "text.sentencepiece.training",
    "Tokenizer": "text.base_tokenizer",
    "BertTokenizer": "text.tokenizer",
    "ByteLevelBpeTokenizer": "text.byte_level.tokenizer",
    "SentencePieceTokenizer": "text.sentencepiece.tokenizer",
    "BertPreprocessor": "text.preprocessor",
    "load_tokenizer": "text.loading",
    "load_preprocessor": "text.preprocessor",
    "load_encoder": "models.loading",
    "load_model": "models.loading",
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
    "run_glue": "tasks.classification.glue_benchmark",
    "GlueResult": "tasks.classification.glue_benchmark",
    "LabeledTexts": "tasks.classification.head",
    "labeled_pairs": "tasks.classification.few_shot",
    "fit_logistic_regression": "tasks.classification.few_shot",
    "FewShotOptions": "tasks.classification.few_shot_options",
    "train_few_shot": "tasks.classification.few_shot_training",
    "ChoiceExample": "tasks.multiple_choice.head",
    "TextHead": "tasks.classification.head",
    "EmbeddingHead": "tasks.sentence_embedding.head",
    "StaticEmbeddingHead": "tasks.sentence_embedding.head",
    "SparseEmbeddingHead": "tasks.sentence_embedding.sparse_head",
    "MultiVectorHead": "tasks.sentence_embedding.multi_vector_head",
    "EmbeddingExample": "tasks.sentence_embedding.examples",
    "Seq2SeqHead": "tasks.seq2seq.head",
    "SourceTarget": "tasks.seq2seq.head",
    "TaggedSentence": "tasks.tagging.sentences",
    "EntitySentence": "tasks.entity_recognition.sentences",
    "Question": "tasks.question_answering.questions",
    "Answer": "tasks.question_answering.questions",
    "write_squad": "tasks.question_answering.squad_files",
    "convert_triviaqa": "tasks.question_answering.triviaqa",
    "FinetunedModel": "tasks.finetuned_model",
    "FinetunedEnsemble": "tasks.ensemble",
    "predict_file": "tasks.predict",
    "SentenceScorer": "tasks.fill_mask.scoring",
    "guess_every_word": "tasks.fill_mask.every_word",
    "AugmentationOptions": "tasks.fill_mask.augmentation_options",
    "augment_file": "tasks.fill_mask.augmentation",
    "fill_mask": "tasks.fill_mask.guesses",
    "GenerationOptions": "generation.options",
    "TextGenerator": "generation.generator",
    "rerank": "generation.rerank",
    "corpus_bleu": "generation.bleu",
    "self_bleu": "generation.bleu",
    "unique_ngram_rate": "generation.bleu",
    "FeatureExtractor": "tasks.feature_extraction.extraction",
    "ProbingOptions": "probing.options",
    "probe_layers": "probing.probe",
    "ExportOptions": "signatures.options",
    "export_saved_model": "serving.saved_model",
    "EntityRecognizer": "entity_recognizer",
    "NamedEntity": "entity_recognizer",
    "ZeroShotClassifier": "zero_shot",
    "ZeroShotResult": "zero_shot",
    "SentenceEncoder": "retrieval.sentence_encoder",
    "TextIndex": "retrieval.text_index",
    "Bm25": "retrieval.bm25_index",
    "Bm25Index": "retrieval.bm25_index",
    "FusedIndex": "retrieval.fused_index",
    "ExtractiveReader": "retrieval.extractive_reader",
    "PassageAnswer": "retrieval.extractive_reader",
    "SparseEncoder": "retrieval.sparse_encoder",
    "SparseTextIndex": "retrieval.sparse_index",
    "SparseVectors": "tasks.sentence_embedding.sparse_vectors",
    "M3Encoder": "retrieval.m3_encoder",
    "M3Index": "retrieval.m3_index",
    "M3Vectors": "retrieval.m3_encoder",
    "MultiVectorEncoder": "retrieval.multi_vector_encoder",
    "MultiVectorIndex": "retrieval.multi_vector_index",
    "TokenVectors": "tasks.sentence_embedding.token_vectors",
    "CrossEncoder": "retrieval.cross_encoder",
    "mine_negatives": "retrieval.hard_negatives",
    "distill_static_embeddings": "retrieval.static_distillation",
    "paraphrase_mining": "clustering.similar_pairs",
    "SimilarPair": "clustering.similar_pairs",
    "community_detection": "clustering.communities",
    "cluster_texts": "clustering.text_clusters",
    "TextClusters": "clustering.text_clusters",
    "TextCluster": "clustering.text_clusters",
    "export_litert": "serving.formats.litert_onnx",
    "export_onnx": "serving.formats.litert_onnx",
    "connect": "serving.client",
    "ServerError": "serving.client",
    "show_attention": "visualize.attention.view",
    "show_attributions": "visualize.attributions.view",
    "head_statistics": "visualize.attention.head_statistics",
    "plot_head_statistics": "visualize.attention.head_picture",
    "plot_probes": "visualize.probe_picture",
    "show_run": "visualize.runs.view",
    "inspect_vocabulary": "visualize.vocabulary_report",
    "inspect_model": "visualize.model_report",
    "write_projector": "tasks.feature_extraction.projector",
    "principal_components": "visualize.principal_components",
    "plot_principal_components": "visualize.principal_components",
    "plot_learning_curves": "visualize.curves",
    "show_clusters": "visualize.clusters.view",
}

__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from keras_bert.clustering.communities import community_detection as community_detection
    from keras_bert.clustering.similar_pairs import SimilarPair as SimilarPair
    from keras_bert.clustering.similar_pairs import paraphrase_mining as paraphrase_mining
    from keras_bert.clustering.text_clusters import TextCluster as TextCluster
    from keras_bert.clustering.text_clusters import TextClusters as TextClusters
    from keras_bert.clustering.text_clusters import cluster_texts as cluster_texts
    from keras_bert.config import BertConfig as BertConfig
    from keras_bert.data.creation.create import create_pretraining_data as create_pretraining_data
    from keras_bert.data.creation.options import CreationOptions as CreationOptions
    from keras_bert.deberta_config import DebertaV2Config as DebertaV2Config
    from keras_bert.entity_recognizer import EntityRecognizer as EntityRecognizer
    from keras_bert.entity_recognizer import NamedEntity as NamedEntity
    from keras_bert.family_configs import AlbertConfig as AlbertConfig
    from keras_bert.family_configs import DistilBertConfig as DistilBertConfig
    from keras_bert.family_configs import ElectraConfig as ElectraConfig
    from keras_bert.family_configs import LocalBertConfig as LocalBertConfig
    from keras_bert.family_configs import LongformerConfig as LongformerConfig
    from keras_bert.family_configs import MegatronBertConfig as MegatronBertConfig
    from keras_bert.family_configs import MPNetConfig as MPNetConfig
    from keras_bert.family_configs import RobertaConfig as RobertaConfig
    from keras_bert.finetuning.finetune import finetune as finetune
    from keras_bert.finetuning.metrics import accuracy as accuracy
    from keras_bert.finetuning.options import FinetuningOptions as FinetuningOptions
    from keras_bert.finetuning.search import search as search
    from keras_bert.finetuning.task import Task as Task
    from keras_bert.finetuning.task import TaskData as TaskData
    from keras_bert.generation.bleu import corpus_bleu as corpus_bleu
    from keras_bert.generation.bleu import self_bleu as self_bleu
    from keras_bert.generation.bleu import unique_ngram_rate as unique_ngram_rate
    from keras_bert.generation.generator import TextGenerator as TextGenerator
    from keras_bert.generation.options import GenerationOptions as GenerationOptions
    from keras_bert.generation.rerank import rerank as rerank
    from keras_bert.mobilebert_config import MobileBertConfig as MobileBertConfig
    from keras_bert.models.bilstm_tagger import BertBiLSTMTagger as BertBiLSTMTagger
    from keras_bert.models.classifier import BertClassifier as BertClassifier
    from keras_bert.models.document_classifier import (
        BertDocumentClassifier as BertDocumentClassifier,
    )
    from keras_bert.models.embedders.multi_vector_embedder import (
        BertMultiVectorEmbedder as BertMultiVectorEmbedder,
    )
    from keras_bert.models.embedders.sentence_embedder import (
        BertSentenceEmbedder as BertSentenceEmbedder,
    )
    from keras_bert.models.embedders.sparse_embedder import BertSparseEmbedder as BertSparseEmbedder
    from keras_bert.models.embedders.static_embedder import StaticEmbedder as StaticEmbedder
    from keras_bert.models.embedders.static_embedder import (
        StaticEmbeddingConfig as StaticEmbeddingConfig,
    )
    from keras_bert.models.encoder import BertEncoder as BertEncoder
    from keras_bert.models.encoder import create_encoder as create_encoder
    from keras_bert.models.entities.entity_matcher import BertEntityMatcher as BertEntityMatcher
    from keras_bert.models.family_encoders import AlbertEncoder as AlbertEncoder
    from keras_bert.models.family_encoders import DebertaV2Encoder as DebertaV2Encoder
    from keras_bert.models.family_encoders import DistilBertEncoder as DistilBertEncoder
    from keras_bert.models.family_encoders import ElectraEncoder as ElectraEncoder
    from keras_bert.models.family_encoders import EuroBertEncoder as EuroBertEncoder
    from keras_bert.models.family_encoders import GteEncoder as GteEncoder
    from keras_bert.models.family_encoders import (
        JinaEmbeddingsV3Encoder as JinaEmbeddingsV3Encoder,
    )
    from keras_bert.models.family_encoders import LocalBertEncoder as LocalBertEncoder
    from keras_bert.models.family_encoders import LongformerEncoder as LongformerEncoder
    from keras_bert.models.family_encoders import MegatronBertEncoder as MegatronBertEncoder
    from keras_bert.models.family_encoders import MobileBertEncoder as MobileBertEncoder
    from keras_bert.models.family_encoders import ModernBertEncoder as ModernBertEncoder
    from keras_bert.models.family_encoders import MPNetEncoder as MPNetEncoder
    from keras_bert.models.family_encoders import NomicBertEncoder as NomicBertEncoder
    from keras_bert.models.family_encoders import RobertaEncoder as RobertaEncoder
    from keras_bert.models.loading import load_encoder as load_encoder
    from keras_bert.models.loading import load_model as load_model
    from keras_bert.models.masked_lm import BertMaskedLM as BertMaskedLM
    from keras_bert.models.multiple_choice import BertMultipleChoice as BertMultipleChoice
    from keras_bert.models.pretrainer import BertPretrainer as BertPretrainer
    from keras_bert.models.registry import register_encoder as register_encoder
    from keras_bert.models.replaced_token_detector import (
        BertReplacedTokenDetector as BertReplacedTokenDetector,
    )
    from keras_bert.models.seq2seq.encoder_decoder import BertEncoderDecoder as BertEncoderDecoder
    from keras_bert.models.seq2seq.mask_predict import MaskPredictOptions as MaskPredictOptions
    from keras_bert.models.seq2seq.sequence_search import SearchOptions as SearchOptions
    from keras_bert.models.span_labeler import BertSpanLabeler as BertSpanLabeler
    from keras_bert.models.surgery.local_attention import (
        with_local_attention as with_local_attention,
    )
    from keras_bert.models.surgery.lora import enable_lora as enable_lora
    from keras_bert.models.surgery.lora_adapter import save_lora_adapter as save_lora_adapter
    from keras_bert.models.surgery.position_extension import extend_positions as extend_positions
    from keras_bert.models.surgery.vocabulary_growth import grow_vocabulary as grow_vocabulary
    from keras_bert.models.token_classifier import BertTokenClassifier as BertTokenClassifier
    from keras_bert.modernbert_config import ModernBertConfig as ModernBertConfig
    from keras_bert.pretraining.objectives.objective import Objective as Objective
    from keras_bert.pretraining.options import PretrainingOptions as PretrainingOptions
    from keras_bert.pretraining.pretrain import pretrain as pretrain
    from keras_bert.probing.options import ProbingOptions as ProbingOptions
    from keras_bert.probing.probe import probe_layers as probe_layers
    from keras_bert.retrieval.bm25_index import Bm25 as Bm25
    from keras_bert.retrieval.bm25_index import Bm25Index as Bm25Index
    from keras_bert.retrieval.cross_encoder import CrossEncoder as CrossEncoder
    from keras_bert.retrieval.extractive_reader import ExtractiveReader as ExtractiveReader
    from keras_bert.retrieval.extractive_reader import PassageAnswer as PassageAnswer
    from keras_bert.retrieval.fused_index import FusedIndex as FusedIndex
    from keras_bert.retrieval.hard_negatives import mine_negatives as mine_negatives
    from keras_bert.retrieval.m3_encoder import M3Encoder as M3Encoder
    from keras_bert.retrieval.m3_encoder import M3Vectors as M3Vectors
    from keras_bert.retrieval.m3_index import M3Index as M3Index
    from keras_bert.retrieval.multi_vector_encoder import MultiVectorEncoder as MultiVectorEncoder
    from keras_bert.retrieval.multi_vector_index import MultiVectorIndex as MultiVectorIndex
    from keras_bert.retrieval.sentence_encoder import SentenceEncoder as SentenceEncoder
    from keras_bert.retrieval.sparse_encoder import SparseEncoder as SparseEncoder
    from keras_bert.retrieval.sparse_index import SparseTextIndex as SparseTextIndex
    from keras_bert.retrieval.static_distillation import (
        distill_static_embeddings as distill_static_embeddings,
    )
    from keras_bert.retrieval.text_index import TextIndex as TextIndex
    from keras_bert.rotary_configs import EuroBertConfig as EuroBertConfig
    from keras_bert.rotary_configs import GteConfig as GteConfig
    from keras_bert.rotary_configs import JinaEmbeddingsV3Config as JinaEmbeddingsV3Config
    from keras_bert.rotary_configs import NomicBertConfig as NomicBertConfig
    from keras_bert.serving.client import ServerError as ServerError
    from keras_bert.serving.client import connect as connect
    from keras_bert.serving.formats.litert_onnx import export_litert as export_litert
    from keras_bert.serving.formats.litert_onnx import export_onnx as export_onnx
    from keras_bert.serving.saved_model import export_saved_model as export_saved_model
    from keras_bert.signatures.options import ExportOptions as ExportOptions
    from keras_bert.tasks.classification.few_shot import (
        fit_logistic_regression as fit_logistic_regression,
    )
    from keras_bert.tasks.classification.few_shot import labeled_pairs as labeled_pairs
    from keras_bert.tasks.classification.few_shot_options import FewShotOptions as FewShotOptions
    from keras_bert.tasks.classification.few_shot_training import train_few_shot as train_few_shot
    from keras_bert.tasks.classification.glue_benchmark import GlueResult as GlueResult
    from keras_bert.tasks.classification.glue_benchmark import run_glue as run_glue
    from keras_bert.tasks.classification.head import LabeledTexts as LabeledTexts
    from keras_bert.tasks.classification.head import TextHead as TextHead
    from keras_bert.tasks.ensemble import FinetunedEnsemble as FinetunedEnsemble
    from keras_bert.tasks.entity_recognition.sentences import EntitySentence as EntitySentence
    from keras_bert.tasks.feature_extraction.extraction import FeatureExtractor as FeatureExtractor
    from keras_bert.tasks.feature_extraction.projector import write_projector as write_projector
    from keras_bert.tasks.fill_mask.augmentation import augment_file as augment_file
    from keras_bert.tasks.fill_mask.augmentation_options import (
        AugmentationOptions as AugmentationOptions,
    )
    from keras_bert.tasks.fill_mask.every_word import guess_every_word as guess_every_word
    from keras_bert.tasks.fill_mask.guesses import fill_mask as fill_mask
    from keras_bert.tasks.fill_mask.scoring import SentenceScorer as SentenceScorer
    from keras_bert.tasks.finetuned_model import FinetunedModel as FinetunedModel
    from keras_bert.tasks.multiple_choice.head import ChoiceExample as ChoiceExample
    from keras_bert.tasks.predict import predict_file as predict_file
    from keras_bert.tasks.question_answering.questions import Answer as Answer
    from keras_bert.tasks.question_answering.questions import Question as Question
    from keras_bert.tasks.question_answering.squad_files import write_squad as write_squad
    from keras_bert.tasks.question_answering.triviaqa import convert_triviaqa as convert_triviaqa
    from keras_bert.tasks.registry import create_task as create_task
    from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample as EmbeddingExample
    from keras_bert.tasks.sentence_embedding.head import EmbeddingHead as EmbeddingHead
    from keras_bert.tasks.sentence_embedding.head import StaticEmbeddingHead as StaticEmbeddingHead
    from keras_bert.tasks.sentence_embedding.multi_vector_head import (
        MultiVectorHead as MultiVectorHead,
    )
    from keras_bert.tasks.sentence_embedding.sparse_head import (
        SparseEmbeddingHead as SparseEmbeddingHead,
    )
    from keras_bert.tasks.sentence_embedding.sparse_vectors import SparseVectors as SparseVectors
    from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors as TokenVectors
    from keras_bert.tasks.seq2seq.head import Seq2SeqHead as Seq2SeqHead
    from keras_bert.tasks.seq2seq.head import SourceTarget as SourceTarget
    from keras_bert.tasks.tagging.sentences import TaggedSentence as TaggedSentence
    from keras_bert.text.base_tokenizer import Tokenizer as Tokenizer
    from keras_bert.text.byte_level.tokenizer import (
        ByteLevelBpeTokenizer as ByteLevelBpeTokenizer,
    )
    from keras_bert.text.byte_level.training import train_byte_level_bpe as train_byte_level_bpe
    from keras_bert.text.loading import load_tokenizer as load_tokenizer
    from keras_bert.text.preprocessor import BertPreprocessor as BertPreprocessor
    from keras_bert.text.preprocessor import load_preprocessor as load_preprocessor
    from keras_bert.text.sentencepiece.tokenizer import (
        SentencePieceTokenizer as SentencePieceTokenizer,
    )
    from keras_bert.text.sentencepiece.training import train_sentencepiece as train_sentencepiece
    from keras_bert.text.tokenizer import BertTokenizer as BertTokenizer
    from keras_bert.text.vocabulary import Vocabulary as Vocabulary
    from keras_bert.text.vocabulary_training import train_vocabulary as train_vocabulary
    from keras_bert.training.optimizer import create_optimizer as create_optimizer
    from keras_bert.training.strategy import create_strategy as create_strategy
    from keras_bert.visualize.attention.head_picture import (
        plot_head_statistics as plot_head_statistics,
    )
    from keras_bert.visualize.attention.head_statistics import head_statistics as head_statistics
    from keras_bert.visualize.attention.view import show_attention as show_attention
    from keras_bert.visualize.attributions.view import show_attributions as show_attributions
    from keras_bert.visualize.clusters.view import show_clusters as show_clusters
    from keras_bert.visualize.curves import plot_learning_curves as plot_learning_curves
    from keras_bert.visualize.model_report import inspect_model as inspect_model
    from keras_bert.visualize.principal_components import (
        plot_principal_components as plot_principal_components,
    )
    from keras_bert.visualize.principal_components import (
        principal_components as principal_components,
    )
    from keras_bert.visualize.probe_picture import plot_probes as plot_probes
    from keras_bert.visualize.runs.view import show_run as show_run
    from keras_bert.visualize.vocabulary_report import inspect_vocabulary as inspect_vocabulary
    from keras_bert.zero_shot import ZeroShotClassifier as ZeroShotClassifier
    from keras_bert.zero_shot import ZeroShotResult as ZeroShotResult


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
