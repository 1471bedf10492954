"""Writes TriviaQA's questions as SQuAD's, to fine-tune on before SQuAD.

    python tools/convert_triviaqa.py --data=triviaqa-rc --output=triviaqa

--data is the unpacked archive triviaqa-rc with the folders qa and evidence. The folder it writes is
data of run_finetuning.py --task=squad.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("data", None, "Folder with qa and evidence, as triviaqa-rc has them.")
flags.DEFINE_string("output", None, "Folder to write train.json, dev.json and test.json into.")
flags.DEFINE_enum("domain", "wikipedia", ["wikipedia", "web"], "Which of its two data sets.")
flags.DEFINE_integer(
    "max_words", 400, "How many words of a document are kept; 400 as in the paper."
)
flags.mark_flags_as_required(["data", "output"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, converts and prints what became of the questions."""
    from keras_bert import convert_triviaqa

    values = flags.FLAGS
    counts = convert_triviaqa(values.data, values.output, values.domain, values.max_words)
    print(f"{'split':8}{'written':>10}{'with answer':>13}{'left out':>10}{'no document':>13}")
    for split, count in counts.items():
        print(
            f"{split:8}{count.written:10,}{count.with_answer:13,}{count.left_out:10,}"
            f"{count.missing:13,}"
        )


if __name__ == "__main__":
    command_line.run(main)
