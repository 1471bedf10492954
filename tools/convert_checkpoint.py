"""Converts a model folder between our format, Google's, Hugging Face's and Model Garden's.

The source's format is found out from its files. The target is written whole or not at all, with
vocabulary and tokenizer settings. A parity report follows: what became of every tensor, and how far
the activations of source and result differ where the library that owns one of them is installed.

    python tools/convert_checkpoint.py --from=uncased_L-12_H-768_A-12 --to=bert_base_hf --format=hf
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from keras_bert import command_line
from keras_bert.checkpoints import hub
from keras_bert.files import atomic_folder
from keras_bert.models import conversion
from keras_bert.text import tokenizer_config

_FROM = flags.DEFINE_string("from", None, "Model folder, or hf://org/name.", required=True)
_TO = flags.DEFINE_string("to", None, "Folder to write; it must not exist yet.", required=True)
_FORMAT = flags.DEFINE_enum(
    "format", "keras", ["keras", "google", "hf", "garden"], "Format of the result."
)


def main(_: Sequence[str]) -> None:
    """Converts, writes the tokenizer's files beside the weights, and prints the report."""
    source, target = hub.local_folder(_FROM.value), Path(_TO.value)
    if target.exists():
        raise FileExistsError(f"{target} exists: give a new folder to --to, or remove it first")
    with atomic_folder(target) as temporary:
        report = conversion.convert(source, temporary, _FORMAT.value)
        tokenizer = _convert_tokenizer(source, temporary, report.checkpoint.config.vocab_size)
    print(f"{report}\ntokenizer:       {tokenizer}\nwritten to {target}")


def _convert_tokenizer(source: Path, target: Path, vocab_size: int) -> str:
    try:
        vocabulary, settings = tokenizer_config.read(source)
    except FileNotFoundError:
        return "none: the source holds no vocabulary"
    vocabulary.check_size(vocab_size)
    vocabulary.save(target / "vocab.txt")
    tokenizer_config.write(target, settings)
    return f"{len(vocabulary)} pieces, {'un' if settings.lowercase else ''}cased"


if __name__ == "__main__":
    command_line.run(main)
