"""A reference run: an hour of pretraining on two cores, from Debian packages to two tasks.

    make benchmark NAME=reference_run ARGS='--folder=runs/reference'

Ten million words of English, a vocabulary of 8,000, a BERT of 4 layers of 256; then two tasks, from
the pretrained model and from fresh weights. The same command goes on where it was stopped.
"""

from pathlib import Path

from absl import app, flags
from small_pretraining import COMMON, REVIEWS, START, VERSES, SmallPretraining, last_metrics

from keras_bert import BertConfig

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", 6000, "Steps of pretraining.")


def main(_: list[str]) -> None:
    """Walks the stages and prints what came out."""
    stages = SmallPretraining(
        Path(_FOLDER.value), 128, _TRAIN_STEPS.value, learning_rate=1e-3, tasks=(VERSES, REVIEWS)
    )
    stages.prepare()
    run = stages.pretrain("pretraining", BertConfig.from_name("bert_mini", **COMMON, **START))
    held_out, all_mask = last_metrics(run, "eval"), stages.held_out_metrics(run)
    print("\n| what | value |\n|---|---|")
    for name in ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy"):
        print(f"| {name}, held out | {held_out[name]:.4f} |")
    print(f"| masked_lm_accuracy, held out, all [MASK] | {all_mask['masked_lm_accuracy']:.4f} |")
    print(f"| most frequent piece | {held_out['most_frequent_piece_accuracy']:.4f} |")
    for task in stages.tasks:
        for start, from_scratch in (("pretrained", False), ("fresh weights", True)):
            score = stages.finetune(run, task, from_scratch)
            print(f"| {task.title}, {task.metric}, {start} | {score:.4f} |", flush=True)


if __name__ == "__main__":
    app.run(main)
