r"""Pretrains a BERT on records: masked language model and next sentence prediction.

    python tools/run_pretraining.py --data_dir=records/train --eval_data_dir=records/eval \
        --model_dir=runs/mini --model=bert_mini --train_steps=100000 --batch_size=256 \
        --bias_correction

The same command goes on from the last checkpoint of a run that was stopped; SIGTERM saves first and
ends with exit status 143, so that whoever started the run knows that it is not done.
"""

import signal
import sys
from collections.abc import Sequence
from typing import get_args

from absl import flags

from keras_bert import PretrainingOptions, command_line
from keras_bert.choices import StrategyName

command_line.define_flags(PretrainingOptions)
flags.DEFINE_string(
    "model", "bert_base", "Named size (bert_base, albert_base, roberta_base, ...) or config.json."
)
flags.DEFINE_enum("strategy", "auto", get_args(StrategyName), "Where it runs.")
flags.DEFINE_string("tpu", None, "Name or address of the TPU; 'local' on a TPU VM.")


def main(_: Sequence[str]) -> None:
    """Reads the flags and pretrains."""
    from keras_bert import pretrain
    from keras_bert.pretraining.inputs import tokenizer_folder
    from keras_bert.pretraining.pretrain import load_config
    from keras_bert.storage.remote_folders import local_copy, run_location
    from keras_bert.text.tokenizer_files import read_tokenizer_files
    from keras_bert.training.cluster import is_chief
    from keras_bert.training.strategy import create_strategy
    from keras_bert.visualize.pretraining_report import write_pretraining_report

    values = flags.FLAGS
    options = command_line.options_from_flags(PretrainingOptions)
    # Files are looked at here, so that a wrong name is told at once; nothing is computed before
    # workers, or the chips of a TPU, have met.
    vocabulary = read_tokenizer_files(local_copy(tokenizer_folder(options.data_dir))).vocabulary
    config = load_config(
        values.model, len(vocabulary), options.ignore_config_keys, vocabulary.pad_id
    )
    strategy = create_strategy(values.strategy, values.tpu)
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
