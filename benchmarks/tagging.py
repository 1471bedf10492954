"""Parts of speech and proper names in the Brown corpus, against the most frequent tag of a word.

Fine-tunes a small pretrained BERT on a few texts and compares it with the obvious baseline on the
same data: each word gets the tag that it has most often in the training texts; unknown words the
tag that words seen once have most often there.

    python benchmarks/tagging.py runs/tagging
    python benchmarks/tagging.py runs/tagging --seeds=3 --features_from=concat_last_4
"""

import argparse
import collections
import tempfile
from collections.abc import Sequence
from pathlib import Path

import brown
import numpy as np
import packages

from keras_bert.tasks.column_files import WordColumns, read_columns
from keras_bert.tasks.conll import conll_task
from keras_bert.tasks.entity_metrics import count_entities, tag_accuracy
from keras_bert.training.finetuning import finetune
from keras_bert.training.finetuning_options import FinetuningOptions
from keras_bert.training.tag_head import TagPrediction
from keras_bert.training.tagged_sentences import TaggedSentence

_COLUMNS = {"parts of speech": WordColumns(0, 1), "proper names": WordColumns(0, 2)}


def most_frequent_tags(
    train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]
) -> list[TagPrediction]:
    """Returns the predictions of the baseline."""
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    once = collections.Counter(
        next(iter(tags)) for tags in counts.values() if tags.total() == 1
    ).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    return [
        TagPrediction(tuple(best.get(word, once) for word in sentence.words), np.zeros(0))
        for sentence in test
    ]


def measured(kind: str, predictions: Sequence[TagPrediction], test: Sequence[TaggedSentence]):
    """Returns the score that counts for a kind of tags: accuracy, or F1 of whole names."""
    references = [sentence.tags for sentence in test]
    if kind == "parts of speech":
        return tag_accuracy(predictions, references)
    return count_entities(predictions, references).f1


def main() -> None:
    """Prints both scores for both kinds of tags."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where runs are kept")
    parser.add_argument("--texts", type=int, default=60, help="texts of about 2,200 words")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--features_from", help="a BiLSTM on frozen features in place")
    parser.add_argument("--kinds", nargs="*", default=list(_COLUMNS), choices=list(_COLUMNS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        brown.write(Path(data), arguments.texts)
        for kind in arguments.kinds:
            compare(kind, Path(data), arguments)


def compare(kind: str, data: Path, arguments: argparse.Namespace) -> None:
    """Prints the scores of one kind of tags."""
    columns = _COLUMNS[kind]
    train, test = (read_columns(data / f"{name}.txt", columns) for name in ("train", "test"))
    baseline = measured(kind, most_frequent_tags(train, test), test)
    plain = kind == "parts of speech"
    tags = {
        tag
        for name in ("train", "dev", "test")
        for sentence in read_columns(data / f"{name}.txt", columns)
        for tag in sentence.tags
    }
    task = conll_task(
        columns.word,
        columns.label,
        "plain" if plain else "BIO",
        labels=sorted(tags) if plain else None,
        features_from=arguments.features_from,
        lstm_width=256,
    )
    scores, seconds = [], []
    for seed in range(arguments.seeds):
        options = FinetuningOptions(
            epochs=arguments.epochs, learning_rate=arguments.learning_rate, seed=seed
        )
        folder = arguments.folder / f"{kind.replace(' ', '_')}_{seed}"
        result = finetune(task, task.read(data), packages.minilm(), folder, options)
        scores.append(result.test["accuracy" if plain else "f1"])
        seconds.append(result.seconds)
        print(f"{kind}, seed {seed}: {result.test}, {result.seconds:.0f} s", flush=True)
    spread = f" ± {np.std(scores, ddof=1):.4f}" if len(scores) > 1 else ""
    print(
        f"{kind} ({'accuracy' if plain else 'F1'}): most frequent tag {baseline:.4f}, ours "
        f"{np.mean(scores):.4f}{spread}, {np.mean(seconds):.0f} s a run of training",
        flush=True,
    )


if __name__ == "__main__":
    main()
