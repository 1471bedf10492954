"""Texts classified by labels that nobody trained for, by a model of natural language inference.

    texts [N], labels [L] --a hypothesis for each label--> pairs [N L] --model--> scores [N, L]

`tasks/classification/entailment.py` says which classes count and what becomes of their logits; the
signature `serve_zero_shot` shares all of it.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_bert.counts import check_switch
from keras_bert.finetuning.prediction_table import write_answers
from keras_bert.serving.served_folder import open_pair_signatures
from keras_bert.signatures.base import SignatureFamily
from keras_bert.signatures.hypotheses import DEFAULT_TEMPLATE, around_label, check_template
from keras_bert.signatures.length_batches import answers_of_pairs
from keras_bert.storage.text_lines import check_distinct_labels, check_strings
from keras_bert.tasks.classification.entailment import INFERENCE_MODEL, label_scores
from keras_bert.tasks.classification.signatures import TextSignatures
from keras_bert.tasks.named_labels import TO_CLASSIFY, CandidateLabels


@dataclasses.dataclass(frozen=True)
class ZeroShotResult:
    """Scores of labels for N texts.

    Attributes:
        labels: L labels, in the order they were given.
        scores: float32 [N, L], probabilities. Where one label is right those of a text sum to 1,
            where several may be each stands by itself.
    """

    labels: tuple[str, ...]
    scores: np.ndarray

    @property
    def best_labels(self) -> list[str]:
        """The label of each text with the highest score; of equal ones the first."""
        return [self.labels[place] for place in self.scores.argmax(axis=1)]

    def likely_labels(self, threshold: float = 0.5) -> list[list[str]]:
        """Returns the labels of each text whose scores are above a threshold."""
        return [
            [label for label, score in zip(self.labels, scores, strict=True) if score > threshold]
            for scores in self.scores
        ]


class ZeroShotClassifier:
    """Classifies texts by labels that are named with the texts.

    A model of natural language inference tells whether a text entails the sentence "This example is
    sport."; its entailment is the score of the label "sport" (Yin et al. 2019,
    https://arxiv.org/abs/1909.00161). Scores are those of Hugging Face's pipeline
    "zero-shot-classification".

    Args:
        signatures: of such a model.

    Raises:
        ValueError: it is another model, its labels do not tell which is entailment, or it is an
            ensemble.

    Example:
        classifier = ZeroShotClassifier.from_preset("runs/mnli")
        result = classifier.classify(["The match ended 2:1."], ["sport", "politics"])
        print(result.best_labels, result.scores)
    """

    def __init__(self, signatures: SignatureFamily):
        if isinstance(signatures, SignatureFamily) and len(signatures.members) > 1:
            raise ValueError("labels are not scored by an ensemble: give one of its models")
        if not isinstance(signatures, TextSignatures) or not signatures.knows_inference:
            labels = ", ".join(getattr(signatures, "labels", ()))[:200]
            raise ValueError(
                f"the model has {f'the labels {labels}' if labels else 'no labels'}, but "
                f"classification without training asks {INFERENCE_MODEL}: give such a one, for "
                "example a run of --task=mnli; a config.json without names of labels wants them in "
                "its id2label"
            )
        self._signatures = signatures
        # Traced once for every R: float32 [R, 2].
        self._logits = tf.function(
            lambda texts, said: signatures.inference_logits(texts, said, tf.range(tf.size(texts))),
            input_signature=[tf.TensorSpec([None], tf.string)] * 2,
            autograph=False,
        )

    @classmethod
    def from_preset(cls, folder: str | os.PathLike, max_seq_length: int | None = None) -> Self:
        """Opens a model of natural language inference.

        Args:
            folder: a run of run_finetuning.py on pairs of texts, a folder of another library, or
                `hf://org/name`. One of its labels begins with "entail", in any case. Of two labels
                the other one is its opposite, of three and more the one that begins with
                "contradict".
            max_seq_length: the most positions of a row; None takes those of the training, of
                another library's model what its tokenizer states, else all. Of a longer pair the
                text is cut, never the hypothesis.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: it is another model, or the length is longer than the model.
        """
        return cls(open_pair_signatures(folder, max_seq_length))

    def classify(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        hypothesis_template: str = DEFAULT_TEMPLATE,
        multi_label: bool = False,
        batch_size: int = 64,
    ) -> ZeroShotResult:
        """Scores each label for each text; each pair of both is a row of the model.

        Args:
            texts: N texts.
            labels: L labels, as they are to stand in the sentence.
            hypothesis_template: a sentence that says of a text that it has a label, which stands
                for its {}.
            multi_label: False: one of the labels is right, and scores are a softmax of entailment
                over them. True: any number of them may be, and each score is a softmax of
                contradiction and entailment. A single label has the second score always.
            batch_size: pairs of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, a text or a label is none, there
                are no labels, one is blank, named twice or so long that its hypothesis leaves no
                room for a text, the template has not one {}, `multi_label` is neither True nor
                False, the batch size is below 1, or what the model says is not finite.
        """
        texts = check_strings(texts)
        labels = check_distinct_labels(labels, TO_CLASSIFY)
        check_switch("multi_label", multi_label)
        said = self._hypotheses(labels, check_template(hypothesis_template))
        pairs = [(text, hypothesis) for text in texts for hypothesis in said]
        logits = answers_of_pairs(self._logits, pairs, batch_size, "classifying", (2,))
        # [N L, 2] -> [N, L, 2] -> [N, L] twice
        logits = logits.reshape([len(texts), len(labels), 2])
        together, each = label_scores(tf.constant(logits), tf.ones(logits.shape[:2], tf.bool))
        return ZeroShotResult(labels, (each if multi_label else together).numpy())

    def _hypotheses(self, labels: Sequence[str], template: str) -> list[str]:
        """Returns the sentence of each label; refuses one that leaves no room for a text."""
        before, after = around_label(template)
        said = [before + label + after for label in labels]
        room = self._signatures.pair_room
        lengths = self._signatures.tokenizer(said).row_lengths().numpy()
        for label, length in zip(labels, lengths, strict=True):
            if length >= room:
                raise ValueError(
                    f"the hypothesis of the label {label[:60]!r} has {length} pieces, and a row of "
                    f"{self._signatures.max_seq_length} positions has room for {room}, with one of "
                    "the text: give a shorter label or template, or a larger max_seq_length"
                )
        return said


def classify_file(
    model_dir: str | os.PathLike,
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    labels: Sequence[str],
    hypothesis_template: str = DEFAULT_TEMPLATE,
    multi_label: bool = False,
    batch_size: int = 32,
) -> int:
    """Writes a CSV of the input's columns and what `ZeroShotClassifier` says of their texts.

    The columns are those of `predict_file` for a classifier of these labels: `predicted_label`, or
    `predicted_labels` with those above one half, and `score_<label>`.

    Args:
        model_dir: see `ZeroShotClassifier.from_preset`.
        input_path: a table with the column `text`, or a .txt with a text a line.
        output_path: the CSV to write.
        labels: see `ZeroShotClassifier.classify`.
        hypothesis_template: see there.
        multi_label: see there.
        batch_size: pairs of a text and a label in a call of the model.

    Returns:
        The number of texts.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the input has no such column, or one that the output adds; there is one label,
            and it is not one of several; or see `ZeroShotClassifier`.
    """
    # What can be refused is refused before the model is opened.
    check_template(hypothesis_template)
    named = CandidateLabels(labels, multi_label)
    table, texts = named.read(input_path, output_path)
    classifier = ZeroShotClassifier.from_preset(model_dir)
    result = classifier.classify(texts, named.labels, hypothesis_template, multi_label, batch_size)
    columns = [*table.columns, *named.columns]
    write_answers(
        output_path, columns, map(table.fields, table.rows), map(named.rows, result.scores)
    )
    return len(texts)
