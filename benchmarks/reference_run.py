"""A reference run: an hour of pretraining on two cores, from Debian packages to two tasks.

    python benchmarks/reference_run.py --folder=runs/reference

Ten million words of English, a vocabulary of 8,000, a BERT of 4 layers of 256; then two tasks, from
the pretrained model and from fresh weights. The same command goes on where it was stopped.
"""

from pathlib import Path

import small_pretraining
from absl import app, flags
from small_pretraining import DOWNSTREAM, REFERENCE_STEPS

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", REFERENCE_STEPS, "Steps of pretraining.")


def main(_: list[str]) -> None:
    """Walks the stages and prints what came out."""
    folder = Path(_FOLDER.value)
    small_pretraining.prepare(folder)
    run = small_pretraining.pretrain(folder, "pretraining", "bert_mini", _TRAIN_STEPS.value)
    held_out = small_pretraining.last_metrics(run, "eval")
    all_mask = small_pretraining.held_out_metrics(folder, run)
    print("\n| what | value |\n|---|---|")
    for name in ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy"):
        print(f"| {name}, held out | {held_out[name]:.4f} |")
    print(f"| masked_lm_accuracy, held out, all [MASK] | {all_mask['masked_lm_accuracy']:.4f} |")
    print(f"| most frequent piece | {held_out['most_frequent_piece_accuracy']:.4f} |")
    for name, downstream in DOWNSTREAM.items():
        for start, from_scratch in (("pretrained", False), ("fresh weights", True)):
            accuracy = small_pretraining.finetune(folder, run, name, from_scratch)
            print(f"| {downstream.title}, test accuracy, {start} | {accuracy:.4f} |", flush=True)


if __name__ == "__main__":
    app.run(main)
