"""The numbers of a probed encoder: as a table, and as a file."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from keras_bert.storage.files import write_json


@dataclasses.dataclass(frozen=True)
class LayerScore:
    """What linear probes read off one layer. Accuracies are fractions of the measured words.

    Attributes:
        layer: 0 for the embeddings, then the blocks from 1 up.
        accuracy: that of the probe.
        control_accuracy: that of the same probe on the control task.
        weight_decay: the one that was best on development data.
        loss: cross-entropy on development data, nats.
        random_accuracy: of a probe on the same layer with random weights; None where left out.
        f1: of whole entities; None where tags are plain ones.
    """

    layer: int
    accuracy: float
    control_accuracy: float
    weight_decay: float
    loss: float
    random_accuracy: float | None = None
    f1: float | None = None

    @property
    def name(self) -> str:
        """What tables call the layer."""
        return "embeddings" if self.layer == 0 else f"layer {self.layer}"

    @property
    def selectivity(self) -> float:
        """Accuracy less control accuracy (Hewitt and Liang 2019)."""
        return self.accuracy - self.control_accuracy


@dataclasses.dataclass(frozen=True)
class EdgeScores:
    """What edge probes read off all layers together (Tenney et al. 2019).

    Attributes:
        unit: "spans" or "words", what is classified.
        labels: how many labels there are.
        train_spans: how many spans were learned from.
        measured_spans: how many accuracy was measured on.
        cumulative: accuracy of the probe that sees the embeddings and the layers up to each.
        mix: the weight of each layer in the probe that sees all; their sum is 1.
    """

    unit: str
    labels: int
    train_spans: int
    measured_spans: int
    cumulative: tuple[float, ...]
    mix: tuple[float, ...]

    @property
    def differentials(self) -> tuple[float, ...]:
        """What each layer adds to the accuracy of those below, from layer 1 up."""
        pairs = zip(self.cumulative, self.cumulative[1:], strict=False)
        return tuple(after - before for before, after in pairs)

    @property
    def centre_of_gravity(self) -> float:
        """The mean layer under the weights of the mix; embeddings are 0."""
        return sum(layer * weight for layer, weight in enumerate(self.mix))

    @property
    def expected_layer(self) -> float | None:
        """The mean layer under what each one adds; None where they add nothing together."""
        total = sum(self.differentials)
        if total <= 0:
            return None
        added = enumerate(self.differentials, start=1)
        return sum(layer * gain for layer, gain in added) / total


@dataclasses.dataclass(frozen=True)
class ProbingResult:
    """What `probe_layers` found.

    Attributes:
        model: name of the model.
        labels: the tags.
        words: how many words there are, by "train", "development" and "measured".
        measured_on: "test", or "validation" where there are no tags to test.
        layers: the linear probes, embeddings first.
        most_frequent_tag: accuracy of saying the same tag always.
        most_frequent_tag_of_word: accuracy of saying the tag that a word has most often.
        edge: the edge probes; None where they were left out.
        notes: what a reader should know of the data, in sentences.
        options: the options, by name.
    """

    model: str
    labels: tuple[str, ...]
    words: Mapping[str, int]
    measured_on: str
    layers: tuple[LayerScore, ...]
    most_frequent_tag: float
    most_frequent_tag_of_word: float
    edge: EdgeScores | None
    notes: tuple[str, ...]
    options: Mapping[str, Any]

    def table(self) -> str:
        """Returns all numbers as lines of text."""
        return "\n".join(self._lines())

    def as_dict(self) -> dict[str, Any]:
        """Returns what `save` writes."""
        found = dataclasses.asdict(self)
        for row, score in zip(found["layers"], self.layers, strict=True):
            row["selectivity"] = score.selectivity
        if self.edge is not None:
            found["edge"] |= {
                "differentials": self.edge.differentials,
                "centre_of_gravity": self.edge.centre_of_gravity,
                "expected_layer": self.edge.expected_layer,
            }
        return found

    def save(self, path: str | os.PathLike) -> None:
        """Writes all numbers as JSON, whole or not at all.

        Args:
            path: the file to write; its folder is created when missing.
        """
        write_json(path, self.as_dict(), ensure_ascii=False)

    def _lines(self) -> Iterator[str]:
        words = self.words
        yield (
            f"{self.model}: {len(self.labels)} tags; {words['train']:,} words to learn from, "
            f"{words['development']:,} to choose by, {words['measured']:,} to measure on "
            f"({self.measured_on})"
        )
        yield from self.notes
        yield ""
        has_random = self.layers[0].random_accuracy is not None
        has_f1 = self.layers[0].f1 is not None
        columns = ["accuracy", "control", "selectivity"]
        columns += ["random weights"] * has_random + ["entity F1"] * has_f1 + ["weight decay"]
        # Headings stand apart by two blanks; numbers are set right, below their ends.
        yield f"{'linear probe':14}" + "".join(f"  {column}" for column in columns)
        for score in self.layers:
            numbers = [score.accuracy, score.control_accuracy, score.selectivity]
            numbers += [score.random_accuracy or 0.0] * has_random + [score.f1 or 0.0] * has_f1
            cells = [_percent(number) for number in numbers] + [f"{score.weight_decay:g}"]
            yield f"{score.name:14}" + _aligned(cells, columns)
        yield ""
        for name, accuracy in self.baselines().items():
            yield f"{name:30}{_percent(accuracy):>8}"
        if self.edge is not None:
            yield from self._edge_lines(self.edge)

    def baselines(self) -> dict[str, float]:
        """Returns the accuracies without any model, by what tables call them."""
        return {
            "most frequent tag": self.most_frequent_tag,
            "most frequent tag of the word": self.most_frequent_tag_of_word,
        }

    def _edge_lines(self, edge: EdgeScores) -> Iterator[str]:
        yield ""
        yield (
            f"edge probe: {edge.train_spans:,} {edge.unit} of {edge.labels} labels to learn from, "
            f"{edge.measured_spans:,} to measure on"
        )
        columns = ["accuracy up to here", "added", "weight in the mix"]
        yield f"{'':14}" + "".join(f"  {column}" for column in columns)
        added = ("", *(f"{100 * gain:+.2f}" for gain in edge.differentials))
        rows = zip(self.layers, edge.cumulative, added, edge.mix, strict=True)
        for score, accuracy, gain, weight in rows:
            cells = [_percent(accuracy), gain, _percent(weight)]
            yield f"{score.name:14}" + _aligned(cells, columns)
        expected = edge.expected_layer
        yield f"centre of gravity: layer {edge.centre_of_gravity:.2f}" + (
            "" if expected is None else f"; expected layer {expected:.2f}"
        )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _aligned(cells: list[str], columns: list[str]) -> str:
    return "".join(f"  {cell:>{len(column)}}" for cell, column in zip(cells, columns, strict=True))
