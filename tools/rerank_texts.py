r"""Sorts lists of candidates by how likely a masked language model finds them.

    python tools/rerank_texts.py --init_from=runs/mini/preset --input=candidates.tsv \
        --output=ranked.tsv

--input is a table (.csv, .tsv or .jsonl) with the columns "group", equal for the candidates of one
list, and "text"; with --score_column=score those scores are added to. --output, of the same kinds,
has the columns of the input, and "rank" (1 is the best of its group), "rerank_score" and
"log_likelihood". A text without pieces has no likelihood: it is the last, with "-inf" (null in
.jsonl).
"""

import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from keras_bert import command_line

if TYPE_CHECKING:
    from keras_bert.storage.tables import Table

_ADDED = ("rank", "rerank_score", "log_likelihood")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}

flags.DEFINE_string("init_from", None, "Model folder, of any format.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "Table of candidates: .csv, .tsv or .jsonl.")
flags.DEFINE_string("output", None, "Table to write: .csv, .tsv or .jsonl.")
flags.DEFINE_string("group_column", "group", "Column that is equal for candidates of one list.")
flags.DEFINE_string("text_column", "text", "Column of the candidates.")
flags.DEFINE_string("score_column", None, "Column of scores to add to, natural logarithms.")
flags.DEFINE_float("weight", 1.0, "Weight of the pseudo-log-likelihood beside that score.")
flags.DEFINE_bool("per_piece", False, "Divide the pseudo-log-likelihood by the number of pieces.")
flags.DEFINE_bool(
    "within_word",
    False,
    "Mask the later pieces of a word along with each piece of it (Kauf and Ivanova 2023).",
)
flags.DEFINE_integer("batch_size", 32, "Rows per call of the model.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "input", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, ranks the candidates of each group and writes the table."""
    from keras_bert import SentenceScorer, rerank
    from keras_bert.progress import Progress
    from keras_bert.storage.files import atomic_file
    from keras_bert.storage.paths import check_output
    from keras_bert.storage.surrogates import without_lone_surrogates
    from keras_bert.storage.tables import EXTENSIONS, check_columns, read_table

    # 1. The table, by group.
    values = flags.FLAGS
    output = Path(values.output)
    check_output(output, values.input, name="--output")
    if output.suffix not in EXTENSIONS:
        raise ValueError(f"--output={output} is not one of {', '.join(EXTENSIONS)}: rename it")
    table = read_table(Path(values.input))
    check_columns(values.input, table.columns, _ADDED)
    texts = table.texts(values.text_column, "name it with --text_column")
    groups: dict[str, list[int]] = {}
    for index, group in enumerate(table.column(values.group_column, "name it by --group_column")):
        groups.setdefault(group, []).append(index)
    scores = None
    if values.score_column:
        given = table.column(values.score_column, "name another --score_column, or leave it out")
        scores = [_number(values.input, table.rows[i].line, score) for i, score in enumerate(given)]

    # 2. The ranks.
    scorer = SentenceScorer.from_preset(
        values.init_from,
        values.ignore_config_keys,
        within_word=values.within_word,
        batch_size=values.batch_size,
    )
    ranked = rerank(
        [[texts[index] for index in group] for group in groups.values()],
        scorer,
        None if scores is None else [[scores[i] for i in group] for group in groups.values()],
        weight=values.weight,
        per_piece=values.per_piece,
    )
    separator = _SEPARATORS.get(output.suffix)
    shown: Callable[[float], Any] = "{:.6f}".format
    written: list[dict[str, Any]] = [row.values for row in table.rows]
    if separator is None:
        shown, written = _json_number, _json_objects(table)
    rows, moved = [], 0
    with Progress(len(groups), "list", "ranking", at_once=True) as progress:
        for members, candidates in zip(groups.values(), ranked, strict=True):
            for rank, candidate in enumerate(candidates, start=1):
                scores_now = map(shown, (candidate.score, candidate.log_likelihood))
                own = written[members[candidate.place]]
                rows.append({**own, **dict(zip(_ADDED, (rank, *scores_now), strict=True))})
            moved += candidates[0].place != 0
            progress.update(1)

    # 3. The file.
    with (
        atomic_file(output) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        if separator is not None:
            columns = [*table.columns, *_ADDED]
            writer = csv.DictWriter(file, columns, restval="", delimiter=separator)
            writer.writeheader()
            writer.writerows(rows)
        else:
            for row in rows:
                line = json.dumps(row, ensure_ascii=False)
                file.write(without_lone_surrogates(line) + "\n")
    print(f"{len(rows):,} candidates, {len(groups):,} lists: {output}")
    print(f"another candidate is first now: {moved:,} lists")


def _json_objects(table: "Table") -> list[dict[str, Any]]:
    """Returns the rows for a .jsonl file: those of one keep their numbers, lists and nulls."""
    if table.path.suffix != ".jsonl":
        return [row.values for row in table.rows]
    lines = table.path.read_text(encoding="utf-8-sig").split("\n")
    return [json.loads(lines[row.line - 1]) for row in table.rows]


def _json_number(score: float) -> float | None:
    """Returns a score, rounded; None for minus infinity, which JSON lacks."""
    return round(score, 6) if math.isfinite(score) else None


def _number(path: str, line: int, score: str) -> float:
    try:
        number = float(score)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"{path}, line {line}: the score {score!r} is no number: give natural logarithms"
        )
    return number


if __name__ == "__main__":
    command_line.run(main)
