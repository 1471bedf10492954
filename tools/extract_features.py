"""Turns texts into the vectors that a pretrained BERT has for their pieces or words.

    python tools/extract_features.py --init_from=runs/mini/preset --input=texts.txt \
        --output=features.npz --layers=concat_last_4 --level=word

--input has a text a line (.txt) or a JSON object with "text" a line (.jsonl), also with .gz behind.
--output is .npz or .tfrecord; `keras_bert.tasks.feature_extraction.feature_files.read_features`
reads both.
"""

from collections.abc import Sequence
from typing import get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import FeatureLevel, LayerStrategy

flags.DEFINE_string("init_from", None, "Model folder, of any format.")
flags.DEFINE_string("input", None, "File of texts: .txt or .jsonl, also .gz.")
flags.DEFINE_string("output", None, "File to write: .npz or .tfrecord.")
flags.DEFINE_enum(
    "layers",
    "concat_last_4",
    get_args(LayerStrategy),
    "What of the layers a vector is made of.",
)
flags.DEFINE_enum(
    "level", "piece", get_args(FeatureLevel), "A vector for each piece, or each word."
)
flags.DEFINE_enum("dtype", "float16", ["float16", "float32"], "Numbers of the output.")
flags.DEFINE_integer(
    "max_seq_length", None, "Most pieces of a row; unset: the positions of the model."
)
flags.DEFINE_integer("batch_size", 32, "Rows per call of the model.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "input", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, writes the features and tells what was long or empty."""
    from keras_bert.progress import Progress
    from keras_bert.storage.text_lines import TextLines
    from keras_bert.tasks.feature_extraction.extraction import FeatureExtractor
    from keras_bert.tasks.feature_extraction.feature_files import write_features, writer_for

    values = flags.FLAGS
    writer_for(values.output)  # before the work
    lines = TextLines(values.input)
    extractor = FeatureExtractor.from_preset(
        values.init_from,
        values.ignore_config_keys,
        layers=values.layers,
        level=values.level,
        max_seq_length=values.max_seq_length,
        batch_size=values.batch_size,
    )
    with Progress(lines.total_bytes, "B", "extracting") as progress:
        features = extractor(lines.watched(progress))
        write_features(values.output, features, values.dtype)
    print(
        f"{extractor.texts:,} texts, {extractor.units:,} vectors of {extractor.width:,} numbers, "
        f"one for each {values.level}: {values.output}"
    )
    print(f"{extractor.windowed_texts:,} long texts were read in windows that overlap by half")
    if values.level == "word":
        print(f"{extractor.empty_words:,} words had no pieces; their vectors are zero")


if __name__ == "__main__":
    command_line.run(main)
