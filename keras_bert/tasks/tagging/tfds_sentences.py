"""Tagged sentences of TensorFlow Datasets, such as `tfds:conll2003`."""

from typing import Any

from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.tasks.tfds_source import check_features, open_data_set, read_splits

_WORDS = "tokens"


def read_tfds_sentences(source: str, label_feature: str) -> dict[str, list[TaggedSentence]]:
    """Reads the splits of a data set that has words under "tokens" and a label for each.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.
        label_feature: the feature of the labels, such as "ner" or "pos".

    Raises:
        ValueError: there is no such data set, or it has not these features.
    """
    builder = open_data_set(source)
    check_features(
        source,
        builder,
        (_WORDS, label_feature),
        "name the labels with --label_feature; the words must be under 'tokens'",
    )
    features = builder.info.features
    names = getattr(getattr(features[label_feature], "feature", None), "names", None)
    if names is None:
        raise ValueError(
            f"{source}: the feature {label_feature!r} is no list of classes: name the labels with "
            "--label_feature"
        )
    return {
        split: [
            _sentence(number, example[_WORDS], example[label_feature], names)
            for number, example in enumerate(entries, start=1)
            if len(example[_WORDS])
        ]
        for split, entries in read_splits(source, builder).items()
    }


def _sentence(number: int, words: Any, labels: Any, names: list[str]) -> TaggedSentence:
    return TaggedSentence(
        tuple(word.decode("utf-8") for word in words),
        tuple(names[label] for label in labels),
        document=number,
        line=number,
    )
