"""A step of pretraining: ours, Hugging Face, KerasHub and Model Garden.

    make benchmark NAME=training_speed ARGS='--model=bert_base --dtype=bfloat16'

Fresh weights, random pieces, the same shapes for all: full sequences, 20 predictions in 128 pieces,
dropout 0.1, AdamW with weight decay. Each side is written as its own users train: Hugging Face
predicts every position and ignores all but the masked ones; KerasHub has no next sentence task.
On a GPU, XLA compiles the steps of the three TensorFlow libraries, and PyTorch is measured with
`torch.compile`, too (on a processor only with --sides='ours,Hugging Face compiled').
Beside the time of a step stands the time that the products of its dense layers and of the output
matrix would take at the rate at which TensorFlow multiplies matrices of these shapes; of the last
block those that a loss reads.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contest
import numpy as np
from absl import app, flags

flags.DEFINE_enum("model", "bert_base", ["bert_tiny", "bert_small", "bert_base"], "Size.")
flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Number format of the products.")
flags.DEFINE_integer("batch_size", 8, "Sequences in a step.", lower_bound=1)
flags.DEFINE_integer("length", 128, "Pieces of a sequence.", lower_bound=8)
flags.DEFINE_integer("steps", 3, "Steps of a round.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Rounds of each side.", lower_bound=1)
flags.DEFINE_list("sides", [], "Which sides; all by default.")
flags.DEFINE_string("side", None, "Run as this side (the benchmark starts itself so).")

FLAGS = flags.FLAGS
THREADS = len(os.sched_getaffinity(0))
SIZES = {"bert_tiny": (2, 128), "bert_small": (4, 512), "bert_base": (12, 768)}
VOCABULARY = 30522
Step = Callable[[], Any]


def on_gpu() -> bool:
    """Tells whether TensorFlow computes on a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def batch() -> dict[str, np.ndarray]:
    """Returns a batch of random pieces, all arrays int32 [B, ...]."""
    random = np.random.default_rng(0)
    shape = (FLAGS.batch_size, FLAGS.length)
    predictions = max(1, 20 * FLAGS.length // 128)
    positions = np.stack(
        [np.sort(random.permutation(FLAGS.length)[:predictions]) for _ in range(FLAGS.batch_size)]
    )
    arrays = {
        "input_ids": random.integers(1000, VOCABULARY, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "masked_lm_positions": positions,
        "masked_lm_ids": random.integers(1000, VOCABULARY, positions.shape),
        "next_sentence_labels": random.integers(0, 2, [FLAGS.batch_size, 1]),
    }
    return {name: values.astype(np.int32) for name, values in arrays.items()}


def ours() -> Step:
    """Returns the step that tools/run_pretraining.py runs."""
    import tensorflow as tf

    from keras_bert import BertConfig, BertPretrainer, create_optimizer
    from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
    from keras_bert.pretraining.step import PretrainingStep, make_training_loop
    from keras_bert.training.precision import dtype_policy
    from keras_bert.training.strategy import compiles_step

    config = BertConfig.from_name(FLAGS.model)
    model = BertPretrainer(config, seed=0, dtype=dtype_policy(FLAGS.dtype))
    optimizer = create_optimizer(1e-4, train_steps=1000, warmup_steps=10)
    optimizer.build(model.trainable_variables)
    examples = {name: tf.constant(values) for name, values in batch().items()}
    examples["masked_lm_weights"] = tf.ones_like(examples["masked_lm_ids"], tf.float32)
    data = iter(tf.data.Dataset.from_tensors(examples).repeat())
    step = PretrainingStep(
        model, optimizer, MaskedLanguageModel(), seed=0, compiled=compiles_step()
    )
    loop = make_training_loop(step, tf.distribute.get_strategy())
    return lambda: loop(data, tf.constant(1)).losses.numpy()


def hugging_face(compiled: bool = False) -> Step:
    """Returns a step of BertForPreTraining in PyTorch; bfloat16 is autocast."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    torch.set_num_threads(THREADS)
    device = contest.torch_device()
    layers, width = SIZES[FLAGS.model]
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    model = BertForPreTraining(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    arrays = {name: torch.from_numpy(values).long().to(device) for name, values in batch().items()}
    forward = torch.compile(model) if compiled else model
    labels = torch.full_like(arrays["input_ids"], -100)
    labels.scatter_(1, arrays["masked_lm_positions"], arrays["masked_lm_ids"])

    def step() -> float:
        with torch.autocast(device, torch.bfloat16, enabled=FLAGS.dtype == "bfloat16"):
            loss = forward(
                input_ids=arrays["input_ids"],
                attention_mask=arrays["input_mask"],
                token_type_ids=arrays["segment_ids"],
                labels=labels,
                next_sentence_label=arrays["next_sentence_labels"][:, 0],
            ).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def keras_hub() -> Step:
    """Returns a step of KerasHub's masked language model under `fit`."""
    import keras
    import keras_hub

    keras.config.set_dtype_policy("mixed_bfloat16" if FLAGS.dtype == "bfloat16" else "float32")
    layers, width = SIZES[FLAGS.model]
    backbone = keras_hub.models.BertBackbone(
        VOCABULARY, layers, width // 64, width, 4 * width, dropout=0.1, max_sequence_length=512
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=False),
        jit_compile=on_gpu(),  # what "auto" means
    )
    arrays = batch()
    inputs = {
        "token_ids": arrays["input_ids"],
        "padding_mask": arrays["input_mask"],
        "segment_ids": arrays["segment_ids"],
        "mask_positions": arrays["masked_lm_positions"],
    }
    return lambda: model.train_on_batch(inputs, arrays["masked_lm_ids"])


def model_garden() -> Step:
    """Returns a step of Model Garden's BertPretrainerV2 in a `tf.function`."""
    import tensorflow as tf
    import tf_keras
    from official.nlp.modeling import layers, models, networks

    policy = "mixed_bfloat16" if FLAGS.dtype == "bfloat16" else "float32"
    tf_keras.mixed_precision.set_global_policy(policy)
    depth, width = SIZES[FLAGS.model]
    encoder = networks.BertEncoder(
        VOCABULARY,
        num_layers=depth,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        dict_outputs=True,
    )
    head = layers.ClassificationHead(inner_dim=width, num_classes=2, name="next_sentence")
    model = models.BertPretrainerV2(encoder_network=encoder, classification_heads=[head])
    optimizer = tf_keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    examples = {name: tf.constant(values) for name, values in batch().items()}
    inputs = {
        "input_word_ids": examples["input_ids"],
        "input_mask": examples["input_mask"],
        "input_type_ids": examples["segment_ids"],
        "masked_lm_positions": examples["masked_lm_positions"],
    }
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=on_gpu())
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = cross_entropy(
                examples["masked_lm_ids"], tf.cast(outputs["mlm_logits"], tf.float32)
            ) + cross_entropy(
                examples["next_sentence_labels"], tf.cast(outputs["next_sentence"], tf.float32)
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda: step().numpy()


SIDES = {
    "ours": ours,
    "Hugging Face": hugging_face,
    "Hugging Face compiled": partial(hugging_face, compiled=True),
    "KerasHub": keras_hub,
    "Model Garden": model_garden,
}
flags.register_validator(
    "sides", lambda sides: {*sides} <= SIDES.keys(), f"choose from {', '.join(SIDES)}"
)


def matrix_products() -> list[tuple[int, int, int, int]]:
    """Returns how often, M, K and N of the products [M, K] x [K, N] of a forward pass."""
    layers, width = SIZES[FLAGS.model]
    tokens = FLAGS.batch_size * FLAGS.length
    predictions = FLAGS.batch_size * max(1, 20 * FLAGS.length // 128)
    read = FLAGS.batch_size + predictions  # of the last block: [CLS] and the predicted pieces
    rest = [(width, width), (width, 4 * width), (4 * width, width)]
    return [
        (layers, tokens, width, 3 * width),
        *((layers - 1, tokens, *shape) for shape in rest),
        *((1, read, *shape) for shape in rest),
        (1, predictions, width, VOCABULARY),
    ]


def limit() -> Step:
    """Returns the matrix products of a step and nothing else: forward, and two gradients each."""
    import tensorflow as tf

    dtype = tf.as_dtype(FLAGS.dtype)
    random = tf.random.stateless_uniform
    operands = [
        (count, *(tf.cast(random(shape, [1, 2]), dtype) for shape in ((m, k), (k, n), (m, n))))
        for count, m, k, n in matrix_products()
    ]

    @tf.function
    def products(x: tf.Tensor, w: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        found = (
            tf.matmul(x, w),
            tf.matmul(y, w, transpose_b=True),
            tf.matmul(x, y, transpose_a=True),
        )
        return tf.stack([product[0, 0] for product in found])  # of which one waits for the device

    def step() -> None:
        found = [products(x, w, y) for count, x, w, y in operands for _ in range(count)]
        tf.stack(found).numpy()

    return step


def work(name: str) -> None:
    """Is a side."""
    start = time.perf_counter()
    step = {**SIDES, "matrix products": limit}[name]()
    step()
    first = time.perf_counter() - start
    step()
    contest.answer_rounds(lambda: contest.measured(step, FLAGS.steps), first_step=first)


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    if FLAGS.side:
        work(FLAGS.side)
        return
    from keras_bert import BertConfig
    from keras_bert.training.flops import pretraining_flops

    sides = FLAGS.sides or [name for name in SIDES if on_gpu() or "compiled" not in name]
    names = [*sides, "matrix products"]
    sides = contest.run(names, FLAGS.rounds, sys.argv)
    floor = sides[-1].median("seconds")
    predictions = max(1, 20 * FLAGS.length // 128)
    operations = pretraining_flops(
        BertConfig.from_name(FLAGS.model), FLAGS.batch_size, FLAGS.length, predictions
    )
    own = sides[0].median("seconds")  # ours, or the first that was asked for
    print(
        f"\n{FLAGS.model}, {FLAGS.dtype}, batch {FLAGS.batch_size}, length {FLAGS.length}\n\n"
        f"| side | a step, s | x {sides[0].name} | x matrix products | of the processors, s "
        "| memory, MB | first step after, s | model TFLOP/s |\n|---|---|---|---|---|---|---|---|"
    )
    for side in sides:
        seconds = side.median("seconds")
        print(
            f"| {side.name} | {seconds:.4f} | {seconds / own:.2f} | {seconds / floor:.2f} "
            f"| {side.median('processor'):.3f} | {side.median('peak_mb'):,.0f} "
            f"| {side.facts['first_step']:.1f} | {operations / seconds / 1e12:.2f} |"
        )


if __name__ == "__main__":
    app.run(main)
