"""Which batch fits into the memory of a GPU: the table of docs/faq.md, from the sizes of tensors.

    make benchmark NAME=memory_table
    make benchmark NAME=memory_table ARGS='--check'

What a training step keeps, without XLA, in bytes; N weights, L layers of width H with A heads and
a feed-forward layer of width I, sequences of S, c bytes a number (2 in bfloat16 and float16):

    weights, gradients, two moments   16 N, and c N for their copies in c bytes
    a token in a block                c (10 H + 2 I) + 4 I + (4 + 2 c) A S
        input and output of both norms, query, key, value, context, two dropout masks: 10 H
        the feed-forward layer before and after its activation: 2 I; of the exact GELU also the
        probability, in float32
        attention: probabilities in float32, mask and dropped probabilities in c bytes
    a predicted position              12 V: logits over V pieces, their gradient, the softmax

The backward pass of a block needs about as much once more. With --remat a block keeps its input
(c H a token), and one block at a time is whole. A gibibyte is left to the driver and its libraries,
a tenth of the rest to fragmentation. `--check` measures the processor's memory for steps of two
batch sizes and prints what a sequence takes beside what is computed.
"""

import math
import sys
from collections.abc import Sequence

from absl import app, flags
from measured_process import run_measured

from keras_bert import BertConfig
from keras_bert.training.memory import block_activations

_DTYPE = flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Numbers of a step.")
_CHECK = flags.DEFINE_bool("check", False, "Measure steps on the processor in place of the table.")

_GIB = 2**30
_GIGABYTES = (8, 12, 16, 24, 40, 80)
_MODELS = ("bert_medium", "bert_base", "bert_large")
_LENGTHS = (128, 256, 512)
_PREDICTED = 0.15  # of the positions, in pretraining
_CHECK_BATCHES = (4, 16)
_STEP = """
import keras, numpy as np
from keras_bert import BertClassifier, BertConfig, create_optimizer
keras.config.set_dtype_policy({policy!r})
config = BertConfig(num_hidden_layers={layers}, vocab_size=1000)
model = BertClassifier(config, num_classes=2)
model.compile(create_optimizer(1e-5, 10, 1), keras.losses.SparseCategoricalCrossentropy(
    from_logits=True), jit_compile=False)
ids = np.ones(({batch}, {length}), np.int32)
inputs = dict(input_ids=ids, input_mask=ids, segment_ids=0 * ids)
for _ in range(2):
    model.train_on_batch(inputs, np.zeros({batch}, np.int32))
"""


def weights(config: BertConfig) -> int:
    """Returns the number of weights of an encoder with its pooler, N."""
    hidden, inner = config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    block = 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner + hidden + 4 * hidden
    return rows * hidden + 2 * hidden + config.num_hidden_layers * block + hidden * (hidden + 1)


def block_bytes(config: BertConfig, length: int, number_bytes: int) -> int:
    """Returns what a block keeps of one sequence for the backward pass, without XLA."""
    # Of the exact GELU its probability is kept, too, in float32.
    gelu = 4 * config.intermediate_size * length
    return block_activations(config, length, number_bytes) + gelu


def sequence_bytes(
    config: BertConfig, length: int, number_bytes: int, pretraining: bool, remat: bool
) -> int:
    """Returns what a sequence of a batch takes in a training step."""
    block = block_bytes(config, length, number_bytes)
    kept = number_bytes * length * config.hidden_size if remat else block
    total = config.num_hidden_layers * kept + block
    if remat:
        total += block  # the one that is computed again
    if pretraining:
        total += math.ceil(_PREDICTED * length) * 12 * config.vocab_size
    return total


def largest_batch(
    config: BertConfig, length: int, gigabytes: int, pretraining: bool, remat: bool, dtype: str
) -> int:
    """Returns the largest batch that fits, down to a multiple of 8 from 8 on; 0 where none does."""
    number_bytes = 4 if dtype == "float32" else 2
    fixed = weights(config) * (16 + (number_bytes if number_bytes < 4 else 0))
    free = 0.9 * (gigabytes - 1) * _GIB - fixed
    batch = max(0, int(free // sequence_bytes(config, length, number_bytes, pretraining, remat)))
    return batch // 8 * 8 if batch >= 8 else batch


def main(_: Sequence[str]) -> None:
    """Prints the table, or the comparison."""
    if _CHECK.value:
        _check()
        return
    for pretraining, name in ((False, "fine-tuning"), (True, "pretraining")):
        columns = " | ".join(f"{gigabytes} GB" for gigabytes in _GIGABYTES)
        print(f"\n| {name}, {_DTYPE.value} | length | {columns} |")
        print("|---|---|" + "---|" * len(_GIGABYTES))
        for model in _MODELS:
            config = BertConfig.from_name(model)
            for length in _LENGTHS:
                cells = [_cell(config, length, size, pretraining) for size in _GIGABYTES]
                print(f"| `{model}` | {length} | {' | '.join(cells)} |")


def _cell(config: BertConfig, length: int, gigabytes: int, pretraining: bool) -> str:
    plain, remat = (
        largest_batch(config, length, gigabytes, pretraining, again, _DTYPE.value)
        for again in (False, True)
    )
    return f"{plain:,} ({remat:,})" if remat else "–"


def _check() -> None:
    number_bytes = 4 if _DTYPE.value == "float32" else 2
    policy = "float32" if number_bytes == 4 else "mixed_bfloat16"
    print("| layers | length | a sequence, measured MB | computed MB |\n|---|---|---|---|")
    for layers, length in ((2, 128), (4, 128), (2, 512), (4, 512)):
        config = BertConfig(num_hidden_layers=layers, vocab_size=1000)
        peaks = []
        for batch in _CHECK_BATCHES:
            code = _STEP.format(policy=policy, layers=layers, length=length, batch=batch)
            cost = run_measured([sys.executable, "-c", code], TF_CPP_MIN_LOG_LEVEL="3")
            peaks.append(cost.peak_bytes)
        small, large = _CHECK_BATCHES
        measured = (peaks[1] - peaks[0]) / (large - small)
        computed = sequence_bytes(config, length, number_bytes, False, False)
        print(f"| {layers} | {length} | {measured / 1e6:.1f} | {computed / 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    app.run(main)
