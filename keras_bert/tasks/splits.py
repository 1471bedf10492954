"""The files of a data folder: train, validation (or dev, valid, val), test and unlabeled."""

from collections.abc import Sequence
from pathlib import Path

_NAMES = {
    "train": ("train",),
    "validation": ("validation", "dev", "valid", "val"),
    "test": ("test",),
    "unlabeled": ("unlabeled",),
}


def find_splits(folder: Path, extensions: Sequence[str]) -> dict[str, Path]:
    """Returns the file of each split that is there; "train" always is.

    Args:
        folder: the folder.
        extensions: those of the formats that may be read, such as ".csv".

    Raises:
        FileNotFoundError: there is no folder, or no training file in it.
        ValueError: two files claim to be the same split.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: give the folder of the data")
    splits = {}
    for split, stems in _NAMES.items():
        candidates = [folder / (stem + extension) for stem in stems for extension in extensions]
        found = [path for path in candidates if path.is_file()]
        if len(found) > 1:
            raise ValueError(
                f"{folder} holds {' and '.join(path.name for path in found)}, both {split} data: "
                "keep one of them"
            )
        if found:
            splits[split] = found[0]
    if "train" not in splits:
        expected = " or ".join("train" + extension for extension in extensions)
        raise FileNotFoundError(f"{folder} holds no {expected}: put the training data there")
    return splits
