"""Which words made this answer: in a notebook, as a page, as numbers."""

import os
from collections.abc import Collection
from typing import Any

import numpy as np

from keras_bert.checkpoints.model_classes import WORD_PREDICTORS
from keras_bert.finetuning.task import TASK_FILE
from keras_bert.models import preset
from keras_bert.models.document_classifier import BertDocumentClassifier
from keras_bert.models.embedders.multi_vector_embedder import BertMultiVectorEmbedder
from keras_bert.models.embedders.sentence_embedder import BertSentenceEmbedder
from keras_bert.models.embedders.sparse_embedder import BertSparseEmbedder
from keras_bert.models.embedders.static_embedder import StaticEmbedder
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.seq2seq.encoder_decoder import BertEncoderDecoder
from keras_bert.models.task_model import TaskModel
from keras_bert.storage import hub
from keras_bert.storage.paths import short_name
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.kinds import describe_foreign
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.vocabulary import MASK
from keras_bert.visualize import html_page
from keras_bert.visualize.attributions import page
from keras_bert.visualize.attributions.integrated_gradients import (
    Attribution,
    IntegratedGradients,
)
from keras_bert.visualize.attributions.targets import Question, find_target, model_inputs, pick
from keras_bert.visualize.model_input import ModelInput, Token, read_texts

# Of a page in a notebook, in pixels.
_FRAME_HEIGHT = 520


class AttributionView:
    """What the words of a text contribute to an answer; a notebook shows it as a page.

    Attributes:
        model_name: name of the model.
        target: the name of what is explained.
        tokens: S tokens: [CLS], the pieces of the text, [SEP] (and the same of a second text).
        words: W words of these tokens, as they stand in the text.
        scores: float32 [S]: what each token adds to the logit.
        word_scores: float32 [W]: the same of whole words.
        logit: that of the text.
        baseline_logit: that of the baseline.
        baseline: the piece that stands for all others there.
        error: how far the sum of the scores is from `logit - baseline_logit`, in parts of it.
        points: at how many points between baseline and text gradients were taken.
        cut_pieces: how many pieces of the text the model does not read.
    """

    def __init__(self, name: str, target: str, read: ModelInput, found: Attribution, baseline: str):
        self.model_name = name
        self.target = target
        self.baseline = baseline
        self.tokens: tuple[Token, ...] = read.tokens
        self.words: tuple[str, ...] = read.words
        self.cut_pieces = read.cut_pieces
        self.scores: np.ndarray = found.scores
        words = np.array([token.word for token in read.tokens])
        sums = np.bincount(words, weights=found.scores, minlength=len(read.words))
        self.word_scores: np.ndarray = sums.astype(np.float32)
        self.logit = found.logit
        self.baseline_logit = found.baseline_logit
        self.error = found.error
        self.points = found.points

    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file, no script and no network."""
        return page.attribution_page(self)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page, whole or not at all.

        Args:
            path: the .html to write; its folder is created when missing.

        Raises:
            ValueError: the name ends otherwise.
        """
        html_page.save(path, self.html())

    def as_dict(self) -> dict[str, Any]:
        """Returns the numbers as JSON holds them: target, logits, error, words with scores."""
        return {
            "target": self.target,
            "logit": self.logit,
            "baseline": self.baseline,
            "baseline_logit": self.baseline_logit,
            "error": self.error,
            "cut_pieces": self.cut_pieces,
            "words": [
                [word, float(score)]
                for word, score in zip(self.words, self.word_scores, strict=True)
            ],
        }

    def _repr_html_(self) -> str:
        return html_page.frame(self.html(), "Attributions", _FRAME_HEIGHT)

    def __repr__(self) -> str:
        return f"AttributionView({self.target!r}, {len(self.words)} words)"


class Explainer:
    """Explains answers of one model.

    Args:
        model: a model folder of any format, a `FinetunedModel`, or a model with a head.
        tokenizer: that of a model that is given as an object; a folder brings its own.
        ignore_config_keys: unknown keys of a folder's config to pass over.

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: it is no model with a head, or one of long texts or text to text, there is no
            tokenizer, or its vocabulary is another's.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer | None = None,
        ignore_config_keys: Collection[str] = (),
    ):
        self.name = type(model).__name__
        self._length: int | None = None
        self._query_length: int | None = None
        self._takes_pairs: bool | None = None
        labels: tuple[str, ...] = ()
        if isinstance(model, str | os.PathLike):
            # "mini/preset" of a folder "runs/mini/preset": the last name alone may say nothing.
            self.name = short_name(model)
            model, own = _open_folder(model, ignore_config_keys)
            tokenizer = tokenizer or own
        if isinstance(model, FinetunedModel):
            tokenizer = tokenizer or model.tokenizer
            self._length, labels = model.description.max_seq_length, model.description.labels
            head = model.description.head
            if isinstance(head, SpanHead):
                self._query_length = head.max_query_length
            # Folders of other libraries do not tell what a classifier reads.
            if isinstance(head, TextHead) and model.description.task:
                self._takes_pairs = model.description.takes_pairs
            model = model.model
        if not isinstance(model, TaskModel):
            raise ValueError(
                f"the model is a {type(model).__name__}, which gives no answer that could be "
                "explained: give a fine-tuned model, or a masked language model"
            )
        check_explained(type(model))
        if tokenizer is None:
            raise ValueError(
                f"there is no tokenizer for the {type(model).__name__}: give tokenizer=, for "
                "example load_tokenizer of the folder it came from"
            )
        tokenizer.vocabulary.check_size(model.config.vocab_size)
        model = _plain(model)
        if isinstance(model, BertMaskedLM):
            # "[MASK]" in a text must stay one token: it is what the model is asked about.
            tokenizer = tokenizer.with_settings(keep_special_tokens=True)
        if not labels and hasattr(model, "num_classes"):
            numbers = tuple(str(index) for index in range(model.num_classes))
            labels = tuple(getattr(model, "labels", None) or numbers)
        self._model, self._tokenizer, self._labels = model, tokenizer, labels
        self._integrate = IntegratedGradients(model, pick)

    def read(self, text: str, text_pair: str | None = None) -> ModelInput:
        """Returns what the model reads of a text or a pair of texts.

        Raises:
            ValueError: it was trained on pairs and there is one text, or the other way round.
        """
        if self._takes_pairs is not None and self._takes_pairs != (text_pair is not None):
            trained, remedy = (
                ("pairs of texts", "give text_pair, too")
                if self._takes_pairs
                else ("single texts", "leave text_pair out")
            )
            raise ValueError(f"the model was trained on {trained}: {remedy}")
        return read_texts(
            self._tokenizer, self._model.config, text, text_pair, self._length, self._query_length
        )

    def __call__(
        self,
        text: str,
        text_pair: str | None = None,
        target: str | int | tuple[int, int] | None = None,
        position: str | int | None = None,
        baseline: str = "[MASK]",
        tolerance: float = 0.005,
        max_points: int = 1024,
    ) -> AttributionView:
        """Returns what each word contributes; see `show_attributions`."""
        vocabulary = self._tokenizer.vocabulary
        special = vocabulary.special_tokens
        if baseline == MASK:
            baseline = special.mask  # as the model's family spells it
        if baseline not in vocabulary:
            raise ValueError(
                f"baseline is {baseline!r}, which is no piece of the vocabulary: give "
                f"{special.mask}, {special.pad} or {special.unk}"
            )
        read = self.read(text, text_pair)
        inputs = model_inputs(self._model, read, position)
        outputs = self._model(inputs, training=False)
        question = Question(target, position, self._labels)
        chosen = find_target(self._model, outputs, read, question, vocabulary)
        found = self._integrate(
            inputs,
            chosen.indices,
            np.array([token.is_special for token in read.tokens]),
            vocabulary.id_of(baseline),
            tolerance,
            max_points,
        )
        return AttributionView(self.name, chosen.name, read, found, baseline)


def check_explained(model_class: type) -> None:
    """Refuses models whose answers no words are named for.

    Raises:
        ValueError: it pools windows, writes texts, scores spans against labels, or gives vectors.
    """
    if issubclass(model_class, BertDocumentClassifier):
        raise ValueError(
            "the model pools windows of long texts, whose words cannot be explained: fine-tune "
            "one without --window_pooling, or explain the encoder's attention"
        )
    if issubclass(model_class, BertEncoderDecoder):
        raise ValueError(
            "the model writes texts: which words made them is not explained, only answers of "
            "classifiers, taggers, multiple choice and question answering are; give such a "
            "model, or predict without --explain"
        )
    if issubclass(model_class, BertEntityMatcher):
        raise ValueError(
            "the model scores spans against labels: which words made a score is not explained; "
            "give a classifier, a tagger, multiple choice or a model that answers questions, or "
            "predict without --explain"
        )
    embedders = BertSentenceEmbedder | BertSparseEmbedder | BertMultiVectorEmbedder | StaticEmbedder
    if issubclass(model_class, embedders):
        raise ValueError(
            f"the model is a {model_class.__name__}, which gives vectors, no answer that could be "
            "explained: give a model that was fine-tuned to give one, or predict without --explain"
        )


def _open_folder(folder: Any, ignore_config_keys: Collection[str]) -> tuple[Any, Tokenizer]:
    """Returns the model of a folder, a `FinetunedModel` where it is one, and its tokenizer."""
    folder = hub.local_folder(folder)
    if (folder / TASK_FILE).is_file():
        finetuned = FinetunedModel.load(folder)  # ours: its config has no unknown keys
        return finetuned, finetuned.tokenizer
    checkpoint = preset.read_checkpoint(folder, ignore_config_keys)
    arguments = {"dtype": "float32"}
    if (foreign := describe_foreign(checkpoint)) is not None:
        model = preset.from_checkpoint(foreign.head.model_class, checkpoint, arguments)
        tokenizer = load_tokenizer(folder)
        return FinetunedModel(model, tokenizer, foreign), tokenizer
    if checkpoint.architecture not in WORD_PREDICTORS:
        raise ValueError(
            f"{folder} holds a {checkpoint.architecture}, which gives no answer that could be "
            "explained: give a fine-tuned model, or a masked language model"
        )
    model = preset.from_checkpoint(BertMaskedLM, checkpoint, arguments)
    return model, load_tokenizer(folder)


def _plain(model: TaskModel) -> TaskModel:
    """Returns a model of one text a row, in float32, with a head that has an answer."""
    is_pretrainer = isinstance(model, BertPretrainer)
    in_float32 = model.encoder.policy.compute_dtype == "float32"
    if in_float32 and not model.encoder.packed and not is_pretrainer:
        return model
    arguments: dict[str, Any] = {} if is_pretrainer else model.get_config()
    arguments |= {"config": model.config, "dtype": "float32"}
    if "packed" in arguments:
        arguments["packed"] = False
    copy = (BertMaskedLM if is_pretrainer else type(model)).from_config(arguments)
    weights = {weight.path: weight for weight in model.weights}
    for weight in copy.weights:
        weight.assign(weights[weight.path])
    return copy


def show_attributions(
    model: Any,
    text: str,
    text_pair: str | None = None,
    *,
    target: str | int | tuple[int, int] | None = None,
    position: str | int | None = None,
    baseline: str = "[MASK]",
    tolerance: float = 0.005,
    max_points: int = 1024,
    tokenizer: Tokenizer | None = None,
    ignore_config_keys: Collection[str] = (),
) -> AttributionView:
    """Shows which words made an answer, by integrated gradients (Sundararajan et al. 2017).

    The scores of all words together are the difference between the logit of the text and that of a
    baseline without words, in which `baseline` stands for every piece.

    Args:
        model: a model folder of any format, a `FinetunedModel`, or a model with a head (class,
            tags, span, choice, masked word). One that is not float32 is copied in float32.
        text: the text; of models for questions the question, of multiple choice the context.
        text_pair: the second text of a pair; the context of a question, or a choice.
        target: what is explained: a label or its index; an answer that stands in the context, or
            the code points where it begins and ends there; a piece for [MASK]. None takes the
            likeliest (of answers those of up to 30 pieces).
        position: of a tagger, the word (or its index among `words`); of a masked language model,
            which [MASK], from 0. None takes the entity that the model is surest of, or the first.
        baseline: [MASK], which a pretrained model knows as "some piece"; or [PAD], [UNK].
        tolerance: the error of the sum above which more points are taken.
        max_points: the most points, at least 16; an error that is left is told.
        tokenizer: that of a model that is given as an object; a folder brings its own.
        ignore_config_keys: unknown keys of a folder's config to pass over.

    Returns:
        A view, which a notebook displays; `save` writes the page, `as_dict` gives the numbers.

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: the model has no head, there is no tokenizer, or there is no such target.

    Example:
        view = show_attributions("runs/reviews", "Stale crackers, and the box was open.")
        view.save("attributions.html")
    """
    explain = Explainer(model, tokenizer, ignore_config_keys)
    return explain(text, text_pair, target, position, baseline, tolerance, max_points)
