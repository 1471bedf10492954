r"""Searches texts by meaning: those whose vectors are nearest to that of a query.

A model folder of --task=sparse_retrieval, or a SPLADE model, is searched by words with weights; one
of --task=multi_vector_retrieval, or a ColBERT model, by vectors of all tokens. --init_from=bm25
searches by the words of the texts (BM25), without a model. A folder of BGE-M3 is searched by its
dense vectors, and with --m3_weights by all three kinds that it makes: the score is the mean of
three, so weighted. A kind with the weight 0 is left out of the index.

    python tools/search_texts.py --init_from=runs/search --input=manual.txt \
        --query='How is a lock taken twice?'
    python tools/search_texts.py --init_from=runs/search --input=manual.csv --index=manual_index \
        --queries=questions.txt --output=found.csv --top_k=3

--input has a text a line (.txt) or a JSON object with "text" a line (.jsonl), both also with .gz
behind; or it is a table (.csv, .tsv) with a column "text", or --text_column. --index keeps their
vectors in a folder; where it is there already, it is opened and no --input is needed. --queries is
a file like --input, and the column of its queries is "text". With --index_bits an index of vectors
of tokens is 3 to 8 times smaller, and a search compares those texts alone that have tokens like the
query's.
--fuse_with is another such folder, or bm25; it may be given several times. Then each searches, and
the ranks that a text has in them are added up (reciprocal rank fusion), which finds more than each
alone where they find different texts. Settings such as --pooling are for --init_from.
--rerank_with is a model that reads query and text together, such as a run of --task=reranking, or
one of vectors of tokens, or a BGE-M3, whose three scores count as --rerank_weights says: it orders
the --candidates nearest texts anew, and the best --top_k of them are given.
--read_with is a model of question answering, such as a run of --task=squad: it reads the --top_k
texts and finds the words in each that answer the query. Given are these answers, the best first;
texts without one are left out.
--output is a table (.csv) with the columns query, rank, score (the cosine, the product of sparse
vectors, the sum over tokens, the mean with --m3_weights, BM25's, the sum of 1 / (60 + rank) with
--fuse_with, or what the model that reranks says), number (the place of the text, from 0) and text;
without it they are printed. With --read_with the score is that of the answer, which stands in a
column answer, and where it begins in the text in a column answer_start.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import TokenPooling

if TYPE_CHECKING:
    from keras_bert.retrieval.searched_texts import Hit

    # Of each query what was found, and where it was read its answer and where that starts.
    _Rows = list[list[tuple[Hit, tuple[Any, ...]]]]

_SETTINGS = (
    *("pooling", "truncate_dim", "max_active_dims", "max_seq_length"),
    *("query_prompt", "document_prompt"),
)
_COLUMNS = ("query", "rank", "score", "number", "text")
_ANSWER_COLUMNS = ("answer", "answer_start")
_WIDTH = 100

flags.DEFINE_string(
    "init_from", None, "Model folder; one that was trained for similarity. Or bm25: words alone."
)
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "File of texts: .txt or .jsonl, also .gz; or .csv, .tsv.")
flags.DEFINE_string(
    "text_column", "text", "Column of the texts in a table, or their field in a .jsonl."
)
flags.DEFINE_string("index", None, "Folder for the vectors of the texts, made where it is missing.")
flags.DEFINE_enum(
    "index_bits",
    None,
    ["1", "2", "4"],
    "Bits of a number of a token's vector in a new index; unset: 16, and all texts are compared.",
)
flags.DEFINE_list(
    "m3_weights",
    None,
    "Of a BGE-M3: weights of dense vectors, words and tokens, as 0.4,0.2,0.4; unset: dense alone.",
)
flags.DEFINE_multi_string("query", [], "What is searched for; may be given several times.")
flags.DEFINE_string("queries", None, "File of queries: as --input, in a column text.")
flags.DEFINE_string("output", None, "Table to write: .csv; unset: print.")
flags.DEFINE_integer("top_k", 10, "Texts a query.", lower_bound=1)
flags.DEFINE_multi_string(
    "fuse_with", [], "Another model folder, or bm25, whose ranks are added; may be repeated."
)
flags.DEFINE_string(
    "rerank_with", None, "Cross-encoder, ColBERT model or BGE-M3; it orders what is found."
)
flags.DEFINE_string("rerank_label", None, "Of its two classes that of texts that answer.")
flags.DEFINE_list(
    "rerank_weights", None, "Of a BGE-M3 that reranks: as --m3_weights; unset: all count alike."
)
flags.DEFINE_integer("candidates", 50, "Texts a query that it orders.", lower_bound=1)
flags.DEFINE_string(
    "read_with", None, "Model of question answering; it finds answers in the texts."
)
flags.DEFINE_float(
    "retrieval_weight", 0.0, "So many times the search's score is added to that of an answer."
)
flags.DEFINE_enum(
    "pooling",
    None,
    get_args(TokenPooling),
    "How vectors of pieces become one; unset: as the model folder says.",
)
flags.DEFINE_integer("max_seq_length", None, "Most pieces of a text that becomes a vector.")
flags.DEFINE_integer(
    "truncate_dim",
    None,
    "Keep so many numbers of a vector, of a model trained with --matryoshka_dims; unset: all.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_active_dims",
    None,
    "Keep so many weights of a sparse vector, the largest; unset: as the model folder says.",
    lower_bound=1,
)
flags.DEFINE_string(
    "query_prompt", None, "Stands before each query; unset: as the model folder says."
)
flags.DEFINE_string(
    "document_prompt",
    None,
    "Stands before each text of the index; unset: as the model folder says.",
)
flags.DEFINE_integer("batch_size", 64, "Texts per call of the model.", lower_bound=1)
flags.mark_flags_as_required(["init_from"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, makes or opens the index, and writes or prints what is found."""
    from keras_bert.retrieval.extractive_reader import ExtractiveReader
    from keras_bert.retrieval.fused_index import (
        FusedIndex,
        build_index,
        check_bits,
        open_index,
    )
    from keras_bert.retrieval.kinds import open_reranker, search_classes
    from keras_bert.retrieval.m3_encoder import checked_weights
    from keras_bert.retrieval.searched_texts import INDEX_FILE, SearchedTexts
    from keras_bert.storage.text_lines import read_texts

    values = flags.FLAGS
    made = values.index is not None and (Path(values.index) / INDEX_FILE).is_file()
    settings = {name: values[name].value for name in _SETTINGS if values[name].value is not None}
    m3_weights, rerank_weights = map(command_line.number_list, ("m3_weights", "rerank_weights"))
    if m3_weights is not None:
        settings["m3_weights"] = checked_weights(m3_weights)
    _check_flags(values, made)
    queries = [*values.query, *(read_texts(values.queries) if values.queries else [])]
    queries = [query for query in queries if query.strip()]
    if not queries and (made or values.index is None or values.rerank_with or values.read_with):
        raise ValueError("there is nothing to search for: give --query or --queries")
    texts = None if made else read_texts(values.input, values.text_column)
    if texts is not None and not any(map(str.strip, texts)):
        raise ValueError(f"--input={values.input} holds no text to search: give a file with texts")
    bits = None if values.index_bits is None else int(values.index_bits)
    searches = {values.init_from: settings} | {folder: {} for folder in values.fuse_with}
    classes = [search_classes(folder, given) for folder, given in searches.items()]
    check_bits(bits, [index_class for _, index_class in classes])
    if values.index is not None and not made:
        checked = FusedIndex if values.fuse_with else classes[0][1]
        checked.check_folder(values.index)
    # Opened before the work, as it may be refused.
    reranker = None
    if values.rerank_with:
        reranker = open_reranker(values.rerank_with, values.rerank_label, rerank_weights)
    reader = ExtractiveReader.from_preset(values.read_with) if values.read_with else None
    parts = [
        (index_class, open_encoder(folder, **given))
        for (open_encoder, index_class), (folder, given) in zip(
            classes, searches.items(), strict=True
        )
    ]
    index: SearchedTexts | FusedIndex
    if texts is None:
        index = open_index(values.index, parts)
    else:
        index = build_index(texts, parts, values.batch_size, bits)
        if values.index is not None:
            index.save(values.index)
            print(f"{len(index):,} texts, {index.numbers_each}: {values.index}")
    if reranker is None:
        found = index.search(queries, values.top_k)
    else:
        found = index.search(queries, values.candidates)
        found = reranker.rerank(queries, found, values.top_k, values.batch_size)
    rows: _Rows = [[(hit, ()) for hit in hits] for hits in found]
    if reader is not None:
        read = reader.read(queries, found, None, values.batch_size, values.retrieval_weight)
        rows = [
            [(one.passage._replace(score=one.score), (one.text, one.start)) for one in answers]
            for answers in read
        ]
    if values.output is None:
        _print(queries, rows)
    else:
        columns = (*_COLUMNS, *(_ANSWER_COLUMNS if reader is not None else ()))
        _write(values.output, columns, queries, rows)


def _print(queries: Sequence[str], rows: "_Rows") -> None:
    for query, several in zip(queries, rows, strict=True):
        print(f"\n{query}")
        for hit, answer in several:
            shown = " ".join(hit.text.split())[:_WIDTH]
            shown = f"{answer[0]}  |  {shown}" if answer else shown
            print(f"  {hit.score:6.3f}  {hit.number:>7,}  {shown}")


def _write(output: str, columns: Sequence[str], queries: Sequence[str], rows: "_Rows") -> None:
    from keras_bert.storage.files import atomic_file

    with atomic_file(output) as path, open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for query, several in zip(queries, rows, strict=True):
            for rank, (hit, answer) in enumerate(several, start=1):
                writer.writerow((query, rank, f"{hit.score:.6f}", hit.number, hit.text, *answer))
    print(f"{len(queries):,} queries, {sum(map(len, rows)):,} texts found: {output}")


def _check_flags(values: flags.FlagValues, made: bool) -> None:
    """Refuses bad names and numbers before anything is read; `made`: whether the index exists."""
    from keras_bert.storage.paths import check_ending, check_output

    if values.input is None and not made:
        raise ValueError("there are no texts: give --input, or an --index that was made before")
    if values.index_bits is not None and made:
        raise ValueError(
            f"--index_bits is for a new index, and --index={values.index} is there already: leave "
            "out --index_bits, or name another folder and give --input"
        )
    if values.input is not None and made:
        raise ValueError(
            f"--index={values.index} holds the vectors of texts already: leave out --input to "
            "search them, or name another folder"
        )
    if values.output is not None:
        others = (values.queries, values.input, values.index)
        check_output(values.output, *filter(None, others))
        check_ending("--output", values.output, ".csv")
    command_line.check_companions("input", "text_column", "index_bits")
    named = [values.init_from, *values.fuse_with]
    for folder in values.fuse_with:
        if named.count(folder) > 1:
            raise ValueError(f"--fuse_with={folder} is named twice: name each search once")
    command_line.check_companions("rerank_with", "candidates", "rerank_label", "rerank_weights")
    command_line.check_companions("read_with", "retrieval_weight")
    if values.rerank_with is not None and values.top_k > values.candidates:
        raise ValueError(
            f"--top_k={values.top_k} is more than --candidates={values.candidates}: let "
            "--rerank_with order as many at least"
        )


if __name__ == "__main__":
    command_line.run(main)
