"""Answers out of many texts: what a search found is read for the words that answer the query.

    query --search--> passages --read, each with the query--> a span of each --best first--> answers

This is how DrQA answers from all of Wikipedia (Chen et al. 2017). Spans of different passages are
compared by their logits, not by probabilities, which are of one passage, and by what the search
says of these (Yang et al. 2019, "End-to-End Open-Domain Question Answering with BERTserini").
"""

import math
import os
from collections.abc import Sequence
from typing import NamedTuple, Self

import tensorflow as tf

from keras_bert.counts import check_count, check_number
from keras_bert.retrieval.reranker import check_found
from keras_bert.retrieval.searched_texts import Hit
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.base import SignatureFamily
from keras_bert.signatures.length_batches import answers_of_pairs
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.question_answering.signatures import SpanSignatures


class PassageAnswer(NamedTuple):
    """An answer and where it stands.

    Attributes:
        text: the answer, as it stands in the passage.
        score: of a model that may say "no answer" how much its logits are above those of that; of
            another the sum of the logits of its start and end; and a part of the score of the
            search, if `read` was told so. It orders answers to one query and is no probability.
        start: its first character in the passage.
        end: the character behind its last one.
        passage: the text that was found, with its place among the texts that were searched and the
            score by which it was found.
    """

    text: str
    score: float
    start: int
    end: int
    passage: Hit


class ExtractiveReader:
    """Finds answers to queries in what a search found.

    Args:
        signatures: of a model of extractive question answering.

    Raises:
        ValueError: it is another model.

    Example:
        reader = ExtractiveReader.from_preset("runs/squad")
        queries = ["Who wrote the scheduler?"]
        for answer in reader.read(queries, index.search(queries))[0]:
            print(f"{answer.score:.1f} {answer.text}: {answer.passage.text}")
    """

    def __init__(self, signatures: SignatureFamily):
        if not isinstance(signatures, SpanSignatures):
            raise ValueError(
                "the model does not find answers in texts: give one of question answering, such as "
                "a run of --task=squad"
            )
        # Traced once for every N: float32 [N, 3].
        self._spans = tf.function(
            signatures.best_spans,
            input_signature=[tf.TensorSpec([None], tf.string)] * 2,
            autograph=False,
        )

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        max_seq_length: int | None = None,
        null_threshold: float | None = None,
    ) -> Self:
        """Opens a model of question answering.

        Args:
            folder: a run of --task=squad, a folder of another library with such a head, or
                `hf://org/name`.
            max_seq_length: the most positions of a row; None takes those of the training. Longer
                passages are read in windows.
            null_threshold: the null score above which a passage has no answer; None takes the one
                that was chosen in training, if the model was trained with unanswerable questions.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: it is another model, or a number is out of its range.
        """
        options = ExportOptions(max_seq_length=max_seq_length, null_threshold=null_threshold)
        return cls(open_signatures(folder, options))

    def read(
        self,
        queries: Sequence[str],
        found: Sequence[Sequence[Hit]],
        top_k: int | None = None,
        batch_size: int = 32,
        retrieval_weight: float = 0.0,
    ) -> list[list[PassageAnswer]]:
        """Returns the answer that each passage has to the query that found it, the best first.

        Passages that have none are left out.

        Args:
            queries: Q queries, questions as the model was trained on.
            found: what an index's `search`, or a `rerank`, returned for each.
            top_k: how many answers of each query stay; None keeps all.
            batch_size: pairs of query and passage of a call of the model; where passages are of
                many windows each, fewer take less memory.
            retrieval_weight: so many times the score of the search is added to that of an answer.
                Choose it on development data: scores of searches differ in size.

        Raises:
            ValueError: the queries are one string, there are more or fewer of them than lists, what
                was found is no list of hits, or a number is below 1.
        """
        check_count("top_k", top_k)
        if not math.isfinite(check_number("retrieval_weight", retrieval_weight)):
            raise ValueError(f"retrieval_weight is {retrieval_weight}: it must be a number")
        queries, found = check_found(queries, found)
        pairs = [
            (query, hit.text) for query, hits in zip(queries, found, strict=True) for hit in hits
        ]
        spans = iter(answers_of_pairs(self._spans, pairs, batch_size, "reading", (3,)).tolist())
        answers = []
        for hits in found:
            of_query = []
            for hit in hits:
                score, start, end = next(spans)
                if end > start:
                    score += retrieval_weight * hit.score
                    text = hit.text[int(start) : int(end)]
                    of_query.append(PassageAnswer(text, score, int(start), int(end), hit))
            # Equal ones stay in the order of the search.
            answers.append(sorted(of_query, key=lambda answer: -answer.score)[:top_k])
        return answers
