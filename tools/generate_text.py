r"""Generates texts with a masked language model, or fills the blanks of texts.

    python tools/generate_text.py --model=runs/mini/preset --num_samples=4 --length=12 \
        --sweeps=20 --burn_in=10 --top_k=100
    python tools/generate_text.py --model=runs/mini/preset --num_samples=3 \
        --prompt='She was not [MASK] to be [MASK] .' --method=metropolis_hastings --sweeps=5

A --prompt with [MASK] has these filled; one without is the beginning of texts of --length more
pieces. --input is a file of such texts, a line each (.txt) or a JSON object with "text" a line
(.jsonl), both also with .gz behind; or a table (.csv, .tsv) with a column "text". Without either,
all of a text is generated. --output is a .txt of texts, or a .csv or .jsonl with
pseudo-log-likelihoods, seeds and acceptance rates; without it texts are printed.
"""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from absl import flags

from keras_bert import GenerationOptions, command_line
from keras_bert.storage.paths import check_output
from keras_bert.text.tokenizer_files import read_tokenizer_files

if TYPE_CHECKING:
    from keras_bert.generation.generator import GeneratedText

_SUFFIXES = (".txt", ".csv", ".jsonl")
_COLUMNS = ("text", "log_likelihood", "perplexity", "pieces", "seed", "sample", "acceptance_rate")
_LENGTH = 20

flags.DEFINE_string("model", None, "Model folder of any format, or hf://org/name.")
flags.DEFINE_alias("init_from", "model")
flags.DEFINE_multi_string("prompt", None, "A text with [MASK] in it, or the beginning of texts.")
flags.DEFINE_string("input", None, "File of such texts: .txt or .jsonl, also .gz; or .csv, .tsv.")
flags.DEFINE_string("output", None, "File to write: .txt, .csv or .jsonl (unset: print).")
flags.DEFINE_integer("num_samples", 1, "Texts to generate, of each prompt.", lower_bound=1)
flags.DEFINE_integer(
    "length", None, f"Pieces to generate (unset: {_LENGTH} without a prompt).", lower_bound=1
)
flags.DEFINE_integer("seed", 0, "Seed of the first text; each after it has one more.")
command_line.define_flags(GenerationOptions)
flags.DEFINE_integer("batch_size", 32, "Texts that are sampled at a time.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["model"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, generates, and writes or prints the texts."""
    # 1. What can be refused is refused before the model is opened.
    values = flags.FLAGS
    options = command_line.options_from_flags(GenerationOptions)
    output = values.output and Path(values.output)
    if output:
        check_output(output, *filter(None, [values.input]), name="--output")
        if output.suffix not in _SUFFIXES:
            raise ValueError(f"--output={output} is not one of {', '.join(_SUFFIXES)}: rename it")
    mask = read_tokenizer_files(values.model).vocabulary.special_tokens.mask
    prompts = _prompts(values, options, mask)
    if output and output.suffix == ".txt":
        for prompt in prompts:
            if len(f"{prompt}.".splitlines()) > 1:
                raise ValueError(
                    f"--output={output} has a text a line, but {prompt!r} has line ends: name a "
                    ".csv or .jsonl file"
                )

    # 2. The model.
    from keras_bert import TextGenerator
    from keras_bert.storage.files import atomic_file

    generator = TextGenerator.from_preset(
        values.model, options, values.ignore_config_keys, batch_size=values.batch_size
    )

    # 3. The texts.
    samples = generator.infill(prompts, values.num_samples, values.seed)
    texts = [text for of_prompt in samples for text in of_prompt]
    if not output:
        for text in texts:
            print(f"{text.log_likelihood:9.2f}  {text.text}")
    else:
        with (
            atomic_file(output) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            _write(file, output.suffix, texts)
        print(f"{len(texts):,} texts: {output}")
    rates = [text.acceptance_rate for text in texts if text.acceptance_rate is not None]
    if rates:
        print(f"accepted: {100 * sum(rates) / len(rates):.1f} % of the proposals")


def _prompts(values: flags.FlagValues, options: GenerationOptions, mask: str) -> list[str]:
    """Returns texts with blanks in them, each a mask of the model's, or texts to start from."""
    if values.prompt and values.input:
        raise ValueError("--prompt and --input are both given: leave one of them out")
    if values.input:
        from keras_bert.storage.text_lines import read_texts

        given = [text for text in read_texts(values.input) if text.strip()]
        if not given:
            raise ValueError(f"{values.input} holds no text: give a file with a text a line")
    else:
        given = values.prompt or []
    if options.start == "text":
        if not given or values.length is not None:
            raise ValueError(
                "--start=text samples all pieces of given texts: give --prompt or --input, and no "
                "--length"
            )
        return given
    if not given:
        return [" ".join([mask] * (values.length or _LENGTH))]
    has_blanks = [mask in text for text in given]
    if values.length is not None and any(has_blanks):
        raise ValueError(
            f"--length={values.length} is for texts without {mask}, but one has blanks of its "
            "own: leave it out"
        )
    if values.length is None and not all(has_blanks):
        text = given[has_blanks.index(False)]
        raise ValueError(
            f"{text!r} has no {mask}: put it where pieces are missing, or give the --length to go "
            "on with"
        )
    blanks = [mask] * (values.length or 0)
    return [" ".join([text, *blanks]) for text in given]


def _write(file: IO[str], suffix: str, texts: "Sequence[GeneratedText]") -> None:
    if suffix == ".txt":
        file.writelines(f"{text.text}\n" for text in texts)
        return
    rows = [
        (
            *(text.text, round(text.log_likelihood, 6), float(f"{text.perplexity:.6g}")),
            *(len(text.pieces), text.seed, text.sample, text.acceptance_rate),
        )
        for text in texts
    ]
    if suffix == ".csv":
        table = csv.writer(file)
        table.writerow(_COLUMNS)
        table.writerows(rows)
    else:
        for row in rows:
            values = dict(zip(_COLUMNS, row, strict=True))
            file.write(json.dumps(values, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    command_line.run(main)
