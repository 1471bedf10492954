"""The stages of a small pretraining run; each is skipped where its output exists.

A folder holds text/ (train, eval), data/ (the sample data), reviews/, vocab/, records/ (train,
eval) and the runs made from them.
"""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import debian_text
import food_reviews

from keras_bert.config import BertConfig
from keras_bert.files import atomic_file, atomic_folder
from keras_bert.training.finetuning_result import FinetuningResult

MAX_SEQ_LENGTH = 128
VOCAB_SIZE = 8000
BATCH_SIZE = 32
# With text, records and fine-tuning about an hour on two cores.
REFERENCE_STEPS = 6000

_TOOLS = Path(__file__).resolve().parents[1] / "tools"
_ALL_MASK = {"mask_share": 1.0, "random_share": 0.0}


class Downstream(NamedTuple):
    """A task that a pretrained model is judged by.

    Attributes:
        title: for tables.
        data: its folder within the one of all stages.
        flags: of run_finetuning.py.
    """

    title: str
    data: str
    flags: dict[str, Any]


DOWNSTREAM = {
    "verses": Downstream(
        "verse pairs", "data/pairs", {"epochs": 2, "batch_size": 32, "learning_rate": 3e-4}
    ),
    "reviews": Downstream(
        "food reviews", "reviews", {"epochs": 3, "batch_size": 32, "learning_rate": 2e-4}
    ),
}


def prepare(folder: Path) -> None:
    """Fetches the text and makes vocabulary and records of it."""
    if not (folder / "text").is_dir():
        with atomic_folder(folder / "text") as temporary:
            print(f"text: {debian_text.write(temporary)}", flush=True)
    if not (folder / "data" / "pairs" / "test.csv").is_file():  # the last one of its files
        _run("prepare_sample_data", output_dir=folder / "data")
    if not (folder / "reviews").is_dir():
        with atomic_folder(folder / "reviews") as temporary:
            food_reviews.write(temporary, validation=400)
    vocab = folder / "vocab" / "vocab.txt"
    if not (vocab.parent / "tokenizer_config.json").is_file():  # written after vocab.txt
        _run("build_vocab", input=_texts(folder, "train"), output=vocab, vocab_size=VOCAB_SIZE)
    for split, passes in (("train", 2), ("eval", 1)):
        if not (folder / "records" / split / "manifest.json").is_file():
            _run(
                "create_pretraining_data",
                input=_texts(folder, split),
                vocab=vocab,
                output_dir=folder / "records" / split,
                max_seq_length=MAX_SEQ_LENGTH,
                dupe_factor=passes,
                num_workers=2,
            )


def pretrain(
    folder: Path,
    name: str,
    size: str,
    train_steps: int,
    layers: int | None = None,
    **flags: object,
) -> Path:
    """Pretrains a model on the records; returns its run folder.

    Args:
        folder: of the stages.
        name: of the run within it; a run that was stopped goes on.
        size: a named size. There is no dropout: a run sees each text three times at most.
        train_steps: how long.
        layers: of the model, where it has not as many as its size.
        **flags: of run_pretraining.py, where they differ from those of all these runs.
    """
    run = folder / name
    if (run / "report.md").is_file():  # written at the end
        return run
    arguments: dict[str, object] = {
        "data_dir": folder / "records" / "train",
        "eval_data_dir": folder / "records" / "eval",
        "model_dir": run,
        "model": _config(folder, size, layers),
        "train_steps": train_steps,
        "warmup_steps": train_steps // 16,
        "eval_steps": max(1, train_steps // 9),
        "checkpoint_steps": 100,
        "batch_size": BATCH_SIZE,
        "learning_rate": 1e-3,
        "bias_correction": True,  # without it such short runs may never start to learn
    }
    _run("run_pretraining", **(arguments | flags))
    if not (run / "report.md").is_file():
        raise SystemExit("stopped: the same command goes on from here")
    return run


def finetune(folder: Path, run: Path, task: str, from_scratch: bool = False) -> float:
    """Fine-tunes the model of a run on a task; returns the accuracy on its test data.

    Args:
        folder: of the stages.
        run: from `pretrain`.
        task: a key of `DOWNSTREAM`.
        from_scratch: take the model's size, not its weights.
    """
    downstream = DOWNSTREAM[task]
    model_dir = run / (f"{task}_from_scratch" if from_scratch else task)
    if FinetuningResult.finished(model_dir) is None:
        shutil.rmtree(model_dir, ignore_errors=True)  # what was stopped within
        _run(
            "run_finetuning",
            *(["--from_scratch"] if from_scratch else []),
            task="csv",
            data=folder / downstream.data,
            init_from=run / "preset",
            model_dir=model_dir,
            max_seq_length=MAX_SEQ_LENGTH,
            **downstream.flags,
        )
    return FinetuningResult.finished(model_dir).test["accuracy"]


def held_out_metrics(folder: Path, run: Path) -> dict[str, float]:
    """Measures the model of a run on the held-out records with every chosen piece a [MASK].

    So that runs which hid pieces in other ways are measured alike, and no chosen piece can be read.
    """
    path = run / "held_out.json"
    if not path.is_file():
        metrics = _measure(folder, run)
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(metrics, indent=2) + "\n")
    return json.loads(path.read_text())


def last_metrics(run: Path, split: str) -> dict[str, float]:
    """Returns the last line of a run's metrics of a split: "train", or "eval" as it trained."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["split"] == split][-1]


def _measure(folder: Path, run: Path) -> dict[str, float]:
    import tensorflow as tf

    from keras_bert import BertPretrainer, BertTokenizer
    from keras_bert.data.pretraining_data import PretrainingData
    from keras_bert.training.pretraining_inputs import create_evaluation, create_masking
    from keras_bert.training.pretraining_options import PretrainingOptions

    data = PretrainingData(str(folder / "records" / "eval"))
    options = PretrainingOptions("", "", batch_size=BATCH_SIZE, **_ALL_MASK)
    masking = create_masking(options, BertTokenizer.from_preset(run / "preset"), data)
    model = BertPretrainer.from_preset(run / "preset")
    strategy = tf.distribute.get_strategy()
    return create_evaluation(model, data, masking, options, strategy, next_sentence=True)()


def _config(folder: Path, size: str, layers: int | None) -> Path:
    config = BertConfig.from_name(
        size,
        **({"num_hidden_layers": layers} if layers else {}),
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=MAX_SEQ_LENGTH,
        hidden_act="gelu_tanh",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    path = folder / f"{size}{f'_{layers}_layers' if layers else ''}.json"
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(config.to_dict(), indent=2) + "\n")
    return path


def _texts(folder: Path, split: str) -> str:
    return f"{folder}/text/{split}/*.txt,{folder}/data/corpus/{split}/*.txt"


def _run(tool: str, *arguments: str, **named: object) -> None:
    command = [str(_TOOLS / f"{tool}.py"), *(f"--{key}={value}" for key, value in named.items())]
    print(f"\n$ python {shlex.join([*command, *arguments])}", flush=True)
    subprocess.run([sys.executable, *command, *arguments], check=True)
