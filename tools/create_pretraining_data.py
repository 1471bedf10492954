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

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from keras_bert import CreationOptions, command_line

if TYPE_CHECKING:
    from keras_bert.data.records.manifest import Manifest

flags.DEFINE_list("input", None, "Files, globs (.txt, .jsonl, .parquet, compressed), tfds:name.")
command_line.define_flags(CreationOptions, without=["inputs"])
flags.DEFINE_enum("runner", "local", ["local", "beam"], "Processes of this machine, or Beam.")
flags.mark_flag_as_required("input")


def main(_: Sequence[str], beam_arguments: Sequence[str] = ()) -> None:
    """Reads the flags, makes the records and tells what was made."""
    inputs = tuple(flags.FLAGS.input)
    options = command_line.options_from_flags(CreationOptions, inputs=inputs)
    manifest = _create(options, flags.FLAGS.runner, beam_arguments)
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
    if manifest.unused_sentences:
        print(
            f"note: {manifest.unused_sentences:,} document(s) of a single sentence "
            f"({manifest.unused_tokens:,} pieces) are in no example, because there is no other to "
            "swap it with: join them to longer documents, or use --sentence_task=none"
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
                f"--runner=beam needs Apache Beam ({error}): pip install apache-beam"
            ) from None
        return create_pretraining_data_with_beam(options, beam_arguments)
    if beam_arguments:
        raise ValueError(f"{beam_arguments[0]} stands behind --, where --runner=beam has options")
    from keras_bert import create_pretraining_data

    return create_pretraining_data(options)


def _split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments of this tool and those behind "--"."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


if __name__ == "__main__":
    sys.argv, behind = _split_arguments(sys.argv)
    command_line.run(lambda arguments: main(arguments, behind))
