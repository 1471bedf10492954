r"""Scores sentences by how likely a masked language model finds them.

    python tools/score_text.py --init_from=runs/mini/preset --input=sentences.txt \
        --output=scores.csv

--input has a sentence a line (.txt) or a JSON object with "text" a line (.jsonl), both also with
.gz behind; or it is a table (.csv, .tsv) with a column "text". The output is a .csv with a row for
each: text, score (the pseudo-log-likelihood, a sum of natural logarithms: higher is likelier),
pieces, perplexity (the pseudo-perplexity, per piece) and unknown_pieces. A sentence without pieces
has no perplexity.
"""

import csv
import math
from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("init_from", None, "Model folder, of any format.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "File of sentences: .txt or .jsonl, also .gz; or .csv, .tsv.")
flags.DEFINE_string("output", None, "Table to write: .csv.")
flags.DEFINE_bool(
    "within_word",
    False,
    "Mask the later pieces of a word along with each piece of it (Kauf and Ivanova 2023).",
)
flags.DEFINE_integer("batch_size", 32, "Rows per call of the model.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "input", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, writes the scores and tells the perplexity of the whole file."""
    from keras_bert import SentenceScorer
    from keras_bert.progress import Progress
    from keras_bert.storage.files import atomic_file
    from keras_bert.storage.paths import check_ending, check_output
    from keras_bert.storage.text_lines import FileTexts

    values = flags.FLAGS
    check_output(values.output, values.input, name="--output")
    check_ending("--output", values.output, ".csv")
    sentences = FileTexts(values.input)
    scorer = SentenceScorer.from_preset(
        values.init_from,
        values.ignore_config_keys,
        within_word=values.within_word,
        batch_size=values.batch_size,
    )
    texts = pieces = unknown = 0
    total = 0.0
    with (
        Progress(sentences.total, sentences.unit, "scoring", at_once=True) as progress,
        atomic_file(values.output) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        table = csv.writer(file)
        table.writerow(["text", "score", "pieces", "perplexity", "unknown_pieces"])
        for score in scorer(sentences.watched(progress)):
            count = len(score.pieces)
            perplexity = f"{score.perplexity:.6g}" if count else ""
            table.writerow(
                [score.text, f"{score.log_likelihood:.6f}", count, perplexity, score.unknown_pieces]
            )
            texts, pieces, unknown = texts + 1, pieces + count, unknown + score.unknown_pieces
            total += score.log_likelihood
    print(f"{texts:,} sentences, {pieces:,} pieces: {values.output}")
    if pieces:
        print(f"pseudo-perplexity of the file: {math.exp(-total / pieces):.6g}")
    if unknown:
        print(f"{unknown:,} pieces are [UNK], whose probability says nothing of the word")


if __name__ == "__main__":
    command_line.run(main)
