"""What padding costs: an epoch on reviews with every row padded to 512 and with sorted batches.

    make benchmark NAME=padding ARGS='--examples=2000'

Both train the same model on the same texts with the same settings, one after the other.
"""

import tempfile
import time
from pathlib import Path

import food_reviews
import keras
import packages
from absl import app, flags

_EXAMPLES = flags.DEFINE_integer("examples", 4000, "Reviews to train on.", lower_bound=32)
_LENGTH = 512
_BATCH = 16


def main(_: list[str]) -> None:
    """Prints seconds of an epoch and test accuracy of both, and the ratio."""
    from keras_bert import BertClassifier, BertTokenizer, FinetuningOptions, create_task
    from keras_bert.finetuning.inference import InferenceRunner
    from keras_bert.finetuning.metrics import accuracy
    from keras_bert.finetuning.model_preparation import finetuning_optimizer
    from keras_bert.tasks.classification.head import LabeledTexts
    from keras_bert.training.precision import dtype_policy

    task = create_task("csv")
    with tempfile.TemporaryDirectory() as folder:
        data = task.read(food_reviews.write(Path(folder)))
    train, test = data.splits["train"], data.splits["test"]
    count = _EXAMPLES.value
    train = LabeledTexts(train.texts[:count], None, train.labels[:count])
    tokenizer = BertTokenizer.from_preset(packages.minilm())
    head = task.head.with_labels(data.labels)
    test_rows = head.encode(tokenizer, test, _LENGTH, "tokenizing")
    seconds = {}
    for name, lengths in (("padded to 512", [_LENGTH]), ("sorted", None)):
        keras.utils.set_random_seed(0)
        model = BertClassifier.from_preset(
            str(packages.minilm()), num_classes=2, seed=0, dtype=dtype_policy("auto")
        )
        rows = head.encode(tokenizer, train, _LENGTH, "tokenizing")
        if lengths:
            rows.fixed_lengths(lengths)
        batches = rows.training_batches(_BATCH, seed=0)
        options = FinetuningOptions(epochs=1, learning_rate=5e-5)
        optimizer = finetuning_optimizer(model, options, len(batches))
        model.compile(optimizer, head.loss(), jit_compile=False)
        model.fit(batches.epoch(1).take(2), verbose=0)  # tracing is not what is measured
        started = time.perf_counter()
        model.fit(batches.epoch(0), verbose=0)
        seconds[name] = time.perf_counter() - started
        outputs = InferenceRunner(model)(test_rows, _BATCH).outputs
        predictions = head.predictions(outputs, test_rows, test)
        print(
            f"{name:16}{seconds[name]:8.1f} s an epoch, test accuracy "
            f"{accuracy(predictions, test.labels):.4f}",
            flush=True,
        )
    padded, ours = seconds.values()
    print(f"ratio {padded / ours:.1f}")


if __name__ == "__main__":
    app.run(main)
