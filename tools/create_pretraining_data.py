r"""Makes pretraining records from a corpus: pairs of segments as TFRecords, not masked yet.

    python tools/create_pretraining_data.py --input='books/*.txt' --vocab=vocab/vocab.txt \
        --output_dir=records/train --max_seq_length=128 --num_workers=2

Masks are drawn when the records are read, so that every epoch sees new ones; --static_masking
stores them in the schema of google-research/bert instead. The same seed gives the same bytes
whatever the number of workers. A job that was killed goes on where it was when it is started again.

A corpus that outgrows one machine goes through Apache Beam; Beam's own options stand behind --:

    python tools/create_pretraining_data.py --runner=beam --input='gs://bucket/*.txt' \
        --vocab=vocab/vocab.txt --output_dir=gs://bucket/records --num_shards=500 \
        -- --runner=DataflowRunner --project=name --temp_location=gs://bucket/tmp
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from keras_bert import command_line

if TYPE_CHECKING:
    from keras_bert.data.creation.options import CreationOptions
    from keras_bert.data.records.manifest import Manifest

flags.DEFINE_list("input", None, "Files, globs (.txt, .jsonl, .parquet, compressed), tfds:name.")
flags.DEFINE_string("vocab", None, "vocab.txt; a tokenizer_config.json beside it is honoured.")
flags.DEFINE_string("output_dir", None, "Folder of records to make.")
flags.DEFINE_integer("max_seq_length", 128, "The longest example in pieces.")
flags.DEFINE_integer("dupe_factor", 10, "Passes over the corpus, each cut and paired differently.")
flags.DEFINE_integer("seed", 12345, "Where all randomness comes from.")
flags.DEFINE_integer("num_shards", 8, "Number of files.")
flags.DEFINE_integer("num_workers", 1, "Number of processes.")
flags.DEFINE_enum("sentence_task", "nsp", ["nsp", "sop", "none"], "What segments are paired for.")
flags.DEFINE_bool("cross_documents", False, "Go on in the next document; for --sentence_task=none.")
flags.DEFINE_bool("pack", False, "Put short documents together; for --sentence_task=none.")
flags.DEFINE_bool("static_masking", False, "Store masks, in the schema of google-research/bert.")
flags.DEFINE_enum("masking", "token", ["token", "whole_word", "ngram"], "What is hidden as one.")
flags.DEFINE_integer("max_predictions_per_seq", None, "Most stored masks of a sequence.")
flags.DEFINE_float("masked_lm_prob", 0.15, "Rate of the pieces that static masks choose.")
flags.DEFINE_float("mask_token_rate", 0.8, "Rate of the chosen that become [MASK].")
flags.DEFINE_float("random_token_rate", 0.1, "Rate of the chosen that become a random one.")
flags.DEFINE_float("short_seq_prob", 0.1, "How often a document is cut into shorter examples.")
flags.DEFINE_string("text_field", "text", "Field or column that holds the text.")
flags.DEFINE_enum("errors", "strict", ["strict", "replace"], "What to do with bytes not in UTF-8.")
flags.DEFINE_enum("runner", "local", ["local", "beam"], "Processes of this machine, or Beam.")
flags.mark_flags_as_required(["input", "vocab", "output_dir"])


def main(_: Sequence[str], beam_arguments: Sequence[str] = ()) -> None:
    """Reads the flags, makes the records and tells what was made."""
    from keras_bert.data.creation.options import CreationOptions

    values = flags.FLAGS.flag_values_dict() | {"inputs": tuple(flags.FLAGS.input)}
    names = [field.name for field in dataclasses.fields(CreationOptions)]
    options = CreationOptions(**{name: values[name] for name in names})
    manifest = _create(options, values["runner"], beam_arguments)
    print(
        f"{manifest.examples:,} examples of {manifest.tokens:,} pieces from "
        f"{manifest.documents:,} documents of {manifest.corpus_tokens:,} pieces "
        f"({manifest.unknown_tokens:,} [UNK]); {100 * manifest.fill_rate:.1f} % of "
        f"{manifest.max_seq_length} filled; label 1: "
        f"{100 * manifest.label_counts[1] / manifest.examples:.1f} %"
    )
    if manifest.lone_document_units and manifest.sentence_task == "nsp":
        print(
            f"note: {manifest.lone_document_units} part(s) of the corpus hold a single document, "
            "so that all their pairs are true ones: put blank lines between documents"
        )


def _create(options: CreationOptions, runner: str, beam_arguments: Sequence[str]) -> Manifest:
    if runner == "beam":
        if options.num_workers > 1:
            raise ValueError(
                f"num_workers is {options.num_workers}, but the workers of --runner=beam are "
                "Beam's: put its own options behind --"
            )
        try:
            from keras_bert.data.creation.beam import create_pretraining_data_with_beam
        except ImportError as error:
            raise ValueError(
                f"--runner=beam needs Apache Beam ({error}): pip install 'keras-bert-tpu[beam]'"
            ) from None
        return create_pretraining_data_with_beam(options, beam_arguments)
    if beam_arguments:
        raise ValueError(f"{beam_arguments[0]} stands behind --, where --runner=beam has options")
    from keras_bert.data.creation.create import create_pretraining_data

    return create_pretraining_data(options)


def _split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments of this tool and those behind "--"."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


if __name__ == "__main__":
    sys.argv, behind = _split_arguments(sys.argv)
    command_line.run(lambda arguments: main(arguments, behind))
