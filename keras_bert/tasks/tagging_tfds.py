"""Tagged sentences of TensorFlow Datasets, such as `tfds:conll2003`."""

from typing import Any

from keras_bert.tasks.tfds_source import open_data_set
from keras_bert.training.tagged_sentences import TaggedSentence
from keras_bert.training.task import TEST, TRAIN, VALIDATION

_WORDS = "tokens"
_SPLITS = {TRAIN: ("train",), VALIDATION: ("validation", "dev"), TEST: ("test",)}


def read_tfds_sentences(source: str, label_feature: str) -> dict[str, list[TaggedSentence]]:
    """Reads the splits of a data set that has words under "tokens" and a label for each.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.
        label_feature: the feature of the labels, such as "ner" or "pos".

    Raises:
        ValueError: there is no such data set, or it has not these features.
    """
    import tensorflow_datasets as tfds

    builder = open_data_set(source)
    features = builder.info.features
    for feature in (_WORDS, label_feature):
        if feature not in features:
            raise ValueError(
                f"{source} has no feature {feature!r} among {', '.join(features)}: name the "
                "labels with --label_feature; the words must be under 'tokens'"
            )
    names = getattr(getattr(features[label_feature], "feature", None), "names", None)
    if names is None:
        raise ValueError(
            f"{source}: the feature {label_feature!r} is no list of classes: name the labels with "
            "--label_feature"
        )
    return {
        split: [
            _sentence(number, example[_WORDS], example[label_feature], names)
            for number, example in enumerate(tfds.as_numpy(builder.as_dataset(found)), start=1)
            if len(example[_WORDS])
        ]
        for split, candidates in _SPLITS.items()
        for found in candidates
        if found in builder.info.splits
    }


def _sentence(number: int, words: Any, labels: Any, names: list[str]) -> TaggedSentence:
    return TaggedSentence(
        tuple(word.decode("utf-8") for word in words),
        tuple(names[label] for label in labels),
        document=number,
        line=number,
    )
