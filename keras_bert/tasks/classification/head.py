"""One answer for a text or a pair of texts: a class, several classes at once, or a number."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import keras
import numpy as np
import tensorflow as tf

from keras_bert.choices import TokenPooling, WindowPoolingChoice, check_choice
from keras_bert.counts import check_count
from keras_bert.finetuning.collapse import chance_loss, one_answer
from keras_bert.finetuning.encoded_rows import EncodedRows, pack_texts
from keras_bert.finetuning.head import FinetuningHead, LogitsMeaning, foreign_labels, place_of
from keras_bert.finetuning.metrics import calibration_bins, confusion_matrix
from keras_bert.models import preset
from keras_bert.models.classifier import BertClassifier
from keras_bert.models.document_classifier import BertDocumentClassifier
from keras_bert.progress import Progress
from keras_bert.signatures.text_windows import TextWindows
from keras_bert.storage.tables import number_text
from keras_bert.storage.text_lines import check_strings
from keras_bert.tasks.classification.answer_table import (
    PREDICTED_VALUE,
    check_separable,
    label_columns,
    scored_row,
)
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR, BertPreprocessor
from keras_bert.training.losses import SmoothedCrossentropy

LabelType = Literal["class", "multi_label", "regression"]
_PROBLEM_TYPES = {
    "class": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
_LOGITS_ARE: Mapping[LabelType, LogitsMeaning] = {
    "class": "classes",
    "multi_label": "labels",
    "regression": "number",
}

# Windows of a text, where nothing is said.
_MAX_WINDOWS = 8
# Texts of a call of the tokenizer, where they are cut into windows.
_TEXTS_PER_CALL = 512
# Predictions of a regression that spread over less than this fraction of the labels' range are one.
_CONSTANT_FRACTION = 1e-3
# Where a pair stands in place of a text.
_OF_PAIRS = "; the second texts of pairs go in text_pairs"


@dataclasses.dataclass(frozen=True)
class LabeledTexts:
    """One split of texts, N examples.

    Attributes:
        texts: the (first) texts.
        text_pairs: the second texts, or None.
        labels: int32 [N] indices of classes, float32 [N, C] of zeros and ones for several labels,
            float32 [N] numbers; None where they are not known. Lists and other types of numbers
            become such arrays, whole numbers int32 [N] where all are such.

    Raises:
        ValueError: one string stands in place of a list, an example is no string, there are more or
            fewer second texts or labels than texts, or labels are not numbers.
    """

    texts: Sequence[str]
    text_pairs: Sequence[str] | None = None
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, one in (("texts", "text"), ("text_pairs", "second text")):
            given = getattr(self, name)
            if isinstance(given, str | bytes):  # else a text for each of its letters
                raise ValueError(f"{name} is the string {given[:60]!r}: give a list, also of one")
            if given is not None:
                object.__setattr__(self, name, check_strings(given, one, _OF_PAIRS))  # frozen
        if self.labels is not None:
            try:
                labels = np.asarray(self.labels)
            except ValueError:  # rows of different lengths
                labels = np.array(list(self.labels), object)
            if labels.size and labels.dtype.kind not in "biuf":
                raise ValueError(
                    f"the labels are {labels.dtype} such as {labels.flat[0]!r}: give indices of "
                    "classes, rows of zeros and ones, or numbers"
                )
            # As indices, also of two classes that are told by True and False. Rows are none, and
            # what int32 does not hold is a number that a regression learns.
            indices = labels.dtype.kind != "f" and labels.ndim != 2
            number = np.int32 if indices and _fit_int32(labels) else np.float32
            object.__setattr__(self, "labels", labels.astype(number, copy=False))  # frozen
        for name in ("text_pairs", "labels"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.texts):
                raise ValueError(
                    f"there are {len(self.texts):,} texts but {len(values):,} {name}: give one for "
                    "each text"
                )

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yields the texts of each example."""
        if self.text_pairs is None:
            return iter(zip(self.texts))
        return iter(zip(self.texts, self.text_pairs, strict=True))


@dataclasses.dataclass(frozen=True)
class TextHead(FinetuningHead):
    """Classification and regression (paper figure 4 a and b).

    Predictions are probabilities float32 [C], softmax for classes and sigmoid for several labels,
    or the number itself. A text has every label whose probability is above one half.

    Attributes:
        label_type: "class", "multi_label" or "regression".
        window_pooling: how a text longer than a row becomes one vector: "mean", "max" or
            "attention" over the vectors of its windows; None reads its beginning alone.
        doc_stride: by how many pieces the next window begins later; None takes half a window.
        max_windows: the most windows of a text, what lies behind is not read; None takes 8.
        pooling: "mean", "cls" or "max" of the vectors of the tokens, see `BertClassifier`; None
            takes what the model folder has that training starts from, mostly the pooled output.

    Raises:
        ValueError: the type of label or a pooling is unknown, a number is below 1, windows are
            described that nothing pools, or they are to be pooled and tokens, too.
    """

    kind: ClassVar[str] = "text"
    example_form: ClassVar[str] = "LabeledTexts(texts)"
    member_fields: ClassVar[tuple[str, ...]] = ("pooling",)

    label_type: LabelType = "class"
    window_pooling: WindowPoolingChoice | None = None
    doc_stride: int | None = None
    max_windows: int | None = None
    pooling: TokenPooling | None = None

    def __post_init__(self) -> None:
        check_choice("label_type", self.label_type, LabelType)
        for name in ("doc_stride", "max_windows"):
            value = getattr(self, name)
            if value is not None and self.window_pooling is None:
                raise ValueError(
                    f"{name} is {value}, but texts are read in one row each: give window_pooling, "
                    "too (mean, max or attention), or leave it out"
                )
            check_count(name, value)
        if self.pooling is not None:
            check_choice("pooling", self.pooling, TokenPooling)
            if self.window_pooling is not None:
                raise ValueError(
                    f"pooling is {self.pooling!r} and window_pooling {self.window_pooling!r}, but "
                    "windows are pooled from the pooled output of each: leave out one"
                )
        if self.window_pooling is not None:
            check_choice("window_pooling", self.window_pooling, WindowPoolingChoice)
            if self.max_windows is None:
                object.__setattr__(self, "max_windows", _MAX_WINDOWS)  # frozen

    @property
    def model_class(self) -> type:  # type: ignore[override]
        """The Keras model: of a row, or of windows."""
        return BertClassifier if self.window_pooling is None else BertDocumentClassifier

    @property
    def reads_pooler(self) -> bool:
        """Whether the model reads the encoder's pooled output: where it pools no tokens."""
        return self.pooling is None

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with the pooling of the folder, unless another is asked for."""
        if self.pooling is not None or self.window_pooling is not None:
            return self
        return dataclasses.replace(self, pooling=preset.read_head(folder).get("pooling"))

    def text_windows(self, max_seq_length: int) -> TextWindows | None:
        """Returns how texts are cut for rows of so many positions; None where they are not."""
        if self.window_pooling is None:
            return None
        return TextWindows(max_seq_length, self.doc_stride, self.max_windows)

    def row_settings(self, max_seq_length: int) -> dict[str, Any]:
        """Returns how windows are cut, a stride that is unset as its number; else nothing."""
        windows = self.text_windows(max_seq_length)
        if windows is None:
            return {}
        return {
            "max_seq_length": max_seq_length,
            "doc_stride": windows.stride,
            "max_windows": windows.max_windows,
        }

    def settings(self) -> dict[str, Any]:
        """Returns kind and fields for `task.json`, those of windows and pooling where there are."""
        settings = super().settings()
        if self.pooling is None:
            del settings["pooling"]
        if self.window_pooling is None:
            for name in ("window_pooling", "doc_stride", "max_windows"):
                del settings[name]
        return settings

    @property
    def logits_are(self) -> LogitsMeaning:
        """What the logits mean: classes, labels or a number."""
        return _LOGITS_ARE[self.label_type]

    def with_labels(self, labels: Sequence[str]) -> Self:
        """Returns the head for data with these classes.

        Raises:
            ValueError: there are fewer than two, and the head does not learn a number; or one of
                several labels has "|" in its name.
        """
        if self.label_type == "multi_label":
            check_separable(labels, "the data has")
        if self.label_type != "regression" and len(labels) < 2:
            raise ValueError(
                f"the data names the labels {list(labels)}, but classes are learned from at least "
                'two: name all in TaskData(labels=...), or take TextHead("regression") for numbers'
            )
        return super().with_labels(labels)

    def check_examples(self, examples: Any) -> None:
        """Refuses what is no `LabeledTexts`."""
        if not isinstance(examples, LabeledTexts):
            raise ValueError(f"examples is a {type(examples).__name__}: give {self.example_form}")

    def check_labels(self, examples: LabeledTexts, split: str) -> None:
        """Refuses what is no index of a class, no row of zeros and ones, or no finite number."""
        labels = np.asarray(examples.labels)
        classes = len(self.labels)
        if self.label_type == "multi_label":
            fits = labels.shape[1:] == (classes,)
            right = (labels == 0) | (labels == 1)
            allowed = f"give a row of {classes} zeros and ones, one for each name of a label"
        elif self.label_type == "regression":
            fits = labels.ndim == 1
            right = np.isfinite(labels)
            allowed = "give one finite number"
        else:
            fits = labels.ndim == 1 and labels.dtype.kind in "iu"
            right = (0 <= labels) & (labels < classes)
            allowed = f"give the index of a class, a whole number from 0 to {classes - 1}"
            if not fits:
                allowed += '; TextHead("multi_label") takes rows, TextHead("regression") numbers'
        if not len(labels) or (fits and right.all()):
            return
        number = 0 if right.all() else int(np.argwhere(~right)[0, 0])
        raise ValueError(
            f"{place_of(split, number)} has the label {labels[number].tolist()}: {allowed}"
        )

    @classmethod
    def of_foreign(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns a head for several labels, two classes or more, or a number."""
        labels, pooling = foreign_labels(arguments), arguments.get("pooling")
        if arguments.get("problem_type") == _PROBLEM_TYPES["multi_label"]:
            return cls("multi_label", labels=labels, pooling=pooling)
        if len(labels) > 1:
            return cls("class", labels=labels, pooling=pooling)
        return cls("regression", pooling=pooling)

    def model_arguments(self) -> dict[str, Any]:
        """Returns the number of logits, the names of the classes and what the logits mean."""
        arguments = {
            "num_classes": len(self.labels) or 1,
            "labels": list(self.labels) or None,
            "problem_type": _PROBLEM_TYPES[self.label_type],
        }
        if self.pooling is not None:
            return arguments | {"pooling": self.pooling}
        if self.window_pooling is None:
            return arguments
        return arguments | {"window_pooling": self.window_pooling}

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: LabeledTexts,
        max_seq_length: int,
        description: str,
    ) -> EncodedRows:
        """Tokenizes and packs; texts that are too long are cut as in pretraining, or in windows.

        Raises:
            ValueError: pairs of texts are to be read in windows.
        """
        windows = self.text_windows(max_seq_length)
        if windows is not None:
            return _in_windows(windows, tokenizer, examples, description)
        preprocessor = BertPreprocessor(tokenizer, max_seq_length, pad_to="longest")
        with Progress(len(examples), "text", description) as progress:
            ids, segments = pack_texts(
                preprocessor, examples.texts, examples.text_pairs, progress.update
            )
        targets = None if examples.labels is None else tf.constant(examples.labels)
        pad_id = tokenizer.vocabulary.pad_id
        return EncodedRows(ids, segments, pad_id, max_seq_length, targets)

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns cross-entropy or the mean squared error of the raw score.

        Raises:
            ValueError: labels of a regression cannot be smoothed.
        """
        if self.label_type == "regression":
            if label_smoothing:
                raise ValueError(
                    "a regression has no classes to smooth: leave out --label_smoothing"
                )
            return keras.losses.MeanSquaredError()
        if self.label_type == "multi_label":
            return keras.losses.BinaryCrossentropy(
                from_logits=True, label_smoothing=label_smoothing
            )
        return SmoothedCrossentropy(label_smoothing)

    def predictions(self, outputs: np.ndarray, encoded: EncodedRows, examples: Any) -> np.ndarray:
        """Turns logits [N, C] into probabilities [N, C], or a regression's into numbers [N]."""
        return self.postprocess(outputs).numpy()

    def postprocess(self, logits: Any) -> tf.Tensor:
        """The same in a graph."""
        if self.label_type == "regression":
            return tf.convert_to_tensor(logits)[:, 0]
        return tf.sigmoid(logits) if self.label_type == "multi_label" else tf.nn.softmax(logits)

    def references(self, examples: LabeledTexts) -> np.ndarray | None:
        """Returns the labels."""
        return examples.labels

    def collapse(self, predictions: np.ndarray, references: np.ndarray) -> str | None:
        """Names the one class, set of classes or number that is predicted for everything."""
        if self.label_type == "regression":
            spread = np.ptp(references)  # one row, or equal ones, say nothing
            constant = spread > 0 and np.ptp(predictions) <= _CONSTANT_FRACTION * spread
            return f"all predictions are about {predictions[0]:.4g}" if constant else None
        if self.label_type == "class":
            return one_answer(
                [self.labels[index] for index in predictions.argmax(axis=-1)], references.tolist()
            )
        rows = [*map(tuple, predictions > 0.5)]
        named = [label for label, has in zip(self.labels, rows[0], strict=True) if has]
        told = ", ".join(named) if named else "no label"
        return one_answer(rows, [*map(tuple, references > 0.5)], told)

    def confusion(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Counts the classes of a classification."""
        if self.label_type != "class":
            return None
        return confusion_matrix(references, predictions.argmax(axis=-1), len(self.labels))

    def calibration(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Compares the probability of the likeliest class with how often it is the right one."""
        if self.label_type != "class":
            return None
        right = predictions.argmax(axis=-1) == references
        return calibration_bins(predictions.max(axis=-1), right)

    def chance_loss(self, examples: LabeledTexts, label_smoothing: float = 0.0) -> float | None:
        """Returns the entropy of the labels, or the variance of the numbers."""
        known = examples.labels
        if known is None:
            return None
        if self.label_type == "regression":
            return float(np.var(known, dtype=np.float64))  # 0 where all are alike
        if self.label_type == "class":
            return chance_loss(np.bincount(known, minlength=len(self.labels)), label_smoothing)
        rates = known.mean(axis=0)
        # A smoothed target of one of two classes, for each label by itself.
        return float(np.mean([chance_loss([p, 1 - p], label_smoothing) for p in rates]))

    def class_indices(self, examples: LabeledTexts) -> np.ndarray | None:
        """Returns the labels of a classification."""
        return examples.labels if self.label_type == "class" else None

    def needs_segments(self, examples: LabeledTexts) -> bool:
        """Whether the examples are pairs."""
        return examples.text_pairs is not None

    def answer_columns(self) -> list[str]:
        """Returns `predicted_label` (or `predicted_labels`) and scores, or `predicted_value`."""
        if self.label_type == "regression":
            return [PREDICTED_VALUE]
        return label_columns(self.labels, self.label_type == "multi_label")

    def answer_rows(self, prediction: Any, example: Any) -> list[list[str]]:
        """Returns one row."""
        if self.label_type == "regression":
            return [[number_text(prediction)]]
        return [scored_row(self.labels, prediction, self.label_type == "multi_label")]

    def example_table(self, examples: LabeledTexts) -> tuple[list[str], list[list[str]]]:
        """Returns the texts."""
        return _text_names(examples), [list(texts) for texts in examples]

    def default_columns(self, examples: LabeledTexts) -> dict[str, str]:
        """Returns columns named as the texts are."""
        return {name: name for name in _text_names(examples)}


def _fit_int32(values: np.ndarray) -> bool:
    limits = np.iinfo(np.int32)
    return not values.size or bool(limits.min <= values.min() and values.max() <= limits.max)


def _in_windows(
    windows: TextWindows, tokenizer: Tokenizer, examples: LabeledTexts, description: str
) -> EncodedRows:
    """Makes the rows of texts, one for each window: [E, windows, pieces]."""
    if examples.text_pairs is not None:
        raise ValueError(
            "window_pooling is for single texts, and the data has pairs (text_pair): it cannot "
            "tell which of the two to cut; join them in one column, or leave out --window_pooling"
        )
    ids, segments, lengths = [], [], []
    with Progress(len(examples), "text", description) as progress:
        for start in range(0, len(examples), _TEXTS_PER_CALL):
            part = list(examples.texts[start : start + _TEXTS_PER_CALL])
            pieces = tokenizer(part)  # [texts, pieces]
            rows = windows.rows(pieces, tokenizer.vocabulary)  # [texts, windows, pieces] each
            ids.append(rows[0])
            segments.append(rows[1])
            lengths.append(pieces.row_lengths().numpy())
            progress.update(len(part))
    encoded = EncodedRows(
        tf.concat(ids, axis=0),
        tf.concat(segments, axis=0),
        tokenizer.vocabulary.pad_id,
        windows.max_seq_length,
        None if examples.labels is None else tf.constant(examples.labels),
        joint=True,
    )
    long = int(np.sum(np.concatenate(lengths) > windows.room))
    cut = int(np.sum(np.concatenate(lengths) > (windows.reach or np.inf)))
    encoded.remark = (
        f"{long:,} of {len(examples):,} texts take several windows, {cut:,} are cut behind "
        f"max_windows {windows.max_windows}"
    )
    return encoded


def _text_names(examples: LabeledTexts) -> list[str]:
    return [TEXT] if examples.text_pairs is None else [TEXT, TEXT_PAIR]
