"""What a fine-tuning run measured: `metrics.json`."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from keras_bert.config import read_json
from keras_bert.storage.files import nan_for_null, null_for_nan, write_json

METRICS_FILE = "metrics.json"


@dataclasses.dataclass(frozen=True)
class FinetuningResult:
    """What a run measured; `metrics.json` holds the same.

    Attributes:
        best_epoch: the epoch whose weights were kept, counted from 1.
        metrics: for each labeled split but the training data the metrics of the kept weights.
        epochs: for each epoch its training loss and the metrics of the validation data.
        confusion: for each labeled split how often each class (rows) was predicted as each
            (columns); empty where examples have no single class.
        collapsed: what is wrong with a run that learned nothing; None for one that did.
        calibration: for each labeled split how sure predictions are and how often they are right,
            see `calibration_bins`; empty where they are no probabilities of single classes, and in
            folders written before it was kept.
        seconds: time of the training, evaluations included.
        real_tokens_per_second: trained tokens without padding, evaluations not included.
    """

    best_epoch: int
    metrics: Mapping[str, Mapping[str, float]]
    epochs: tuple[Mapping[str, Any], ...]
    confusion: Mapping[str, list[list[int]]]
    collapsed: str | None
    seconds: float
    real_tokens_per_second: float
    calibration: Mapping[str, list[list[float]]] = dataclasses.field(default_factory=dict)

    @property
    def validation(self) -> Mapping[str, float]:
        """The metrics of the validation data; empty without such data."""
        return self.metrics.get("validation", {})

    @property
    def test(self) -> Mapping[str, float]:
        """The metrics of the test data; empty without such data, or without its labels."""
        return self.metrics.get("test", {})

    @classmethod
    def finished(cls, folder: str | os.PathLike) -> Self | None:
        """Returns the result of a run that ended; None where there is none."""
        path = Path(folder) / METRICS_FILE
        if not path.is_file():
            return None
        content = read_json(path)
        metrics, epochs = (nan_for_null(content[name]) for name in ("metrics", "epochs"))
        return cls(**content | {"metrics": metrics, "epochs": tuple(epochs)})

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `metrics.json`; numbers that are not finite are null there."""
        write_json(Path(folder) / METRICS_FILE, null_for_nan(dataclasses.asdict(self)))
