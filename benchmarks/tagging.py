"""Parts of speech and proper names in the Brown corpus, against the most frequent tag of a word.

Fine-tunes a small pretrained BERT on a few texts and compares it with the obvious baseline on the
same data: each word gets the tag that it has most often in the training texts; unknown words the
tag that words seen once have most often there.

    make benchmark NAME=tagging ARGS='--model_dir=runs/tagging'
    make benchmark NAME=tagging ARGS='--model_dir=runs/frozen --features_from=concat_last_4'
"""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import brown
import numpy as np
import packages
from absl import app, flags

from keras_bert import FinetuningOptions, TaggedSentence, finetune
from keras_bert.probing.baselines import most_frequent_tags_of_words
from keras_bert.tasks.tagging.column_files import read_columns
from keras_bert.tasks.tagging.head import TagPrediction
from keras_bert.tasks.tagging.metrics import count_entities, tag_accuracy

_COLUMNS = {"parts of speech": brown.PARTS_OF_SPEECH, "proper names": brown.NAMES}

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_TEXTS = flags.DEFINE_integer("texts", 60, "Texts of about 2,200 words to learn from.")
_EPOCHS = flags.DEFINE_integer("epochs", 2, "Passes over them.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_SEEDS = flags.DEFINE_integer("seeds", 1, "Runs of ours.", lower_bound=1)
_FEATURES_FROM = flags.DEFINE_string(
    "features_from", None, "Train a BiLSTM on frozen features: concat_last_4, ..."
)
_KINDS = flags.DEFINE_multi_enum("kinds", None, list(_COLUMNS), "Only these tags; unset: both.")


def most_frequent_tags(
    train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]
) -> list[TagPrediction]:
    """Returns the predictions of the baseline."""
    words = [word for sentence in train for word in sentence.words]
    tags = [tag for sentence in train for tag in sentence.tags]
    new_words = [word for sentence in test for word in sentence.words]
    found = iter(most_frequent_tags_of_words(words, tags, new_words))
    return [
        TagPrediction(tuple(itertools.islice(found, len(sentence.words))), np.zeros(0))
        for sentence in test
    ]


def measured(kind: str, predictions: Sequence[TagPrediction], test: Sequence[TaggedSentence]):
    """Returns the score that counts for a kind of tags: accuracy, or F1 of whole names."""
    references = [sentence.tags for sentence in test]
    if kind == "parts of speech":
        return tag_accuracy(predictions, references)
    return count_entities(predictions, references).f1


def main(_: list[str]) -> None:
    """Prints both scores for both kinds of tags."""
    with tempfile.TemporaryDirectory() as data:
        brown.write(Path(data), _TEXTS.value)
        for kind in _KINDS.value or _COLUMNS:
            compare(kind, Path(data))


def compare(kind: str, data: Path) -> None:
    """Prints the scores of one kind of tags."""
    columns = _COLUMNS[kind]
    train, test = (read_columns(data / f"{name}.txt", columns) for name in ("train", "test"))
    baseline = measured(kind, most_frequent_tags(train, test), test)
    features = _FEATURES_FROM.value
    lstm = {"features_from": features, "lstm_width": 256} if features else {}
    task = brown.tagging_task(data, columns, **lstm)
    metric = "accuracy" if columns == brown.PARTS_OF_SPEECH else "f1"
    scores, seconds = [], []
    for seed in range(_SEEDS.value):
        options = FinetuningOptions(
            epochs=_EPOCHS.value, learning_rate=_LEARNING_RATE.value, seed=seed
        )
        folder = Path(_MODEL_DIR.value) / f"{kind.replace(' ', '_')}_{seed}"
        result = finetune(task, task.read(data), packages.minilm(), folder, options)
        scores.append(result.test[metric])
        seconds.append(result.seconds)
        print(f"{kind}, seed {seed}: {result.test}, {result.seconds:.0f} s", flush=True)
    spread = f" ± {np.std(scores, ddof=1):.4f}" if len(scores) > 1 else ""
    print(
        f"{kind} ({metric}): most frequent tag {baseline:.4f}, ours "
        f"{np.mean(scores):.4f}{spread}, {np.mean(seconds):.0f} s a run of training",
        flush=True,
    )


if __name__ == "__main__":
    app.run(main)
