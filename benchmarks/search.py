"""Search in a manual: trained vectors against those of the same model as it is, and BM25.

    make benchmark NAME=search ARGS='--output=runs/search'

Sections of the Linux kernel's documentation (Debian's linux-doc-6.1): the title is what is searched
for, the beginning of the text below it is to be found among those of all sections of the split.
Titles that several sections have are left out; pages are split, so no page is in two splits. The
same vectors are then asked for sections of Python's documentation, on which nothing was trained.
"nested" learns from the pairs the first --widths numbers of a vector as vectors, too (Matryoshka);
with --widths the table has the nDCG of each width, for all models. "mined" learns from the pairs
and from wrong answers that the vectors of --teacher (MiniLM) find, "taught" from the cosines of the
teacher's vectors besides. "sparse" learns words with weights (SPLADE) from the pairs, which needs a
start that predicts masked words, such as the sample model; its last columns are how many words a
query and a text have. "tokens" learns a vector for each token (ColBERT) from the pairs. "reranked"
lets a cross-encoder, which learned from wrong answers that the vectors of "pairs" found, order the
50 texts that they find first. --fused=BM25+tokens is a row of several searches together, by the
ranks that a text has in each; it may be given several times. --fused=tokens:4 is the search by
tokens with an index of 4 bits a number.
A run is finished by the same command where it was stopped; scores stand in scores.jsonl. --data
takes a folder with train, validation and test.csv (columns text and positive) in place of the
manuals:

    make benchmark NAME=search ARGS='--output=runs/verses --data=data/verses --runs=pairs'
"""

import csv
import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import packages
from absl import app, flags
from score_file import ScoreFile
from small_pretraining import median_and_range

from keras_bert import (
    Bm25,
    Bm25Index,
    CrossEncoder,
    EmbeddingExample,
    FinetuningOptions,
    MultiVectorEncoder,
    MultiVectorIndex,
    SentenceEncoder,
    SparseEncoder,
    SparseTextIndex,
    SparseVectors,
    TextIndex,
    TokenVectors,
    create_task,
    finetune,
    mine_negatives,
)
from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION
from keras_bert.retrieval.fused_index import build_index
from keras_bert.retrieval.searched_texts import Hit
from keras_bert.storage.files import atomic_folder
from keras_bert.tasks.sentence_embedding.metrics import (
    hit,
    ndcg,
    ranking_metrics,
    recall,
    reciprocal_rank,
    sparse_ranking_metrics,
)

_OUTPUT = flags.DEFINE_string("output", None, "Folder of data and runs.", required=True)
_DATA = flags.DEFINE_string("data", None, "Other data; unset: the manuals.")
_TAUGHT = ("mined", "taught")
_SPARSE = "sparse"
_TOKENS = "tokens"
_TRAINED = ("pairs", "texts alone", "nested", _SPARSE, _TOKENS, *_TAUGHT)
_RERANKED = "reranked"
_UNTRAINED = ("BM25", "as it is")
_KINDS = (*_UNTRAINED, *_TRAINED, _RERANKED)
_USUAL = [kind for kind in _KINDS if kind not in ("nested", _SPARSE, _TOKENS, *_TAUGHT)]
_RUNS = flags.DEFINE_multi_enum("runs", _USUAL, list(_KINDS), "Only these.")
_FUSED = flags.DEFINE_multi_string("fused", [], "Rows of several, such as BM25+tokens.")
_WIDTHS = flags.DEFINE_list("widths", [], "Numbers of a vector that a search may keep alone.")
_INIT_FROM = flags.DEFINE_string("init_from", None, "Model folder to start from; unset: MiniLM.")
_TEACHER = flags.DEFINE_string("teacher", None, "Sentence encoder to learn from; unset: MiniLM.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=1)
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes over the pairs.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 64, "Pairs of a step, so many candidates.")
_MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "Pieces of a row.")
_RERANKING_EPOCHS = flags.DEFINE_integer("reranking_epochs", 1, "Passes of the cross-encoder.")
_ROWS = flags.DEFINE_integer("rows", None, "Sections of each split; unset: all.")

# Package -> where its pages lie.
_MANUALS = {
    "linux-doc-6.1": "usr/share/doc/linux-doc-6.1/html",
    "python3.11-doc": "usr/share/doc/python3.11/html",
}
_FEWEST_WORDS, _MOST_WORDS = 15, 90
# Texts of a query that a cross-encoder orders, and wrong answers of a row that it learns from.
_CANDIDATES, _NEGATIVES = 50, 4
# The teacher's cosines are logits as the student's are.
_TEACHER_TEMPERATURE = 0.05
_SHOWN = ("ndcg_at_10", "accuracy_at_1", "recall_at_10")
_WORDS = ("query_active_dims", "document_active_dims")


class Section(NamedTuple):
    """A title and the beginning of the text below it."""

    page: str
    title: str
    text: str


class _Sections(HTMLParser):
    """Collects the titles of a page, and the text of the paragraphs behind each."""

    def __init__(self):
        super().__init__()
        self.found: list[tuple[list[str], list[str]]] = []
        self._into: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if re.fullmatch("h[1-6]", tag):
            self.found.append(([], []))
            self._into = self.found[-1][0]
        elif tag == "p" and self.found:
            self._into = self.found[-1][1]
            self._into.append(" ")
        elif tag == "footer":
            self.found.append(([], []))  # what follows is of no section

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" or re.fullmatch("h[1-6]", tag):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)


def sections(package: str) -> list[Section]:
    """Returns the sections of a manual whose titles nothing else is called."""
    folder = packages.debian_package(package) / _MANUALS[package]
    found = [section for page in sorted(folder.rglob("*.html")) for section in _of_page(page)]
    titles = Counter(section.title.lower() for section in found)
    texts = Counter(section.text for section in found)
    return [
        section for section in found if titles[section.title.lower()] == texts[section.text] == 1
    ]


def _of_page(page: Path) -> Iterator[Section]:
    parser = _Sections()
    parser.feed(page.read_text(encoding="utf-8", errors="replace"))
    for title, text in parser.found:
        # "3.2. Locking¶": numbers and signs of a heading are no words.
        name = re.sub(r"^[^\w(]*[\d.)\s]+|¶", "", " ".join("".join(title).split())).strip()
        words = "".join(text).split()
        if len(name.split()) > 1 and len(words) >= _FEWEST_WORDS:
            yield Section(str(page), name, " ".join(words[:_MOST_WORDS]))


def write_data(folder: Path) -> None:
    """Writes train, validation and test of the kernel's manual, and a test of Python's."""
    pages: dict[str, list[Section]] = {}
    for section in sections("linux-doc-6.1"):
        pages.setdefault(section.page, []).append(section)
    order = np.random.default_rng(0).permutation(len(pages))
    shuffled = [list(pages.values())[index] for index in order]
    cuts = [int(0.8 * len(shuffled)), int(0.9 * len(shuffled))]
    splits = {
        TRAIN: shuffled[: cuts[0]],
        VALIDATION: shuffled[cuts[0] : cuts[1]],
        TEST: shuffled[cuts[1] :],
    }
    for split, several in splits.items():
        _write(folder / f"{split}.csv", [section for page in several for section in page])
    _write(folder / "python.csv", sections("python3.11-doc"))


def _write(path: Path, rows: Sequence[Section]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "positive"))
        writer.writerows((row.title, row.text) for row in rows[: _ROWS.value])
    print(f"{path.name}: {min(len(rows), _ROWS.value or len(rows)):,} sections", flush=True)


def measured(
    vectors: Sequence[np.ndarray], pairs: Sequence[tuple[str, str]], widths: Sequence[int] = ()
) -> dict[str, float]:
    """Returns the metrics of a search for the second text of each pair by the first."""
    examples = [EmbeddingExample(pair) for pair in pairs]
    return {name: metric(vectors, examples) for name, metric in ranking_metrics(widths).items()}


def _pairs(path: Path) -> list[tuple[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return [(row["text"], row["positive"]) for row in csv.DictReader(file)]


def _of_model(folder: Path, test: Path) -> dict[str, float]:
    # As trained vectors are made; a BERT that was pretrained only says nothing of it.
    length = _MAX_SEQ_LENGTH.value
    encoder = SentenceEncoder.from_preset(folder, "mean", normalize=True, max_seq_length=length)
    pairs = _pairs(test)
    titles, texts = (encoder.encode(column) for column in zip(*pairs, strict=True))
    return measured(list(np.stack([titles, texts], axis=1)), pairs, _widths())


def _of_sparse_model(folder: Path, test: Path) -> dict[str, float]:
    encoder = SparseEncoder.from_preset(folder, max_seq_length=_MAX_SEQ_LENGTH.value)
    pairs = _pairs(test)
    columns = [encoder.encode(column) for column in zip(*pairs, strict=True)]
    vectors = [
        SparseVectors.concatenate([column[row : row + 1] for column in columns])
        for row in range(len(pairs))
    ]
    examples = [EmbeddingExample(pair) for pair in pairs]
    return {name: metric(vectors, examples) for name, metric in sparse_ranking_metrics().items()}


def _of_token_model(folder: Path, test: Path) -> dict[str, float]:
    encoder = MultiVectorEncoder.from_preset(folder, max_seq_length=_MAX_SEQ_LENGTH.value)
    pairs = _pairs(test)
    titles, texts = zip(*pairs, strict=True)
    columns = encoder.encode_query(titles), encoder.encode_document(texts)
    vectors = [
        TokenVectors.concatenate([column[row : row + 1] for column in columns])
        for row in range(len(pairs))
    ]
    examples = [EmbeddingExample(pair) for pair in pairs]
    return {name: metric(vectors, examples) for name, metric in ranking_metrics().items()}


def _widths() -> list[int]:
    return [int(width) for width in _WIDTHS.value]


def _encoder(folder: Path) -> SentenceEncoder:
    return SentenceEncoder.from_preset(folder, max_seq_length=_MAX_SEQ_LENGTH.value)


def _write_mined(encoder: SentenceEncoder, data: Path, mined: Path) -> None:
    """Writes the data of a cross-encoder: each pair with what the vectors take for its answer."""
    for split in (TRAIN, VALIDATION):
        titles, texts = zip(*_pairs(data / f"{split}.csv"), strict=True)
        index = TextIndex.build(encoder, [*dict.fromkeys(texts)])
        # What is measured is the order of all that the vectors find, learned is from sure ones.
        most, margin = (_NEGATIVES, 0.05) if split == TRAIN else (_CANDIDATES // 2, -1.0)
        wrong = mine_negatives(index, titles, texts, most, relative_margin=margin)
        rows = [row for row in zip(titles, texts, wrong, strict=True) if row[2]]
        with open(mined / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "positive", *(f"negative{i}" for i in range(most))))
            for title, text, several in rows:
                missing = most - len(several)
                writer.writerow((title, text, *several, *[""] * missing))


def _taught_examples(pairs: Sequence[tuple[str, str]], scored: bool) -> list[EmbeddingExample]:
    """Returns pairs with wrong answers that the teacher finds near, and what it says of both."""
    titles, texts = zip(*pairs, strict=True)
    teacher = _encoder(Path(_TEACHER.value or packages.minilm()))
    index = TextIndex.build(teacher, [*dict.fromkeys(texts)])
    wrong = mine_negatives(index, titles, texts, _NEGATIVES)
    vectors = dict(zip(index.texts, index.vectors, strict=True))
    examples = []
    for title, asked, text, several in zip(
        titles, index.query_vectors(titles), texts, wrong, strict=True
    ):
        scores = tuple(float(asked @ vectors[answer]) for answer in (text, *several))
        told = scores if scored else None
        examples.append(EmbeddingExample((title, text, *several), teacher_scores=told))
    return examples


def _of_cross_encoder(
    encoder: SentenceEncoder, cross_encoder: CrossEncoder, test: Path
) -> dict[str, float]:
    titles, texts = zip(*_pairs(test), strict=True)
    found = TextIndex.build(encoder, texts).search(titles, _CANDIDATES)
    found = cross_encoder.rerank(titles, found)
    return _of_ranks(found, texts)


def _of_searches(
    rows: Sequence[str], open_encoder: Callable[[str], Any], test: Path
) -> dict[str, float]:
    """Measures the search of one row of the table, or several together by their ranks."""
    titles, texts = zip(*_pairs(test), strict=True)
    found_of = {"BM25": Bm25Index, _SPARSE: SparseTextIndex, _TOKENS: MultiVectorIndex}
    names, bits = zip(*(row.partition(":")[::2] for row in rows), strict=True)
    parts = [(found_of.get(name, TextIndex), open_encoder(name)) for name in names]
    index = build_index(texts, parts, bits=next((int(one) for one in bits if one), None))
    return _of_ranks(index.search(titles), texts)


def _of_ranks(found: Sequence[Sequence[Hit]], texts: Sequence[str]) -> dict[str, float]:
    """Returns the metrics of a search that should find one text for each query."""
    ranks = []
    for text, hits in zip(texts, found, strict=True):
        rank = next((n for n, one in enumerate(hits, start=1) if one.text == text), len(texts))
        ranks.append(np.array([rank]))
    measures = {
        "ndcg_at_10": partial(ndcg, count=10),
        "mrr_at_10": partial(reciprocal_rank, count=10),
        "accuracy_at_1": partial(hit, count=1),
        "recall_at_10": partial(recall, count=10),
    }
    return {name: float(np.mean([*map(value, ranks)])) for name, value in measures.items()}


def main(_: list[str]) -> None:
    """Makes all runs and prints the table."""
    output = Path(_OUTPUT.value)
    if _DATA.value:
        data = Path(_DATA.value)
        tests = {"test": data / "test.csv"}
    else:
        data = output / "data"
        tests = {"kernel": data / "test.csv", "python": data / "python.csv"}
        if not data.is_dir():
            with atomic_folder(data) as part:
                write_data(part)
    start = Path(_INIT_FROM.value or packages.minilm())
    file = ScoreFile(output / "scores.jsonl")
    trained = {
        "epochs": _EPOCHS.value,
        "rate": _LEARNING_RATE.value,
        "batch_size": _BATCH_SIZE.value,
        "max_seq_length": _MAX_SEQ_LENGTH.value,
    }
    for fused in _FUSED.value:
        for row in re.split(r"\+|:", fused):
            if not row.isdecimal() and row not in (*_UNTRAINED, "pairs", _SPARSE, _TOKENS):
                raise app.UsageError(f"--fused={fused} names {row!r}, which has no index")
    for row in (*_RUNS.value, *_FUSED.value):
        learns = not {*row.split("+")} <= {*_UNTRAINED}  # "tokens:4" does
        known = {"run": row, "start": start.name, **(trained if learns else {})}
        if row != "BM25":  # a model that learned nothing reads so many pieces, too
            known["max_seq_length"] = _MAX_SEQ_LENGTH.value
        if _DATA.value:
            known["data"] = data.resolve().name
        if row == _RERANKED:
            known["reranking_epochs"] = _RERANKING_EPOCHS.value
        if row in _TAUGHT:
            known["teacher"] = Path(_TEACHER.value or packages.minilm()).name
        if row == "nested":
            if not _WIDTHS.value:
                raise app.UsageError("--runs=nested needs --widths")
            known["widths"] = ",".join(_WIDTHS.value)
        is_dense = row in ("as it is", *_TRAINED) and row not in (_SPARSE, _TOKENS)
        widths = _widths() if is_dense else []
        of_widths = [name for name in ranking_metrics(widths) if "_dim_" in name]
        metrics = sparse_ranking_metrics() if row == _SPARSE else ranking_metrics(widths)
        names = [f"{test}_{name}" for test in tests for name in metrics]
        found = [
            file.measured(
                names, partial(_measure, row, seed, data, output, start, tests), **known, seed=seed
            )
            for seed in range(_SEEDS.value if learns else 1)
        ]
        cells = [
            median_and_range([scores[f"{test}_{name}"] for scores in found])
            for test in tests
            for name in (*_SHOWN, *of_widths)
        ]
        if row == _SPARSE:
            cells += [
                f"{np.median([scores[f'{test}_{name}'] for scores in found]):.0f}"
                for test in tests
                for name in _WORDS
            ]
        print(f"| {row} | {' | '.join(cells)} |", flush=True)


def _measure(
    row: str, seed: int, data: Path, output: Path, start: Path, tests: dict[str, Path]
) -> dict[str, float]:
    def score(measure) -> dict[str, float]:
        return {
            f"{test}_{name}": value
            for test, path in tests.items()
            for name, value in measure(path).items()
        }

    if row == "BM25" or row in _FUSED.value:

        def open_encoder(one: str) -> Any:
            if one == "BM25":
                return Bm25()
            if one == "as it is":
                return SentenceEncoder.from_preset(
                    start, "mean", normalize=True, max_seq_length=_MAX_SEQ_LENGTH.value
                )
            opened = {_SPARSE: SparseEncoder, _TOKENS: MultiVectorEncoder}.get(one, SentenceEncoder)
            folder = _trained(one, seed, data, output, start)
            return opened.from_preset(folder, max_seq_length=_MAX_SEQ_LENGTH.value)

        return score(partial(_of_searches, row.split("+"), open_encoder))
    if row == "as it is":
        return score(partial(_of_model, start))
    if row == _RERANKED:
        encoder = _encoder(_trained("pairs", seed, data, output, start))
        mined = output / f"mined_{seed}"
        if not mined.is_dir():
            with atomic_folder(mined) as part:
                _write_mined(encoder, data, part)
        task = create_task("reranking")
        folder = output / f"reranked_{seed}"
        options = _options(seed, epochs=_RERANKING_EPOCHS.value, batch_size=16)
        finetune(task, task.read(mined), start, folder, options, keep_finished=True)
        return score(partial(_of_cross_encoder, encoder, CrossEncoder.from_preset(folder)))
    measure = {_SPARSE: _of_sparse_model, _TOKENS: _of_token_model}.get(row, _of_model)
    return score(partial(measure, _trained(row, seed, data, output, start)))


def _trained(row: str, seed: int, data: Path, output: Path, start: Path) -> Path:
    """Trains vectors, unless they are there, and returns their folder."""
    if row in (_SPARSE, _TOKENS):
        task = create_task({_SPARSE: "sparse_retrieval", _TOKENS: "multi_vector_retrieval"}[row])
    else:
        task = create_task("retrieval", matryoshka_dims=_widths() if row == "nested" else ())
    found = task.read(data)
    if row in _TAUGHT:
        taught = _taught_examples(_pairs(data / f"{TRAIN}.csv"), row == "taught")
        found = type(found)({**found.splits, TRAIN: taught}, text_columns=found.text_columns)
        head = dataclasses.replace(task.head, teacher_temperature=_TEACHER_TEMPERATURE)
        task = dataclasses.replace(task, head=head)
    if row == "texts alone":  # SimCSE: every text is its own answer
        texts = [text for example in found.splits[TRAIN] for text in example.texts]
        alone = [EmbeddingExample((text,)) for text in texts]
        found = type(found)({**found.splits, TRAIN: alone}, text_columns=found.text_columns)
    folder = output / f"{row.replace(' ', '_')}_{seed}"
    options = _options(seed, epochs=_EPOCHS.value, batch_size=_BATCH_SIZE.value)
    finetune(task, found, start, folder, options, keep_finished=True)
    return folder


def _options(seed: int, **values: int) -> FinetuningOptions:
    return FinetuningOptions(
        learning_rate=_LEARNING_RATE.value,
        max_seq_length=_MAX_SEQ_LENGTH.value,
        seed=seed,
        **values,
    )


if __name__ == "__main__":
    app.run(main)
