"""Tokenizer speed: this library against the Rust `tokenizers`, from strings to ids.

Both get the same lines and two threads, and must give the same ids. Ours tokenizes batches of lines
in `tf.data` (`num_parallel_calls`), Rust's in `encode_batch` (rayon). Prints the median of several
rounds, taken in turns. `--type=byte_level_bpe` compares RoBERTa's kind of tokenizer, with a
vocabulary learned from the prose.

    make benchmark NAME=tokenizer_speed
    make benchmark NAME=tokenizer_speed ARGS='--type=byte_level_bpe'
"""

import gzip
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
_TYPE = flags.DEFINE_enum(
    "type", "wordpiece", ["wordpiece", "byte_level_bpe"], "Kind of tokenizer to compare."
)
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 8000, "Pieces of byte-level BPE.", lower_bound=300)
_THREADS = flags.DEFINE_integer("threads", 2, "Threads for each side.", lower_bound=1)
_BATCH = flags.DEFINE_integer("batch", 512, "Lines in a batch of ours.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Timed rounds.", lower_bound=1)


def main(argv: Sequence[str]) -> None:
    """Measures both tokenizers on prose and on multilingual lines."""
    del argv
    # Read when the Rust library starts its threads, so before its first use.
    os.environ["RAYON_NUM_THREADS"] = str(_THREADS.value)
    prose = [line for line in gzip.open(_PROSE.value, "rt", encoding="utf-8") if line.strip()]
    golden = (Path(_GOLDEN.value) / "tokenization.jsonl").read_text(encoding="utf-8")
    multilingual = [json.loads(line)["text"] for line in golden.split("\n") if line] * 20
    _print_versions()
    our_tokenizer, rust_tokenizer = _tokenizers(prose)
    for name, lines in (("English prose", prose), ("multilingual lines", multilingual)):
        ours, ours_ids = _ours(lines, our_tokenizer)
        rust, rust_ids = _rust(lines, rust_tokenizer)
        same = sum(a == b for a, b in zip(ours_ids, rust_ids, strict=True))
        size = sum(len(line.encode()) for line in lines) / 1e6
        seconds = _medians([ours, rust])
        print(
            f"{name}: {len(lines)} lines, {size:.1f} MB, {same} with the same ids\n"
            f"  keras_bert  {size / seconds[0]:6.1f} MB/s\n"
            f"  tokenizers  {size / seconds[1]:6.1f} MB/s\n"
            f"  ratio       {seconds[1] / seconds[0]:6.1f}"
        )


def _tokenizers(prose: Sequence[str]) -> tuple[Any, Any]:
    """Returns a tokenizer of this library and the one of the Rust library that equals it."""
    import tokenizers

    from keras_bert import BertTokenizer, ByteLevelBpeTokenizer, train_byte_level_bpe

    if _TYPE.value == "wordpiece":
        vocabulary = str(Path(_GOLDEN.value) / "vocab_uncased.txt")
        rust = tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=True)
        return BertTokenizer.from_vocab(vocabulary), rust
    files = train_byte_level_bpe(prose, _VOCAB_SIZE.value)
    with tempfile.TemporaryDirectory() as folder:
        files.save(folder)
        rust = tokenizers.ByteLevelBPETokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt")
        return ByteLevelBpeTokenizer.from_preset(folder), rust


def _ours(lines: Sequence[str], tokenizer: Any) -> tuple[Callable[[], object], list[list[int]]]:
    import tensorflow as tf

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


def _rust(lines: Sequence[str], tokenizer: Any) -> tuple[Callable[[], object], list[list[int]]]:
    def run() -> list[Any]:
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
