"""Tokenizer speed: this library against the Rust `tokenizers`, from strings to ids.

Both get the same lines and two threads, and must give the same ids. Ours tokenizes batches of lines
in `tf.data` (`num_parallel_calls`), Rust's in `encode_batch` (rayon). Prints the median of several
rounds, taken in turns.

    make benchmark NAME=tokenizer_speed
"""

import gzip
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags

_REPOSITORY = Path(__file__).parents[1]
_PROSE = flags.DEFINE_string(
    "prose",
    str(_REPOSITORY / "tools/sample_data/austen.txt.gz"),
    "English prose: a .gz file, a paragraph a line.",
)
_GOLDEN = flags.DEFINE_string(
    "golden", str(_REPOSITORY / "tests/golden"), "Folder with the multilingual lines."
)
_THREADS = flags.DEFINE_integer("threads", 2, "Threads for each side.", lower_bound=1)
_BATCH = flags.DEFINE_integer("batch", 512, "Lines in a batch of ours.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Timed rounds.", lower_bound=1)


def main(argv: Sequence[str]) -> None:
    """Measures both tokenizers on prose and on multilingual lines."""
    del argv
    # Read when the Rust library starts its threads, so before its first use.
    os.environ["RAYON_NUM_THREADS"] = str(_THREADS.value)
    vocabulary = str(Path(_GOLDEN.value) / "vocab_uncased.txt")
    prose = [line for line in gzip.open(_PROSE.value, "rt", encoding="utf-8") if line.strip()]
    golden = (Path(_GOLDEN.value) / "tokenization.jsonl").read_text(encoding="utf-8")
    multilingual = [json.loads(line)["text"] for line in golden.split("\n") if line] * 20
    _print_versions()
    for name, lines in (("English prose", prose), ("multilingual lines", multilingual)):
        ours, ours_ids = _ours(lines, vocabulary)
        rust, rust_ids = _rust(lines, vocabulary)
        same = sum(a == b for a, b in zip(ours_ids, rust_ids, strict=True))
        size = sum(len(line.encode()) for line in lines) / 1e6
        seconds = _medians([ours, rust])
        print(
            f"{name}: {len(lines)} lines, {size:.1f} MB, {same} with the same ids\n"
            f"  keras_bert  {size / seconds[0]:6.1f} MB/s\n"
            f"  tokenizers  {size / seconds[1]:6.1f} MB/s\n"
            f"  ratio       {seconds[1] / seconds[0]:6.1f}"
        )


def _ours(lines: Sequence[str], vocabulary: str) -> tuple[Callable[[], object], list[list[int]]]:
    import tensorflow as tf

    from keras_bert import BertTokenizer

    tokenizer = BertTokenizer.from_vocab(vocabulary)
    # Strings that are tensors already, as they are after reading a file in tf.data.
    strings = tf.constant(lines)
    batches = -(-len(lines) // _BATCH.value)
    options = tf.data.Options()
    options.threading.private_threadpool_size = _THREADS.value
    dataset = (
        tf.data.Dataset.range(batches)
        .map(lambda i: strings[i * _BATCH.value : (i + 1) * _BATCH.value])
        .map(tokenizer, num_parallel_calls=_THREADS.value)
        .with_options(options)
    )

    def run() -> None:
        for _ in dataset:
            pass

    return run, [ids for batch in dataset for ids in batch.to_list()]


def _rust(lines: Sequence[str], vocabulary: str) -> tuple[Callable[[], object], list[list[int]]]:
    import tokenizers

    tokenizer = tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=True)

    def run() -> list[tokenizers.Encoding]:
        return tokenizer.encode_batch(list(lines), add_special_tokens=False)

    return run, [encoding.ids for encoding in run()]


def _medians(runs: Sequence[Callable[[], object]]) -> list[float]:
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(_ROUNDS.value):
        for run, times in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]


def _print_versions() -> None:
    import tensorflow as tf
    import tensorflow_text
    import tokenizers

    print(
        f"tensorflow {tf.__version__}, tensorflow-text {tensorflow_text.__version__}, "
        f"tokenizers {tokenizers.__version__}, {os.cpu_count()} cores, "
        f"{_THREADS.value} threads each, median of {_ROUNDS.value} rounds"
    )


if __name__ == "__main__":
    app.run(main)
