r"""Makes static embeddings of a sentence encoder: one vector for each piece, by Model2Vec's recipe.

    python tools/distill_static_embeddings.py --init_from=runs/search --output_dir=runs/static

The folder is opened like any sentence encoder, by search_texts.py, export_saved_model.py and
SentenceEncoder, and by sentence-transformers; with --format=model2vec by Model2Vec, too.
--texts is a file whose pieces are counted for their weights: a text a line (also with .gz), or a
table (.csv, .tsv, .jsonl) with the column "text".
"""

from collections.abc import Sequence
from typing import get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import TokenPooling

flags.DEFINE_string("init_from", None, "Model folder of a sentence encoder.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("output_dir", None, "Folder to write, new or empty.")
flags.DEFINE_integer(
    "width", 256, "Most numbers of a vector; 0 keeps as many as the encoder has.", lower_bound=0
)
flags.DEFINE_float(
    "sif_coefficient",
    1e-4,
    "a of the weight a / (a + probability of the piece); 0 weighs all alike.",
    lower_bound=0,
)
flags.DEFINE_string(
    "texts", None, "File of texts to count pieces in; unset: their order in the vocabulary tells."
)
flags.DEFINE_enum(
    "format", "sentence_transformers", ["sentence_transformers", "model2vec"], "Form of the folder."
)
flags.DEFINE_enum("dtype", "float32", ["float32", "float16"], "Number format of the table.")
flags.DEFINE_enum(
    "pooling",
    None,
    get_args(TokenPooling),
    "How vectors of pieces become one; unset: as the model folder says.",
)
flags.DEFINE_integer("batch_size", 256, "Pieces per call of the model.", lower_bound=1)
flags.mark_flags_as_required(["init_from", "output_dir"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, distills and writes the folder."""
    from keras_bert import SentenceEncoder, distill_static_embeddings
    from keras_bert.storage.new_folder import check_nothing_there
    from keras_bert.storage.text_lines import read_texts

    values = flags.FLAGS
    check_nothing_there(values.output_dir, "output_dir")  # before the texts are read
    folder = distill_static_embeddings(
        values.init_from,
        values.output_dir,
        width=values.width or None,
        sif_coefficient=values.sif_coefficient or None,
        texts=read_texts(values.texts) if values.texts else None,
        model2vec=values.format == "model2vec",
        float16=values.dtype == "float16",
        batch_size=values.batch_size,
        pooling=values.pooling,
    )
    encoder = SentenceEncoder.from_preset(folder)
    print(f"static embeddings of {encoder.width} numbers: {folder}")


if __name__ == "__main__":
    command_line.run(main)
