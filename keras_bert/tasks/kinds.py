"""The kinds of tasks: one row for each, with all that the package asks of a kind by its name.

A new kind is a folder beside the others (head, readers, signatures) and a row here. The model class
of its head has a row in `keras_bert.checkpoints.model_classes`, else its model folders do not open.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.multi_vector_modules import is_multi_vector_folder
from keras_bert.checkpoints.sentence_modules import MODULES_FILE
from keras_bert.config import BertConfig, read_json
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.finetuning.task import TASK_FILE, PredictionReader, TaskDescription
from keras_bert.models.document_classifier import BertDocumentClassifier
from keras_bert.signatures.base import SignatureFamily
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.delimited import read_texts_to_predict
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.classification.signatures import TextSignatures, with_text_pair
from keras_bert.tasks.entity_recognition.entity_files import read_entities_to_predict
from keras_bert.tasks.entity_recognition.head import EntityHead
from keras_bert.tasks.entity_recognition.signatures import EntitySignatures
from keras_bert.tasks.multiple_choice.choice_files import read_choices_to_predict
from keras_bert.tasks.multiple_choice.head import ChoiceHead
from keras_bert.tasks.multiple_choice.signatures import ChoiceSignatures
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.signatures import SpanSignatures, with_null_threshold
from keras_bert.tasks.question_answering.squad_files import read_questions_to_predict
from keras_bert.tasks.sentence_embedding.embedding_files import read_pairs_to_predict
from keras_bert.tasks.sentence_embedding.head import EmbeddingHead, StaticEmbeddingHead
from keras_bert.tasks.sentence_embedding.multi_vector_head import MultiVectorHead
from keras_bert.tasks.sentence_embedding.multi_vector_signatures import multi_vector_signatures
from keras_bert.tasks.sentence_embedding.signatures import (
    embedding_signatures,
    static_embedding_signatures,
)
from keras_bert.tasks.sentence_embedding.sparse_head import SparseEmbeddingHead
from keras_bert.tasks.sentence_embedding.sparse_signatures import sparse_signatures
from keras_bert.tasks.seq2seq.head import Seq2SeqHead
from keras_bert.tasks.seq2seq.pair_files import read_sources_to_predict
from keras_bert.tasks.seq2seq.signatures import Seq2SeqSignatures, with_iterations
from keras_bert.tasks.tagging.conll import read_sentences_to_predict
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.signatures import TagSignatures
from keras_bert.text.preprocessor import TEXT

Override = Callable[[TaskDescription, ExportOptions, BertConfig], TaskDescription | None]


@dataclasses.dataclass(frozen=True)
class TaskKind:
    """A kind of task.

    Attributes:
        models: what messages call the models of this kind.
        head: class of its head; made with its defaults, it names the model class that is looked
            for in folders of other libraries.
        signatures: takes a `TaskDescription`, then the arguments of every `SignatureFamily`.
        read: reads a file to be predicted.
        export_options: the settings of an export that are for this kind alone.
        override: puts the values of these settings into the description, and returns None where
            none of those given belongs there; None where there is nothing to put there. Raises a
            `ValueError` where one contradicts the description.
        untold: what the folder of another library does not tell, and what to override then.
    """

    models: str
    head: type[FinetuningHead]
    signatures: Callable[..., SignatureFamily]
    read: PredictionReader
    export_options: tuple[str, ...] = ()
    override: Override | None = None
    untold: str = "as the head asks"

    def overriding(self, options: ExportOptions) -> list[str]:
        """Returns which of `export_options` are given."""
        return [name for name in self.export_options if getattr(options, name) is not None]

    @property
    def architecture(self) -> str:
        """The name of the model class, as config files have it."""
        return self.head().model_class.__name__


# By the name that `task.json` has for the head.
KINDS: dict[str, TaskKind] = {
    TextHead.kind: TaskKind(
        models="classifiers and regressions",
        head=TextHead,
        signatures=TextSignatures,
        read=read_texts_to_predict,
        export_options=("text_pair", "hypothesis_template", "max_labels"),
        override=with_text_pair,
        untold="the folder does not tell whether the model was trained on pairs; if it was, export "
        "it with --text_pair",
    ),
    SpanHead.kind: TaskKind(
        models="models that answer questions",
        head=SpanHead,
        signatures=SpanSignatures,
        read=read_questions_to_predict,
        export_options=("null_threshold",),
        override=with_null_threshold,
        untold="the folder stores no threshold above which a question has no answer, so every "
        "question gets one; if the model was trained with such questions (SQuAD 2.0), export it "
        "with --null_threshold=0",
    ),
    TagHead.kind: TaskKind(
        models="taggers",
        head=TagHead,
        signatures=TagSignatures,
        read=read_sentences_to_predict,
    ),
    EntityHead.kind: TaskKind(
        models="models that find entities of any labels",
        head=EntityHead,
        signatures=EntitySignatures,
        read=read_entities_to_predict,
        untold="requests name the labels, and no other head fits",
    ),
    ChoiceHead.kind: TaskKind(
        models="multiple choice",
        head=ChoiceHead,
        signatures=ChoiceSignatures,
        read=read_choices_to_predict,
        export_options=("max_choices",),
    ),
    Seq2SeqHead.kind: TaskKind(
        models="encoders with a decoder",
        head=Seq2SeqHead,
        signatures=Seq2SeqSignatures,
        read=read_sources_to_predict,
        export_options=("iterations", "length_candidates"),
        override=with_iterations,
        untold="the folder does not tell how texts were searched for: by beam search with 4 beams, "
        "a length penalty of 0.6 and at most 64 pieces, or by Mask-Predict with 10 iterations and "
        "5 lengths",
    ),
    EmbeddingHead.kind: TaskKind(
        models="trained vectors of texts",
        head=EmbeddingHead,
        signatures=embedding_signatures,
        read=read_pairs_to_predict,
    ),
    StaticEmbeddingHead.kind: TaskKind(
        models="trained static embeddings",
        head=StaticEmbeddingHead,
        signatures=static_embedding_signatures,
        read=read_pairs_to_predict,
    ),
    SparseEmbeddingHead.kind: TaskKind(
        models="trained sparse vectors of texts",
        head=SparseEmbeddingHead,
        signatures=sparse_signatures,
        read=read_pairs_to_predict,
        export_options=("max_active_dims",),
    ),
    MultiVectorHead.kind: TaskKind(
        models="trained vectors of tokens",
        head=MultiVectorHead,
        signatures=multi_vector_signatures,
        read=read_pairs_to_predict,
    ),
}


# What each field of `task.json` holds.
_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "task": ("a string", lambda value: isinstance(value, str)),
    "head": ("an object", lambda value: isinstance(value, dict)),
    "labels": ("a list of strings", lambda value: isinstance(value, list) and _are_strings(value)),
    "text_columns": (
        "an object of strings",
        lambda value: isinstance(value, dict) and _are_strings(value.values()),
    ),
    "max_seq_length": (
        "a whole number above 0",
        lambda value: type(value) is int and value > 0,  # nor true
    ),
}


def _are_strings(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def kind_of(description: TaskDescription) -> TaskKind:
    """Returns the kind of a task."""
    return KINDS[description.head.kind]


def load_description(folder: str | os.PathLike) -> TaskDescription:
    """Reads `task.json` of a model folder.

    Raises:
        FileNotFoundError: the folder is not that of a complete fine-tuning run.
        ValueError: the file is damaged, or names a kind of head that there is not; the sentence
            names the field. Or a file that a head has beside the weights is missing.
    """
    path = Path(folder) / TASK_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: give the --model_dir of a finished run of run_finetuning.py; "
            "export_saved_model.py serves other models"
        )
    content = read_json(path)
    if content.keys() != _FIELDS.keys():
        raise ValueError(
            f"{path} has the fields {', '.join(sorted(content))}; expected are "
            f"{', '.join(sorted(_FIELDS))}: fine-tune the model anew"
        )
    for field, (expected, fits) in _FIELDS.items():
        if not fits(content[field]):
            raise ValueError(
                f"{path}: {field} is {repr(content[field])[:60]}; expected is {expected}: "
                "fine-tune the model anew"
            )
    settings, labels = dict(content.pop("head")), tuple(content.pop("labels"))
    name = settings.pop("kind", None)
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(
            f"{path} names the kind of head {name!r}; expected one of {', '.join(KINDS)}: "
            "fine-tune the model anew"
        )
    # Its encoder would be opened, with a random projection behind it.
    if name == MultiVectorHead.kind and not is_multi_vector_folder(folder):
        raise ValueError(
            f"{folder} has a {TASK_FILE} and no {MODULES_FILE}, and so lacks the projection of "
            "tokens that was trained: fetch all files of the run"
        )
    try:
        return TaskDescription(head=KINDS[name].head(**settings, labels=labels), **content)
    except (TypeError, ValueError) as error:  # no such setting, or not this value
        raise ValueError(f"{path}, {name} head: {error}: fine-tune the model anew") from None


def describe_foreign(checkpoint: Checkpoint) -> TaskDescription | None:
    """Returns what `task.json` would say of a fine-tuned model of another library.

    Args:
        checkpoint: the model.

    Returns:
        A description without the name of a task; None where no kind has a model of this
        architecture.

    Raises:
        ValueError: the model reads texts in windows, and nothing tells how they were cut.
    """
    if checkpoint.architecture == BertDocumentClassifier.__name__:
        raise ValueError(
            f"the model is a {checkpoint.architecture} without {TASK_FILE}, which would tell how "
            "texts are cut in windows: fine-tune it with run_finetuning.py, or give --head=encoder "
            "for its encoder alone"
        )
    for kind in KINDS.values():
        if kind.architecture == checkpoint.architecture:
            length = checkpoint.config.max_position_embeddings
            return TaskDescription("", kind.head.of_foreign(checkpoint.head), {TEXT: TEXT}, length)
    return None
