r"""Turns texts into the vectors that a pretrained BERT has for their pieces or words, or for each.

    python tools/extract_features.py --init_from=runs/mini/preset --input=texts.txt \
        --output=features.npz --layers=concat_last_4 --level=word
    python tools/extract_features.py --init_from=runs/mini/preset --input=reviews/dev.csv \
        --output=projector --level=text --layers=last --pca=reviews.png

--input has a text a line (.txt) or a JSON object with "text" a line (.jsonl), both also with .gz
behind; or it is a table (.csv, .tsv) with a column "text" and perhaps "label".
--output is .npz or .tfrecord; `keras_bert.tasks.feature_extraction.feature_files.read_features`
reads both. Without an ending it is a folder for TensorBoard's projector (tensorboard --logdir).
--pca draws the vectors in the two directions in which they differ most, coloured by label.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from absl import flags

from keras_bert import command_line
from keras_bert.choices import FeatureLevel, LayerStrategy
from keras_bert.progress import Progress

flags.DEFINE_string("init_from", None, "Model folder, of any format.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "File of texts: .txt or .jsonl, also .gz; or .csv, .tsv.")
flags.DEFINE_string(
    "output", None, "File to write: .npz or .tfrecord; without an ending: a folder for TensorBoard."
)
flags.DEFINE_string("pca", None, "Picture of the vectors to write as well: .png or .svg (viz).")
flags.DEFINE_enum(
    "layers",
    "concat_last_4",
    get_args(LayerStrategy),
    "What of the layers a vector is made of.",
)
flags.DEFINE_enum(
    "level", "piece", get_args(FeatureLevel), "A vector for each piece, word or text."
)
flags.DEFINE_enum("dtype", "float16", ["float16", "float32"], "Numbers of the output.")
flags.DEFINE_integer(
    "max_seq_length", None, "Most pieces of a row; unset: the positions of the model."
)
flags.DEFINE_integer("batch_size", 32, "Rows per call of the model.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "input", "output"])


# Points of the picture; of more a random sample is drawn, of which each is as likely.
_MOST_POINTS = 5000


def main(_: Sequence[str]) -> None:
    """Reads the flags, writes features and picture, and tells what was long or empty."""
    from keras_bert.storage.paths import check_local
    from keras_bert.storage.text_lines import FileTexts
    from keras_bert.tasks.feature_extraction import projector
    from keras_bert.tasks.feature_extraction.extraction import FeatureExtractor
    from keras_bert.tasks.feature_extraction.feature_files import write_features, writer_for
    from keras_bert.visualize import principal_components as pca
    from keras_bert.visualize.figure import check_picture

    values = flags.FLAGS
    # Whatever can go wrong with names, before the work.
    check_local("--output", values.output)
    to_projector = not Path(values.output).suffix
    if to_projector:
        projector.check_folder(values.output)
        if values["dtype"].present:
            raise ValueError("--dtype is for .npz and .tfrecord: a projector's table is text")
    else:
        writer_for(values.output)
    if values.pca:
        check_picture(values.pca)
    texts = FileTexts(values.input)
    labels = None
    if texts.table is not None and "label" in texts.table.columns:
        labels = texts.table.column("label", "give each row one")
    extractor = FeatureExtractor.from_preset(
        values.init_from,
        values.ignore_config_keys,
        layers=values.layers,
        level=values.level,
        max_seq_length=values.max_seq_length,
        batch_size=values.batch_size,
    )
    sample = pca.VectorSample(_MOST_POINTS)

    with Progress(texts.total, texts.unit, "extracting", at_once=True) as progress:
        features = extractor(texts.watched(progress))
        features = sample.watch(features, labels) if values.pca else features
        if to_projector:
            projector.write_feature_projector(values.output, features, labels)
        else:
            write_features(values.output, features, values.dtype)
    print(
        f"{extractor.texts:,} texts, {extractor.units:,} vectors of {extractor.width:,} numbers, "
        f"one for each {values.level}: {values.output}"
    )
    print(f"{extractor.windowed_texts:,} long texts were read in windows that overlap by half")
    if values.level != "piece":
        print(f"{extractor.empty_words:,} {values.level}s had no pieces; their vectors are zero")
    if values.pca and len(sample.vectors) < 2:
        print(f"{values.pca} is not drawn: there are {len(sample.vectors)} vectors")
    elif values.pca:
        title = f"{len(sample.vectors):,} of {sample.seen:,} vectors, {values.layers}"
        shown = None if labels is None else sample.labels
        vectors = np.stack(sample.vectors)
        pca.plot_principal_components(vectors, values.pca, shown, sample.names, title)
        print(f"{values.pca}: {title}")


if __name__ == "__main__":
    command_line.run(main)
