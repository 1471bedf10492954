"""Scores of pairs by a model that reads both texts together, to order what a search found.

    queries, texts [N] --tokenize as pairs--> rows --encoder, classifier--> scores [N]

It sees which word of the query meets which of the text (Nogueira and Cho 2019). But it reads each
pair anew, so it is asked about what a search by vectors has found, not about all texts.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints import sentence_prompts
from keras_bert.finetuning.task import TASK_FILE
from keras_bert.retrieval.reranker import Reranker
from keras_bert.serving.served_folder import open_pair_signatures
from keras_bert.signatures.length_batches import answers_of_pairs
from keras_bert.storage import hub
from keras_bert.tasks.classification.signatures import TextSignatures
from keras_bert.tasks.multiple_choice.signatures import ChoiceSignatures

# Names of the second of two classes, in lower case, that say that a text answers.
_YES = {"yes", "true", "relevant", "entailment"}
# And those that say so beside another alone: of 1 and 2, who knows?
_NO_AND_YES = {("0", "1"), ("-1", "1"), ("label_0", "label_1")}


class CrossEncoder(Reranker):
    """Scores how well a text answers a query, as `CrossEncoder` of sentence-transformers does.

    Args:
        signatures: of a model that says one thing of a pair of texts.
        label: of two classes the one of texts that answer; None takes the second of 0 and 1, "no"
            and "yes" and the like, and "x" of "x" and "not_x".
        prompt: stands before every query.

    Raises:
        ValueError: it takes one text, has several labels or more than two classes, is an ensemble,
            or nothing tells which of two classes answers.

    Example:
        cross_encoder = CrossEncoder.from_preset("hf://cross-encoder/ms-marco-MiniLM-L6-v2")
        found = index.search(["How do I lock a mutex?"], top_k=50)
        found = cross_encoder.rerank(["How do I lock a mutex?"], found, top_k=10)
    """

    def __init__(
        self,
        signatures: TextSignatures | ChoiceSignatures,
        label: str | None = None,
        prompt: str = "",
    ):
        if len(signatures.members) > 1:
            raise ValueError("an ensemble does not score pairs: give one of its models")
        score: Callable[..., tf.Tensor] = signatures.pair_scores
        if isinstance(signatures, TextSignatures):
            if not signatures.scores_pairs:
                raise ValueError(
                    "the model takes one text, has several labels, or more than two classes: give "
                    "one that was trained on pairs, for a number, two classes or the right choice "
                    "(--task=reranking)"
                )
            if signatures.labels:
                answering = _answering(signatures.labels, label)
                score, label = functools.partial(signatures.pair_scores, label=answering), None
        if label is not None:
            raise ValueError(f"label is {label!r}, but the model has no classes: leave it out")
        self._prompt = prompt
        # Traced once for every N.
        self._scores = tf.function(
            score,
            input_signature=[tf.TensorSpec([None], tf.string)] * 2,
            autograph=False,
        )

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        max_seq_length: int | None = None,
        label: str | None = None,
    ) -> Self:
        """Opens a run of `--task=reranking`, another model of pairs, or one of another library.

        Args:
            folder: the folder, or `hf://org/name`. It holds a model of multiple choice, or of pairs
                of texts that learned a number or two classes; cross-encoders of
                sentence-transformers have one label. A default prompt of theirs stands before every
                query, as there.
            max_seq_length: the most positions of a row; None takes those of the training, of
                another library's model what its tokenizer states, else all. Of a longer pair the
                longer text is cut.
            label: of two classes the one of texts that answer; see the class.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: the model says nothing of pairs, or not one thing, or its prompts are
                damaged.
        """
        folder = hub.local_folder(folder)
        is_ours = (folder / TASK_FILE).is_file()
        prompt = "" if is_ours else sentence_prompts.read(folder).default
        signatures = open_pair_signatures(folder, max_seq_length)
        if not isinstance(signatures, TextSignatures | ChoiceSignatures):
            raise ValueError(
                f"{folder} does not score pairs of texts: give a model that was trained on them, "
                "such as a run of --task=reranking"
            )
        return cls(signatures, label, prompt)

    def scores(
        self, queries: Sequence[str], texts: Sequence[str], batch_size: int = 64
    ) -> np.ndarray:
        """Returns how well each text answers the query beside it, float32 [N]; higher is better.

        What scores mean depends on the training: logits of the answer, the number that was learned,
        or the log-odds of the class that answers.

        Args:
            queries: N queries; one that has several texts is repeated.
            texts: N texts.
            batch_size: pairs of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, one of the texts is none, there are
                more queries than texts or fewer, the batch size is below 1, or a score is not
                finite.
        """
        queries, texts = self._pairs(queries, texts)
        pairs = [(self._prompt + query, text) for query, text in zip(queries, texts, strict=True)]
        return answers_of_pairs(self._scores, pairs, batch_size, "scoring")


def _answering(labels: Sequence[str], label: str | None) -> str:
    """Returns which of two classes is that of texts that answer.

    Raises:
        ValueError: there is no such class, or their names do not tell.
    """
    if label is not None:
        if label not in labels:
            raise ValueError(f"label is {label!r}: the classes are {' and '.join(labels)}")
        return label
    yes = [
        one
        for one, other in (labels, reversed(labels))
        if one.lower() in _YES
        or (other.lower(), one.lower()) in _NO_AND_YES
        or other.lower() == f"not_{one.lower()}"
    ]
    if len(yes) != 1:
        raise ValueError(
            f"the classes are {' and '.join(labels)}: name the one of texts that answer, label=..."
        )
    return yes[0]
