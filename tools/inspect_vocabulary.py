r"""Shows what stands in a vocabulary, and what it makes of a text.

    python tools/inspect_vocabulary.py --vocab=vocab/vocab.txt --output=vocabulary.html
    python tools/inspect_vocabulary.py --vocab=runs/mini/preset --input='corpus/*.txt' \
        --output=vocabulary.html

--vocab is a vocab.txt or a model folder of any format. The page lists kinds, scripts and lengths of
the entries and those that no text can produce; with --input also pieces per word, unknown words,
split words, entries that are not used.
"""

from collections.abc import Sequence
from typing import get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import DecodingErrors

flags.DEFINE_string("vocab", None, "A vocab.txt, or a model folder of any format.")
flags.DEFINE_list("input", [], "Files, globs (.txt, .jsonl, .parquet, compressed), tfds:name.")
flags.DEFINE_string("text_field", "text", "Field or column that holds the text.")
flags.DEFINE_enum(
    "errors", "strict", get_args(DecodingErrors), "What to do with bytes not in UTF-8."
)
flags.DEFINE_string("output", "vocabulary.html", "HTML file to write.")
flags.mark_flags_as_required(["vocab"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, prints the most important numbers and writes the page."""
    from keras_bert import inspect_vocabulary
    from keras_bert.data.corpus.reading import Corpus
    from keras_bert.progress import Progress
    from keras_bert.visualize import html_page

    values = flags.FLAGS
    html_page.check_name(values.output)
    command_line.check_companions("input", "text_field", "errors")
    if values.input:
        corpus = Corpus(values.input, values.text_field, values.errors)
        with Progress(corpus.total_bytes, "B", "counting words", at_once=True) as progress:
            report = inspect_vocabulary(values.vocab, corpus.paragraphs(progress))
    else:
        report = inspect_vocabulary(values.vocab)
    for line in report.lines():
        print(line)
    report.save(values.output)
    print(f"{values.output}: the whole report")


if __name__ == "__main__":
    command_line.run(main)
