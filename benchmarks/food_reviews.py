"""5000 reviews of food with the label "great" (five stars) or "other": a folder for the csv task.

From the R package modeldata (`small_fine_foods`), Debian package r-cran-modeldata, with its own
split of 4000 for training and 1000 for testing. Reading it needs pandas and rdata.
"""

from pathlib import Path
from typing import Any

import packages
import r_database


def load() -> dict[str, Any]:
    """Returns the frames "train" and "test" with the columns text and label."""
    folder = packages.debian_package("r-cran-modeldata")
    base = next(folder.rglob("modeldata/data/Rdata.rdb"))
    frames = {
        split: r_database.read(base, name)
        for split, name in {"train": "training_data", "test": "testing_data"}.items()
    }
    return {
        split: frame.rename(columns={"review": "text", "score": "label"})[["text", "label"]]
        for split, frame in frames.items()
    }


def write(folder: Path, validation: int = 0) -> Path:
    """Writes train.csv and test.csv; the last `validation` training rows become dev.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = load()
    if validation:
        train = frames["train"]
        frames["train"], frames["dev"] = train[:-validation], train[-validation:]
    for split, frame in frames.items():
        frame.to_csv(folder / f"{split}.csv", index=False)
    return folder
