"""Runs the whole road on the sample data, in about ten minutes on two cores.

    python tools/quickstart.py

Every step is one of the other tools; its command line is printed before it runs, so that each can
be repeated by hand. The folder quickstart_output is made anew each time.
"""

import csv
import itertools
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from keras_bert import command_line
from keras_bert.storage.paths import check_local

flags.DEFINE_string("output_dir", "quickstart_output", "Folder to make, anew each time.")
flags.DEFINE_float("pretraining_seconds", 270, "Time for pretraining.", lower_bound=1)
flags.DEFINE_integer("passes", 5, "Passes over the texts, each with other pairs.", lower_bound=1)
flags.DEFINE_integer("labeled_pairs", 2000, "Pairs of verses to learn from.", lower_bound=2)
flags.DEFINE_integer("epochs", 8, "Epochs of fine-tuning.", lower_bound=1)

_TOOLS = Path(__file__).parent
_CONFIG = _TOOLS / "sample_data" / "quickstart_config.json"
_MARKER = ".keras_bert_quickstart"
# Sentences of the held-out novel, a word hidden in each: Anne, friend, hand, no, him.
_MASKED = (
    "Captain Wentworth was on the watch for them , and [MASK] was with him .",
    "She was a most dear and highly valued [MASK] , and he was glad to see her again .",
    "He drew a letter from under the paper , and placed it in her [MASK] .",
    "There could be [MASK] doubt of his being very much in love .",
    "She had not seen [MASK] since the day before .",
)
_QUESTION = """
import sys, tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
answer = model.signatures["serving_default"](
    text=tf.constant([sys.argv[2]] * 2), text_pair=tf.constant(sys.argv[3:5]))
assert not any(name.startswith("keras_bert") for name in sys.modules)
for text, label, scores in zip(sys.argv[3:5], answer["label"].numpy(), answer["scores"].numpy()):
    print(f"  {text}\\n    -> {label.decode()} ({max(scores):.3f})")
"""
_VERSES = (
    "And the light shineth in darkness; and the darkness comprehended it not.",
    "The light shines in the darkness, and the darkness hasn’t overcome it.",
    "There came a man, sent from God, whose name was John.",
)


def main(_: Sequence[str]) -> None:
    """Reads the flags and walks the road."""
    if not _CONFIG.exists():
        raise FileNotFoundError(
            "the sample data is not part of the installed package: run `make quickstart` in a "
            "clone of the repository"
        )
    started = time.monotonic()
    check_local("--output_dir", flags.FLAGS.output_dir)
    folder = Path(flags.FLAGS.output_dir)
    if found := set(",=*?[") & set(str(folder)):
        raise ValueError(
            f"--output_dir is {folder}, but the tools behind the quickstart read "
            f"{' '.join(sorted(found))} as part of a list or a pattern: choose a name without"
        )
    _make_anew(folder)
    _make_data(folder)
    _pretrain(folder)
    _finetune(folder)
    _serve(folder)
    _print_summary(folder, time.monotonic() - started)


def _make_data(folder: Path) -> None:
    _title("1. Text, vocabulary, records")
    corpus, vocab = folder / "data" / "corpus", folder / "vocab" / "vocab.txt"
    _run("prepare_sample_data", output_dir=folder / "data")
    _run("build_vocab", input=corpus / "train" / "*.txt", output=vocab, vocab_size=_vocab_size())
    for split, passes in (("train", flags.FLAGS.passes), ("eval", 1)):
        _run(
            "create_pretraining_data",
            input=corpus / split / "*.txt",
            vocab=vocab,
            output_dir=folder / "records" / split,
            max_seq_length=64,
            dupe_factor=passes,
            num_shards=4,
            num_workers=2 if split == "train" else 1,
        )
    _run("inspect_records", input=folder / "records" / "train", count=1)


def _pretrain(folder: Path) -> None:
    _title("2. Pretraining")
    _run(
        "run_pretraining",
        data_dir=folder / "records" / "train",
        eval_data_dir=folder / "records" / "eval",
        model_dir=folder / "pretraining",
        model=_CONFIG,
        batch_size=32,
        learning_rate=1e-3,
        beta_2=0.98,
        time_budget=flags.FLAGS.pretraining_seconds,
        bias_correction=True,  # a run of minutes has no warmup of 10,000 steps
        eval_steps=1000,
    )
    texts = [f"--text={text}" for text in _MASKED]
    _run("fill_mask", *texts, init_from=folder / "pretraining" / "preset")


def _finetune(folder: Path) -> None:
    _title("3. Fine-tuning: are these two verses the same? From the pretrained model, then afresh")
    few = folder / "data" / "few_pairs"
    _copy_rows(folder / "data" / "pairs", few, flags.FLAGS.labeled_pairs)
    for name in ("pretrained", "from_scratch"):
        _run(
            "run_finetuning",
            *(["--from_scratch"] if name == "from_scratch" else []),
            task="csv",
            data=few,
            init_from=folder / "pretraining" / "preset",
            model_dir=folder / "finetuning" / name,
            epochs=flags.FLAGS.epochs,
            batch_size=32,
            learning_rate=5e-4,
        )


def _copy_rows(source: Path, target: Path, rows: int) -> None:
    """Copies a data set with the first rows of its training data, which are in random order."""
    shutil.copytree(source, target)
    with open(source / "train.csv", encoding="utf-8", newline="") as file:
        kept = list(itertools.islice(csv.reader(file), rows + 1))  # and the names of the columns
    with open(target / "train.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(kept)
    print(f"learning from {len(kept) - 1:,} pairs of verses")


def _serve(folder: Path) -> None:
    _title("4. A SavedModel that takes strings, asked from a process without keras_bert")
    export = folder / "export"
    _run("export_saved_model", model_dir=folder / "finetuning" / "pretrained", export_dir=export)
    print(f"  {_VERSES[0]}")
    subprocess.run([sys.executable, "-c", _QUESTION, str(export / "1"), *_VERSES], check=True)


def _run(tool: str, *arguments: str, **named: object) -> None:
    command = [str(_TOOLS / f"{tool}.py"), *(f"--{key}={value}" for key, value in named.items())]
    print(f"\n$ python {shlex.join([*command, *arguments])}", flush=True)
    code = subprocess.run([sys.executable, *command, *arguments]).returncode
    if code:
        raise ValueError(f"{tool}.py ended with status {code}; what it said stands above")


def _make_anew(folder: Path) -> None:
    if folder.exists():
        if any(folder.iterdir()) and not (folder / _MARKER).exists():
            raise FileExistsError(
                f"{folder} was not made by the quickstart: choose another --output_dir"
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARKER).touch()


def _print_summary(folder: Path, seconds: float) -> None:
    from keras_bert.visualize.curves import plot_learning_curves

    lines = (folder / "pretraining" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    picture = folder / "pretraining" / "curves.png"
    plot_learning_curves(metrics, picture)
    train = [line for line in metrics if line["split"] == "train"]
    held_out = [line for line in metrics if line["split"] == "eval"][-1]
    rates = sorted(line["tokens_per_second"] for line in train)
    pretrained, scratch = (
        _test_accuracy(folder / "finetuning" / name) for name in ("pretrained", "from_scratch")
    )
    frequent = held_out["most_frequent_piece_accuracy"]
    rows = [
        ("masked LM accuracy on the held-out novel", f"{held_out['masked_lm_accuracy']:.1%}"),
        ("  always guessing the most frequent piece", f"{frequent:.1%}"),
        (
            "masked LM loss, first and last",
            f"{train[0]['masked_lm_loss']:.2f} -> {held_out['masked_lm_loss']:.2f}",
        ),
        ("next sentence accuracy (held out)", f"{held_out['next_sentence_accuracy']:.1%}"),
        ("pretraining steps", f"{train[-1]['step']:,}"),
        ("pretraining speed (median)", f"{rates[len(rates) // 2]:,.0f} tokens/s"),
        ("verse pairs, test accuracy, pretrained", f"{pretrained:.1%}"),
        ("  the same from scratch", f"{scratch:.1%}"),
        ("all of it", f"{seconds / 60:.1f} minutes"),
    ]
    _title("What came out")
    for name, value in rows:
        print(f"{name:44}{value:>18}")
    print(
        f"\npretrained model   {folder}/pretraining/preset\n"
        f"learning curves    {picture}   (TensorBoard: {folder}/pretraining/tensorboard)\n"
        f"fine-tuned model   {folder}/finetuning/pretrained\n"
        f"SavedModel         {folder}/export/1"
    )


def _test_accuracy(model_dir: Path) -> float:
    from keras_bert.finetuning.result import FinetuningResult

    result = FinetuningResult.finished(model_dir)
    if result is None:
        raise ValueError(f"{model_dir} holds no finished run: start the quickstart again")
    return result.test["accuracy"]


def _vocab_size() -> int:
    return json.loads(_CONFIG.read_text())["vocab_size"]


def _title(text: str) -> None:
    print(f"\n=== {text}", flush=True)


if __name__ == "__main__":
    command_line.run(main)
