"""Pretrains a BERT on records: masked language model and next sentence prediction.

    python tools/run_pretraining.py --data_dir=records/train --eval_data_dir=records/eval \
        --model_dir=runs/mini --model=bert_mini --train_steps=100000 --batch_size=256

The same command goes on from the last checkpoint of a run that was stopped; SIGTERM saves first and
ends with exit status 143, so that whoever started the run knows that it is not done.
"""

import dataclasses
import signal
import sys
from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("data_dir", None, "Folder of records made by create_pretraining_data.py.")
flags.DEFINE_string("eval_data_dir", None, "Folder of held-out records.")
flags.DEFINE_string("model_dir", None, "Run folder; a run that is there is resumed.")
flags.DEFINE_string("model", "bert_base", "Named size (bert_tiny to bert_large) or config.json.")
flags.DEFINE_integer("train_steps", 1_000_000, "The step at which the run ends.")
flags.DEFINE_integer("schedule_steps", None, "The step at which a run that goes on from it ends.")
flags.DEFINE_integer("batch_size", 256, "Sequences per step over all replicas.")
flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
flags.DEFINE_integer("warmup_steps", None, "Steps until the peak; 1 % of all if unset.")
flags.DEFINE_enum(
    "objective", "masked", ["masked", "left_to_right"], "The paper's, or its baseline."
)
flags.DEFINE_float("masked_lm_prob", 0.15, "Rate of the pieces that are chosen.")
flags.DEFINE_float("mask_token_rate", 0.8, "Rate of the chosen pieces that become [MASK].")
flags.DEFINE_float("random_token_rate", 0.1, "Rate of them that become a random piece.")
flags.DEFINE_enum("masking", "token", ["token", "whole_word", "ngram"], "What is hidden as one.")
flags.DEFINE_integer(
    "max_predictions_per_seq", None, "Most masked positions; room for masked_lm_prob if unset."
)
flags.DEFINE_enum(
    "strategy", "auto", ["auto", "tpu", "mirrored", "multi_worker", "cpu"], "Where it runs."
)
flags.DEFINE_string("tpu", None, "Name or address of the TPU; 'local' on a TPU VM.")
flags.DEFINE_enum(
    "mixed_precision", "auto", ["auto", "float32", "bfloat16", "float16"], "Number format."
)
flags.DEFINE_integer("accumulation_steps", 1, "Micro-batches per step and replica.")
flags.DEFINE_integer("steps_per_loop", 0, "Steps per host call; 0 finds about two seconds.")
flags.DEFINE_integer("checkpoint_steps", 1000, "Steps between checkpoints.")
flags.DEFINE_integer("eval_steps", 0, "Steps between evaluations; 0: at the end only.")
flags.DEFINE_integer("keep_checkpoints", 3, "How many checkpoints stay.")
flags.DEFINE_integer("max_skipped_steps", 10, "Steps in a row whose loss may be NaN or infinite.")
flags.DEFINE_bool("next_sentence", True, "Whether the next sentence loss counts.")
flags.DEFINE_float("peak_tflops", None, "What all devices could make; looked up if unset.")
flags.DEFINE_string("init_from", None, "Model folder to start from, or run folder to go on from.")
flags.DEFINE_bool("remat", False, "Compute encoder blocks twice to save memory.")
flags.DEFINE_float("time_budget", None, "Seconds of training; the learning rate follows the clock.")
flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "LAMB is for very large batches.")
flags.DEFINE_enum(
    "schedule",
    "linear",
    ["linear", "polynomial", "cosine", "constant", "warmup_stable_decay"],
    "What follows the warmup.",
)
flags.DEFINE_float("weight_decay_rate", 0.01, "Weight decay.")
flags.DEFINE_bool("bias_correction", False, "Bias-corrected Adam: better for short runs.")
flags.DEFINE_integer("seed", 0, "Seed of masks, order, dropout and initial weights.")
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["data_dir", "model_dir"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and pretrains."""
    from keras_bert.pretraining.pretrain import PretrainingOptions, load_config, pretrain
    from keras_bert.storage.remote_folders import local_copy, run_location
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.training.cluster import is_chief
    from keras_bert.training.strategy import create_strategy
    from keras_bert.visualize.pretraining_report import write_pretraining_report

    values = flags.FLAGS.flag_values_dict()
    names = [field.name for field in dataclasses.fields(PretrainingOptions)]
    values["ignore_config_keys"] = tuple(values["ignore_config_keys"])
    options = PretrainingOptions(**{name: values[name] for name in names})
    vocabulary = Vocabulary.from_file(f"{local_copy(options.data_dir)}/vocab.txt")
    config = load_config(values["model"], len(vocabulary), options.ignore_config_keys)
    strategy = create_strategy(values["strategy"], values["tpu"])
    metrics = pretrain(config, options, strategy)
    if metrics is None:
        sys.exit(128 + signal.SIGTERM)  # as of any process that it ended: this run is not done
    if not is_chief(strategy):
        return
    for name, value in metrics.items():
        print(f"{name:32}{value:10.4f}")
    location = run_location(options.model_dir)
    write_pretraining_report(location.local)
    location.upload()
    print(f"report: {options.model_dir}/report.md")
    print(f"model folder: {options.model_dir}/preset")


if __name__ == "__main__":
    command_line.run(main)
