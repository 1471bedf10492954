"""Records of several languages, each in a folder of its own, drawn at smoothed rates."""

from collections.abc import Mapping
from typing import Any

from keras_bert.data.records.record_set import PretrainingData
from keras_bert.text.languages.smoothing import smoothed_rates
from keras_bert.text.vocabulary import Vocabulary

# What decides on the shapes and features of a batch, which all groups share.
_ALIKE = ("sentence_task", "packed", "max_predictions_per_seq")
# The quotas of `group_sampling` are exact up to this many.
_MOST_GROUPS = 256


class RecordGroups(PretrainingData):
    """Several sets of records as one.

    Args:
        groups: the records of each language, by name; at least one.
        alpha: exponent of the rates, see `keras_bert.text.languages.smoothing`.

    Attributes:
        groups: the records by name, in alphabetical order.
        rates: the rate at which each group is drawn, by name.
        folder: the folder of the first group, where the vocabulary of all of them is.
        paths, num_examples, num_bytes: those of all groups together.
        max_seq_length: the longest of all groups.
        segmented: whether those of a group are.
        sentence_task, packed, max_predictions_per_seq: the same in all groups.

    Raises:
        ValueError: groups do not go together, `alpha` is out of its range, or there are more than
            256 groups.
    """

    def __init__(self, groups: Mapping[str, PretrainingData], alpha: float = 1.0):
        if len(groups) > _MOST_GROUPS:
            raise ValueError(
                f"{len(groups)} groups of records are named and at most {_MOST_GROUPS} can be: "
                "make the records of some languages into one folder"
            )
        self.groups = dict(sorted(groups.items()))
        (first_name, first), *others = self.groups.items()
        # Masks that are stored have the shape of their file.
        alike = _ALIKE if first.max_predictions_per_seq is None else (*_ALIKE, "max_seq_length")
        for name, group in others:
            for field in alike:
                one, other = getattr(first, field), getattr(group, field)
                if one != other:
                    raise ValueError(
                        f"the records of {first_name} have {field} {one!r} and those of {name} "
                        f"{other!r}: make both alike"
                    )
            manifests = (first.manifest, group.manifest)
            if all(manifests) and len({one.lowercase for one in manifests if one}) > 1:
                raise ValueError(
                    f"one of the records of {first_name} and {name} is of lower-cased text and the "
                    "other is not: make both alike"
                )
        sizes = {name: group.num_examples for name, group in self.groups.items()}
        self.rates = smoothed_rates(sizes, alpha)
        members = self.groups.values()
        self.folder = first.folder
        self.manifest = self._made = None  # each group has its own
        self.paths = [path for group in members for path in group.paths]
        self.num_examples = sum(sizes.values())
        self.num_bytes = sum(group.num_bytes for group in members)
        self.max_seq_length = max(group.max_seq_length for group in members)
        self.sentence_task: Any = first.sentence_task
        self.packed = first.packed
        self.segmented = any(group.segmented for group in members)
        self.max_predictions_per_seq = first.max_predictions_per_seq

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Makes sure that the ids of all groups belong to a vocabulary.

        Raises:
            ValueError: a group was made with another one.
        """
        for group in self.groups.values():
            group.check_vocabulary(vocabulary)
