"""Pretraining data: this library against create_pretraining_data.py of Model Garden.

Both get the same sentences (one a line, a blank line between documents), the same vocabulary,
sequence length 128, five copies, 15 % of the pieces masked, at most 20. Each is a process of its
own, imports included; rounds are taken in turns. Prints medians, and statistics of both outputs.

    make benchmark NAME=data_speed
"""

import gzip
import statistics
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from absl import app, flags
from measured_process import Cost, run_measured

_REPOSITORY = Path(__file__).parents[1]
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Timed rounds.", lower_bound=1)
_WORKERS = flags.DEFINE_list("workers", ["1", "2"], "Numbers of processes of ours.")
_MEGABYTES = flags.DEFINE_float("megabytes", 5, "Size of the text.")


def main(_: Sequence[str]) -> None:
    """Measures both and prints the numbers."""
    with tempfile.TemporaryDirectory() as folder:
        text, vocab = _prepare(Path(folder))
        names = ["Model Garden", *(f"ours, {workers} process(es)" for workers in _WORKERS.value)]
        costs: dict[str, list[Cost]] = {name: [] for name in names}
        for number in range(_ROUNDS.value):
            outputs = [Path(folder) / f"{number}-{index}" for index in range(len(names))]
            costs[names[0]].append(_run_theirs(text, vocab, outputs[0]))
            for name, workers, output in zip(names[1:], _WORKERS.value, outputs[1:], strict=True):
                costs[name].append(_run_ours(text, vocab, output, workers))
        _print_costs(costs, text.stat().st_size)
        for name, output in (("Model Garden", outputs[0]), ("ours", outputs[1])):
            print(f"{name}: {_statistics(output, vocab)}")


def _prepare(folder: Path) -> tuple[Path, Path]:
    """Writes the novels of the sample data as sentences, and learns a vocabulary from them."""
    from keras_bert import BertTokenizer, train_vocabulary
    from keras_bert.data.corpus.reading import read_documents

    novels = _REPOSITORY / "tools/sample_data/austen.txt.gz"
    paragraphs = gzip.open(novels, "rt", encoding="utf-8").read().split("\n")
    BertTokenizer(train_vocabulary(paragraphs, 8000)).save(folder)
    text = "\n\n".join("\n".join(sentences) for sentences in read_documents([novels])) + "\n\n"
    size = int(_MEGABYTES.value * 1e6)
    repeated = (text * (size // len(text) + 1))[:size]
    (folder / "text.txt").write_text(repeated, encoding="utf-8")
    return folder / "text.txt", folder / "vocab.txt"


def _run_theirs(text: Path, vocab: Path, output: Path) -> Cost:
    output.mkdir()
    module = "official.nlp.data.create_pretraining_data"
    arguments = {
        "input_file": text,
        "output_file": output / "examples.tfrecord",
        "vocab_file": vocab,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "dupe_factor": 5,
    }
    return _run([sys.executable, "-m", module], arguments)


def _run_ours(text: Path, vocab: Path, output: Path, workers: str) -> Cost:
    arguments = {
        "input": text,
        "output_dir": output,
        "vocab": vocab,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "dupe_factor": 5,
        "num_workers": workers,
        "num_shards": 1,
    }
    tool = _REPOSITORY / "tools/create_pretraining_data.py"
    return _run([sys.executable, tool, "--static_masking"], arguments)


def _run(command: list, arguments: dict) -> Cost:
    given = [f"--{name}={value}" for name, value in arguments.items()]
    return run_measured([*command, *given], TF_CPP_MIN_LOG_LEVEL="3")


def _print_costs(costs: dict[str, list[Cost]], size: int) -> None:
    packages = "tensorflow", "tensorflow-text", "tf-models-official"
    print(", ".join(f"{name} {version(name)}" for name in packages))
    print(f"{size / 1e6:.1f} MB of text, median of {_ROUNDS.value} rounds")
    theirs = statistics.median(cost.seconds for cost in costs["Model Garden"])
    for name, found in costs.items():
        seconds, cpu, peak = (statistics.median(values) for values in zip(*found, strict=True))
        print(
            f"  {name:20} {seconds:6.1f} s  {cpu:6.1f} s of the processors  {peak / 1e6:6.0f} MB  "
            f"ratio {theirs / seconds:.1f}"
        )


def _statistics(output: Path, vocab: Path) -> str:
    from keras_bert import Vocabulary
    from keras_bert.data.records.inspection import measure
    from keras_bert.data.records.record_set import PretrainingData

    data = PretrainingData(str(output / "*.tfrecord"))
    found = measure(data, Vocabulary.from_file(vocab))
    pieces = found.lengths.sum()
    return (
        f"{len(found.lengths):,} examples, {found.label_counts[1] / len(found.lengths):.1%} with "
        f"a random second segment, {found.lengths.mean():.1f} pieces on average, "
        f"{(found.lengths == 128).mean():.1%} full, {found.predictions / pieces:.2%} of the pieces "
        "masked"
    )


if __name__ == "__main__":
    app.run(main)
