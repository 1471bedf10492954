"""Tells where each attention head of a model looks, on average over many texts.

    python tools/head_statistics.py --init_from=runs/mini/preset --input=texts.txt --output=heads

--input has a text a line (.txt) or a JSON object with "text" a line (.jsonl), both also with .gz
behind; or it is a table (.csv, .tsv) with a column "text".
The folder that it writes holds heads.csv (a row a head), heads.json, heads.png and heads.svg.
Layers and heads are counted from 0, as on the page of visualize_attention.py.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("init_from", None, "Model folder, of any format.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "File of texts: .txt or .jsonl, also .gz; or .csv, .tsv.")
flags.DEFINE_string("output", "heads", "Folder to write.")
flags.DEFINE_integer("max_texts", None, "Most texts to read; unset: all.", lower_bound=1)
flags.DEFINE_integer(
    "max_seq_length", None, "Most tokens of a text; unset: the positions of the model."
)
flags.DEFINE_integer("batch_size", 16, "Texts per call of the model.", lower_bound=1)
flags.DEFINE_integer("show", 12, "How many remarkable heads to print.", lower_bound=0)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "input"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, writes the files and prints sentences on remarkable heads."""
    import itertools

    from keras_bert import head_statistics, plot_head_statistics
    from keras_bert.progress import Progress
    from keras_bert.storage.paths import check_folder
    from keras_bert.storage.text_lines import FileTexts

    values = flags.FLAGS
    check_folder("--output", values.output)
    texts = FileTexts(values.input)
    with Progress(texts.total, texts.unit, "reading", at_once=True) as progress:
        statistics = head_statistics(
            values.init_from,
            itertools.islice(texts.watched(progress), values.max_texts),
            max_seq_length=values.max_seq_length,
            batch_size=values.batch_size,
            ignore_config_keys=values.ignore_config_keys,
        )
    folder = Path(values.output)
    statistics.save(folder)
    layers, heads = statistics.shape
    print(
        f"{statistics.model}: {layers} layers of {heads} heads over {statistics.texts:,} texts of "
        f"{statistics.tokens:,} tokens"
    )
    if statistics.cut_texts:
        print(f"{statistics.cut_texts:,} texts were cut to what the model reads")
    sentences = statistics.sentences()
    print(f"{len(sentences):,} heads give half of their weight or more to one place")
    for sentence in sentences[: values.show]:
        print(f"  {sentence}")
    try:
        for name in ("heads.png", "heads.svg"):
            plot_head_statistics(statistics, folder / name)
    except ValueError as error:
        print(f"no picture: {error}", file=sys.stderr)
    print(f"numbers and pictures: {folder}")


if __name__ == "__main__":
    command_line.run(main)
