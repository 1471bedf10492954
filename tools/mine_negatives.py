r"""Adds wrong answers to pairs of texts and answers: passages that a search finds near the text.

The model makes dense vectors, sparse ones (--task=sparse_retrieval) or one for each token
(--task=multi_vector_retrieval), or with --m3_weights all three (BGE-M3); --init_from=bm25 searches
by words (BM25), without a model.

    python tools/mine_negatives.py --init_from=runs/search --input=manual/train.csv \
        --output=mined/train.csv

--input is a table (.csv, .tsv or .jsonl) with the columns "text" and "positive", as
--task=retrieval reads it. Searched are its positives, its negatives where it has some, and the
texts of --passages: a text a line (.txt), a JSON object with "text" a line (.jsonl), or a table
with a column "text".
--output is a table (.csv) with the columns of text and positive, and "negative0", "negative1" and
so on, of which the last ones may be empty: first the negatives of the row itself but for those that
answer its text, then what is found. Rows without any are left out, as --task=reranking wants one in
each; --task=retrieval takes them, too: --keep_all. Files to measure by want what the search really
finds, also where it is nearer than the answer, and many of them: --relative_margin=-1
--negatives=20.
--score_with adds what a cross-encoder, a ColBERT model or a BGE-M3 (whose three scores count as
--score_weights says) makes of the text with each, in columns "positive_score", "negative0_score"
and so on, from which --task=retrieval learns as from a teacher.
"""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import TokenPooling

if TYPE_CHECKING:
    from keras_bert.retrieval.reranker import Reranker

_SETTINGS = ("pooling", "max_active_dims", "max_seq_length", "query_prompt", "document_prompt")

flags.DEFINE_string(
    "init_from", None, "Model folder; one that was trained for similarity. Or bm25: words alone."
)
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "Table of texts and their answers: .csv, .tsv or .jsonl.")
flags.DEFINE_string("passages", None, "File of more texts that are searched.")
flags.DEFINE_string("output", None, "Table to write: .csv.")
flags.DEFINE_string("text_column", "text", "Column of the texts that are searched for.")
flags.DEFINE_string("positive_column", "positive", "Column of their answers.")
flags.DEFINE_integer("negatives", 4, "Wrong answers of a row, at most.", lower_bound=1)
flags.DEFINE_integer("skip", 0, "How many of the nearest are left out.", lower_bound=0)
flags.DEFINE_float(
    "relative_margin",
    0.05,
    "Left out is what is nearer than the answer's cosine less this part; below 0 nothing is.",
    upper_bound=0.99,
)
flags.DEFINE_integer("depth", 100, "Nearest texts that are looked at.", lower_bound=1)
flags.DEFINE_bool("keep_all", False, "Whether rows stay for which nothing is found.")
flags.DEFINE_enum(
    "pooling",
    None,
    get_args(TokenPooling),
    "How vectors of pieces become one; unset: as the model folder says.",
)
flags.DEFINE_integer(
    "max_active_dims", None, "Keep so many weights of a sparse vector, the largest.", lower_bound=1
)
flags.DEFINE_integer("max_seq_length", None, "Most pieces of a text; unset: as the folder says.")
flags.DEFINE_list(
    "m3_weights",
    None,
    "Of a BGE-M3: weights of dense vectors, words and tokens, as 0.4,0.2,0.4; unset: dense alone.",
)
flags.DEFINE_string(
    "query_prompt", None, "Stands before each text that searches; unset: as the folder says."
)
flags.DEFINE_string(
    "document_prompt", None, "Stands before each text to be found; unset: as the folder says."
)
flags.DEFINE_string(
    "score_with", None, "Cross-encoder, ColBERT model or BGE-M3 whose scores are added."
)
flags.DEFINE_list(
    "score_weights", None, "Of a BGE-M3 that scores: as --m3_weights; unset: all count alike."
)
flags.DEFINE_string(
    "score_label", None, "Of its two classes that of texts that answer; unset: its name tells."
)
flags.DEFINE_integer("batch_size", 64, "Texts per call of the model.", lower_bound=1)
flags.mark_flags_as_required(["init_from", "input", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, searches and writes the table."""
    from keras_bert import mine_negatives
    from keras_bert.retrieval.hard_negatives import check_mining
    from keras_bert.retrieval.kinds import open_reranker, search_classes
    from keras_bert.retrieval.m3_encoder import checked_weights
    from keras_bert.storage.files import atomic_file
    from keras_bert.storage.paths import check_output
    from keras_bert.storage.tables import read_table
    from keras_bert.storage.text_lines import read_texts
    from keras_bert.tasks.sentence_embedding.embedding_files import NEGATIVE, SCORE, answered_texts

    values = flags.FLAGS
    settings = {name: values[name].value for name in _SETTINGS if values[name].value is not None}
    m3_weights, score_weights = map(command_line.number_list, ("m3_weights", "score_weights"))
    if m3_weights is not None:
        settings["m3_weights"] = checked_weights(m3_weights)
    command_line.check_companions("score_with", "score_label", "score_weights")
    check_output(values.output, *filter(None, (values.input, values.passages)))
    if Path(values.output).suffix != ".csv":
        raise ValueError(f"--output={values.output} does not end in .csv: rename it")
    numbers = (values.negatives, values.skip, values.relative_margin, values.depth)
    check_mining(*numbers)  # before the texts are encoded
    rows = answered_texts(
        read_table(Path(values.input)), values.text_column, values.positive_column
    )
    open_encoder, index_class = search_classes(values.init_from, settings)
    passages = {passage: None for _, *several in rows for passage in several}
    if values.passages:
        passages.update(dict.fromkeys(filter(str.strip, read_texts(values.passages))))
    teacher = None
    if values.score_with:
        teacher = open_reranker(values.score_with, values.score_label, score_weights)
    encoder = open_encoder(values.init_from, **settings)
    index = index_class.build(encoder, [*passages], values.batch_size)
    texts, positives = ([row[place] for row in rows] for place in (0, 1))
    found = mine_negatives(index, texts, positives, *numbers)
    # Those that stand there already go first, without what answers the text here or in another row.
    right = {*zip(texts, positives, strict=True)}
    wrong_of = [
        [one for one in dict.fromkeys([*own, *mined]) if (text, one) not in right]
        for (text, _, *own), mined in zip(rows, found, strict=True)
    ]
    wrong_of = [
        wrong[: max(values.negatives, len(row) - 2)]
        for wrong, row in zip(wrong_of, rows, strict=True)
    ]
    if not any(wrong_of) and not values.keep_all:
        raise ValueError(
            f"nothing was found for {len(rows):,} rows among {len(index):,} texts: give more with "
            "--passages, or a smaller --relative_margin"
        )
    kept = [
        (text, [positive, *wrong])
        for text, positive, wrong in zip(texts, positives, wrong_of, strict=True)
        if wrong or values.keep_all
    ]
    scores: list[list[str]] = [[] for _ in kept]
    if teacher:
        kept, scores = _scored(teacher, kept, values.batch_size)
    most = max([values.negatives, *map(len, wrong_of)])
    names = [values.positive_column, *(f"{NEGATIVE}{number}" for number in range(most))]
    of_scores = [f"{name}_{SCORE}" for name in names] if teacher else []
    with atomic_file(values.output) as path, open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [values.text_column, *names, *of_scores])
        writer.writeheader()
        for (text, answers), of_row in zip(kept, scores, strict=True):
            # Rows with fewer wrong answers end empty.
            row = dict(zip(names, answers, strict=False))
            row |= dict(zip(of_scores, of_row, strict=False))
            writer.writerow({values.text_column: text, **row})
    mean = sum(len(answers) - 1 for _, answers in kept) / len(kept)
    print(
        f"{len(kept):,} of {len(rows):,} rows, {mean:.1f} wrong answers each, among "
        f"{len(index):,} texts: {values.output}"
    )


def _scored(
    teacher: "Reranker", rows: Sequence[tuple[str, list[str]]], batch_size: int
) -> tuple[list[tuple[str, list[str]]], list[list[str]]]:
    """Returns rows and what the teacher says of each text with its answers, right and wrong.

    Answers of which it reads nothing, whose score is -inf, are left out; with a right one its row.
    """
    queries = [text for text, answers in rows for _ in answers]
    texts = [answer for _, answers in rows for answer in answers]
    scores = iter(teacher.scores(queries, texts, batch_size).tolist())
    kept, kept_scores = [], []
    for text, answers in rows:
        scored = [(answer, next(scores)) for answer in answers]
        if math.isfinite(scored[0][1]):
            scored = [(answer, score) for answer, score in scored if math.isfinite(score)]
            kept.append((text, [answer for answer, _ in scored]))
            kept_scores.append([f"{score:.6g}" for _, score in scored])
    if not kept:
        raise ValueError(
            f"--score_with reads nothing of all {len(rows):,} right answers: give another model"
        )
    return kept, kept_scores


if __name__ == "__main__":
    command_line.run(main)
