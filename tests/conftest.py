"""What tests share: two logical devices, tiny models of every head and a task to learn."""

import csv
import fcntl
import gc
import os
import random
import shutil
import zlib
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests import tolerances  # noqa: E402

# Two logical processors, so that tests of distribution have two replicas. This must come before
# anything else touches a device.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

# On a GPU, products of float32 would be rounded to ten bits.
tf.config.experimental.enable_tensor_float_32_execution(False)

# Tracing makes objects by the hundred thousand, and hardly any is garbage: the collector's usual
# threshold of 700 costs a twentieth of all tests' time.
gc.set_threshold(100_000, 20, 50)

# Each holds a test of minutes. They come first, so that no core waits for them at the end.
LONGEST = (
    *("test_pretraining_interruption.py", "test_pretraining_workers.py", "test_quickstart.py"),
    *("test_commands.py", "test_notebooks.py", "test_fresh_environment.py", "test_backends.py"),
)


# The same examples each time, and no verdict by the clock.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

TOLERANCES = {name for name in vars(tolerances) if name.isupper()}


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses among the items
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        if not TOLERANCES.isdisjoint(vars(item.module)):
            item.add_marker(pytest.mark.numerical)


def _seed(name):
    """Seeds what initial weights and random arrays are drawn with."""
    seed = zlib.crc32(name.encode())
    random.seed(seed)  # Keras draws the seeds of initializers and of dropout with it
    np.random.seed(seed)


# A test, and a fixture of many, has the same random weights wherever and behind whatever it runs.
@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    _seed(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', None)}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    _seed(item.nodeid)


WORDS = "good great fine nice bad awful poor sad the a film was very it and book".split()
POSITIVE, NEGATIVE, FILLER = WORDS[:4], WORDS[4:8], WORDS[8:]


def sentiment_rows(count, seed):
    """Sentences whose one telling word decides their label."""
    draw = random.Random(seed)
    for _ in range(count):
        label = draw.choice(["neg", "pos"])
        told = draw.choice(POSITIVE if label == "pos" else NEGATIVE)
        words = draw.choices(FILLER, k=draw.randint(1, 6))
        words.insert(draw.randint(0, len(words)), told)
        yield " ".join(words), label


def write_csv(path: Path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


@pytest.fixture(scope="session")
def pretrained_folder(tmp_path_factory):
    """A model folder of one layer, 32 wide, with 64 positions and random weights."""
    import keras

    from keras_bert import BertConfig, BertEncoder, BertTokenizer
    from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

    vocabulary = Vocabulary([*SPECIAL_TOKENS, *WORDS])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    folder = tmp_path_factory.mktemp("models") / "pretrained"
    keras.utils.set_random_seed(1)
    BertEncoder(config).save_to_preset(folder, BertTokenizer(vocabulary))
    return folder


@pytest.fixture(scope="session")
def without_dropout(pretrained_folder, tmp_path_factory):
    """The same model in a folder without dropout: what two ways compute can be compared."""
    from keras_bert import BertConfig, BertEncoder, BertTokenizer

    config = BertConfig.from_file(pretrained_folder)
    config = config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    still = BertEncoder(config)
    still.set_weights(BertEncoder.from_preset(pretrained_folder).get_weights())
    folder = tmp_path_factory.mktemp("models") / "without_dropout"
    still.save_to_preset(folder, BertTokenizer.from_preset(pretrained_folder))
    return folder


@pytest.fixture(scope="session")
def sentiment_folder(tmp_path_factory):
    """A data folder for the csv task: train.csv, dev.csv, test.csv."""
    folder = tmp_path_factory.mktemp("sentiment")
    for seed, (name, count) in enumerate({"train": 768, "dev": 64, "test": 64}.items()):
        write_csv(folder / f"{name}.csv", ["text", "label"], sentiment_rows(count, seed))
    return folder


@pytest.fixture(scope="session")
def sentiment_run(pretrained_folder, sentiment_folder, tmp_path_factory):
    """A finished run on the sentiment data: its folder and its result."""
    from keras_bert.finetuning.finetune import finetune
    from keras_bert.finetuning.options import FinetuningOptions
    from keras_bert.tasks.classification.delimited import csv_task

    folder = tmp_path_factory.mktemp("runs") / "sentiment"
    task = csv_task()
    options = FinetuningOptions(
        epochs=4, batch_size=16, learning_rate=3e-3, mixed_precision="float32"
    )
    data = task.read(sentiment_folder)
    return folder, finetune(task, data, pretrained_folder, folder, options)


@pytest.fixture(scope="session")
def pair_regression_run(pretrained_folder, tmp_path_factory):
    """A finished run of one epoch on pairs of texts with numbers for labels: its folder."""
    from keras_bert.finetuning.finetune import finetune
    from keras_bert.finetuning.options import FinetuningOptions
    from keras_bert.tasks.classification.delimited import csv_task

    data_folder = tmp_path_factory.mktemp("pairs")
    rows = [
        (first, second, len(first) / 10)
        for (first, _), (second, _) in zip(
            sentiment_rows(32, 5), sentiment_rows(32, 6), strict=True
        )
    ]
    write_csv(data_folder / "train.csv", ["text", "text_pair", "label"], rows)
    folder = tmp_path_factory.mktemp("runs") / "pairs"
    task = csv_task(label_type="regression")
    options = FinetuningOptions(epochs=1, batch_size=16, mixed_precision="float32")
    finetune(task, task.read(data_folder), pretrained_folder, folder, options)
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Returns a function that gives a folder by name, made by the first process that asks for it.

    `make(path)` fills it; all processes of a run of the tests share it.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all workers

    def folder(name, make):
        path, lock = root / name, root / f"{name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
            if not path.exists():
                unfinished = root / f"{name}.unfinished"
                shutil.rmtree(unfinished, ignore_errors=True)
                make(unfinished)
                unfinished.rename(path)
        return path

    return folder


@pytest.fixture(scope="session")
def model_folder(made_once):
    """Returns a function: the folder of one of `MODELS` of tiny_models.py, written once."""
    from tests.signatures.tiny_models import write_model

    return lambda name: made_once(f"heads/{name}", lambda path: write_model(path, name))


@pytest.fixture(scope="session")
def exported(model_folder, made_once):
    """Returns a function: version 1 of one of these models, exported once in a dtype."""
    from keras_bert.serving.saved_model import export_saved_model
    from keras_bert.signatures.options import ExportOptions

    def folder(name, dtype="float32"):
        def export(path):
            export_saved_model(model_folder(name), path / name, options=ExportOptions(dtype))

        # The folder above a version has the name of the model in TF Serving.
        return made_once(f"exports/{dtype}/{name}", export) / name / "1"

    return folder
