"""How large a model is: parameters, operations and memory, part by part."""

import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.model_classes import ENCODER_DECODER, MODEL_CLASSES
from keras_bert.checkpoints.variables import Shapes, variable_shapes
from keras_bert.choices import TokenPooling
from keras_bert.config import BertConfig
from keras_bert.counts import check_count
from keras_bert.models import preset, registry
from keras_bert.pretraining.pretrain import load_config
from keras_bert.storage import hub
from keras_bert.storage.paths import short_name
from keras_bert.training import flops, memory
from keras_bert.visualize import charts, report_page

WORD = "word embeddings"
POSITION = "position embeddings"
SEGMENT = "segment embeddings"
NORMS = "norms"
OTHER = "other"

# First match of a variable's path -> part. What an encoder of one's own adds is "other".
_PARTS = (
    (r"^word_embeddings/", WORD),
    (r"^embeddings/position_embeddings$", POSITION),
    (r"^embeddings/segment_embeddings$", SEGMENT),
    (r"^(embeddings_projection|embeddings/transformation)/", flops.EMBEDDING_PROJECTION),
    (r"^(layer_\d+/\w+_norm|layer_\d+/.*/norm|embeddings/layer_norm)/", NORMS),
    (r"^layer_\d+/((input|output)_bottleneck|attention/bottleneck)/", flops.BOTTLENECKS),
    (
        r"^layer_\d+/attention/(query_key_value|query_key|value|output)/",
        flops.PROJECTIONS,
    ),
    (r"^layer_\d+/(feed_forward_\d+/)?(intermediate|output)/", flops.FEED_FORWARD),
    (r"^pooler/", flops.POOLER),
    (r"^(embeddings|layer_\d+)/", OTHER),
    (r"", flops.HEAD),
)
# Room for masks in pretraining, as in `PlanOptions`.
_MASKED_RATE = 0.15
_FROZEN = "BertBiLSTMTagger"
_BYTES = {"float32": 4, "bfloat16": 2}


class ModelReport(report_page.Report):
    """Parameters, operations and memory of a model; a notebook shows it as a page.

    Attributes:
        title: names the model.
        config: the numbers of its encoder.
        architecture: name of its class, such as "BertPretrainer".
        max_seq_length: pieces per sequence that operations and memory are for, S.
        batch_size: sequences per step that they are for, B.
        predictions: positions per sequence that a pretraining step predicts, P; else 0.
        parameters: how many, by part; their sum is `count_params()`.
        layer_parameters: those that one encoder block computes with, by part.
        forward_flops: operations of the forward pass of one sequence, by part.
        step_flops: operations of a training step, forward and backward, by part.
        step_memory: bytes of a training step by what they hold, an estimate, for computing in
            float32 and in bfloat16.
    """

    def __init__(
        self,
        name: str,
        config: BertConfig,
        architecture: str,
        shapes: Shapes,
        max_seq_length: int,
        batch_size: int,
        pooling: TokenPooling | None = None,
    ):
        for field, value in (("max_seq_length", max_seq_length), ("batch_size", batch_size)):
            check_count(field, value)
        if max_seq_length > config.max_position_embeddings:
            raise ValueError(
                f"max_seq_length is {max_seq_length} but the model has "
                f"{config.max_position_embeddings} positions (max_position_embeddings): give at "
                "most as many"
            )
        self.title = f"Size of {name}"
        self.name = name
        self.config = config
        self.architecture = architecture
        self.max_seq_length, self.batch_size = max_seq_length, batch_size
        self.parameters = _by_part(shapes)
        first = {path: shape for path, shape in shapes.items() if path.startswith("layer_0/")}
        self.layer_parameters = _by_part(first)
        self.predictions = 0
        if MODEL_CLASSES[architecture].predicts_words:
            rate = 1.0 if config.left_to_right else _MASKED_RATE
            self.predictions = math.ceil(rate * max_seq_length)
        encoder_learns = architecture != _FROZEN
        head = {path: shape for path, shape in shapes.items() if _part(path) == flops.HEAD}
        sizes = (max_seq_length, self.predictions)
        self.forward_flops = flops.forward_flops(config, architecture, head, 1, *sizes, pooling)
        step = flops.forward_flops(config, architecture, head, batch_size, *sizes, pooling)
        self.step_flops = flops.training_flops(step, encoder_learns)
        total = sum(self.parameters.values())
        learned = total if encoder_learns else self.parameters[flops.HEAD]
        self.step_memory = {
            dtype: memory.training_memory(
                config, total, learned, batch_size, *sizes, size, encoder_learns
            )
            for dtype, size in _BYTES.items()
        }

    def lines(self) -> Iterator[str]:
        """Yields the report as text for a terminal."""
        config, sequence = self.config, sum(self.forward_flops.values())
        yield (
            f"{self.name}: {self.architecture}, {config.num_hidden_layers} layers, "
            f"{config.hidden_size} wide, {config.num_attention_heads} heads, "
            f"{config.intermediate_size} inside, {config.vocab_size:,} entries"
        )
        for head, rows in (
            (("parameters of", "number", "share", "float32", "bfloat16"), self._parameter_rows()),
            (
                ("operations of", "a token", "a sequence", "share", "a training step"),
                self._flops_rows(),
            ),
            (("memory of a training step", *_BYTES), self._memory_rows()),
        ):
            yield ""
            for row in [list(head), *rows]:
                yield f"{row[0]:36}" + "".join(f"{cell:>17}" for cell in row[1:])
        yield ""
        yield (
            f"operations: matrix products alone; a sequence of {self.max_seq_length} pieces "
            f"forward, {_flops(sequence)}; a training step of {self.batch_size} sequences; "
            f"{self._predicted()}"
        )
        yield "memory: an estimate; compilers do better or worse"

    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file, no script and no network."""
        config = self.config
        bars = [
            ("parameters", list(self.parameters.items())),
            ("forward pass", list(self.forward_flops.items())),
        ]
        memories = [(dtype, list(parts.items())) for dtype, parts in self.step_memory.items()]
        numbers = [
            f"{config.num_hidden_layers} layers, {config.hidden_size} wide",
            f"{config.num_attention_heads} heads of {config.head_size}",
            f"{config.intermediate_size} wide inside",
            f"{config.vocab_size:,} entries",
            f"{config.max_position_embeddings} positions",
        ]
        return report_page.page(
            self.title,
            self.title,
            [
                report_page.paragraph(f"{self.architecture}: {', '.join(numbers)}."),
                report_page.columns(
                    [
                        charts.stacked_bars(
                            "Where parameters and operations are", bars, [_count, _flops]
                        ),
                        charts.stacked_bars(
                            f"Memory of a training step of {self.batch_size} sequences",
                            memories,
                            [_bytes] * len(memories),
                        ),
                    ]
                ),
                report_page.section(
                    "Parameters",
                    charts.table(
                        ["part", "number", "share", "float32", "bfloat16"],
                        self._parameter_rows(),
                        "Parameters by part",
                    ),
                ),
                report_page.section(
                    "Operations",
                    charts.table(
                        ["part", "a token", "a sequence", "share", "a training step"],
                        self._flops_rows(),
                        "Operations by part",
                    ),
                    report_page.paragraph(
                        f"Operations of the matrix products: a sequence of {self.max_seq_length} "
                        "pieces forward, a token of it on average, a training step (forward and "
                        f"backward) of {self.batch_size} sequences; {self._predicted()}. Norms, "
                        "softmax and dropout are a few per cent more.",
                        "note",
                    ),
                ),
                report_page.section(
                    "Memory of a training step",
                    charts.table(
                        ["holds", *_BYTES], self._memory_rows(), "Memory of a training step"
                    ),
                    report_page.paragraph(
                        "An estimate. Weights, gradients and the two moments of AdamW or LAMB are "
                        "float32 in both columns; activations are what the blocks keep for the "
                        "backward pass (Korthikanti et al. 2022), which rematerialization lowers "
                        "to about one block. Compilers do better or worse.",
                        "note",
                    ),
                ),
            ],
        )

    def _predicted(self) -> str:
        if not self.predictions:
            return f"head of {self.architecture}"
        return f"{self.predictions} pieces of each are predicted"

    def _parameter_rows(self) -> list[list[str]]:
        total = sum(self.parameters.values())
        layers = f"{self.config.num_hidden_layers} layers"
        shared = {
            flops.PROJECTIONS: self.config.shares_attention,
            flops.FEED_FORWARD: self.config.shares_feed_forward,
        }
        amounts = [*self.parameters.items(), ("total", total)]
        amounts += [("one layer", sum(self.layer_parameters.values()))]
        return [
            [
                f"{part} ({'one for ' if shared[part] else ''}{layers})"
                if part in shared
                else part,
                f"{number:,}",
                f"{100 * number / total:.2f} %",
                *(_bytes(size * number) for size in _BYTES.values()),
            ]
            for part, number in amounts
            if number or part == "total"
        ]

    def _flops_rows(self) -> list[list[str]]:
        total, step = sum(self.forward_flops.values()), sum(self.step_flops.values())
        rows = [(part, n, self.step_flops[part]) for part, n in self.forward_flops.items() if n]
        return [
            [
                part,
                _flops(number / self.max_seq_length),
                _flops(number),
                f"{100 * number / total:.2f} %",
                _flops(in_step),
            ]
            for part, number, in_step in [*rows, ("total", total, step)]
        ]

    def _memory_rows(self) -> list[list[str]]:
        columns = list(self.step_memory.values())
        rows = [[part, *(_bytes(column[part]) for column in columns)] for part in columns[0]]
        return [*rows, ["total", *(_bytes(sum(column.values())) for column in columns)]]

    def __repr__(self) -> str:
        return f"ModelReport({self.name!r}, {sum(self.parameters.values()):,} parameters)"


def inspect_model(
    model: Any,
    max_seq_length: int = 128,
    batch_size: int = 32,
    ignore_config_keys: Collection[str] = (),
) -> ModelReport:
    r"""Tells how many parameters a model has, and what operations and memory it takes.

    Args:
        model: a named size such as "bert_base" or a config.json, which are counted with both heads
            of pretraining, and a named size with the vocabulary that it was published with, of
            30,522 entries for BERT; a model folder of any format, `hf://org/name` too; or a model
            of the package.
        max_seq_length: pieces per sequence that operations and memory are counted for.
        batch_size: sequences per training step.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Returns:
        A report, which a notebook displays; `save` writes the page, `lines` gives it as text.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ValueError: it is no model of the package, or the sequence is longer than its positions.

    Example:
        report = inspect_model("bert_base", max_seq_length=512, batch_size=16)
        print(*report.lines(), sep="\n")
    """
    head: Mapping[str, Any] = {}
    if isinstance(model, preset.PresetModel):
        head = model.head_config()
        architecture = registry.architecture_of(type(model))
        name = type(model).__name__
        weights = preset.variables_by_path(model, model.weights)
        shapes = {path: tuple(weight.shape) for path, weight in weights.items()}
        config = model.config
    elif not isinstance(model, str | os.PathLike):
        raise ValueError(
            f"the model is a {type(model).__name__}: give a named size, a config.json, a model "
            "folder or a model of keras_bert"
        )
    elif hub.is_hub_name(model) or Path(model).is_dir():
        checkpoint = preset.read_checkpoint(model, ignore_config_keys)
        config, architecture = checkpoint.config, checkpoint.architecture
        head = checkpoint.head
        name = short_name(model)
        shapes = {path: array.shape for path, array in checkpoint.variables.items()}
    else:
        config = load_config(os.fspath(model), None, ignore_config_keys)
        architecture, name = "BertPretrainer", Path(model).name
        shapes = variable_shapes(config, architecture, {})
    if architecture not in MODEL_CLASSES:
        raise ValueError(
            f"the architecture {architecture} is unknown: expected one of "
            f"{', '.join(MODEL_CLASSES)}"
        )
    if architecture == ENCODER_DECODER:
        raise ValueError(
            f"{name} is an encoder with a decoder: operations and memory are counted for encoders; "
            "give its encoder, BertEncoder.from_preset of the folder"
        )
    pooling = head.get("pooling")
    return ModelReport(name, config, architecture, shapes, max_seq_length, batch_size, pooling)


def _part(path: str) -> str:
    return next(part for pattern, part in _PARTS if re.search(pattern, path))


def _by_part(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    sums = dict.fromkeys((part for _, part in _PARTS), 0)
    for path, shape in shapes.items():
        sums[_part(path)] += math.prod(shape)
    return {part: number for part, number in sums.items() if number}


def _count(number: float) -> str:
    return _scaled(number, 1000, ("", "k", "M", "G"))


def _flops(number: float) -> str:
    return _scaled(number, 1000, (" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP"))


def _bytes(number: float) -> str:
    return _scaled(number, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def _scaled(number: float, base: int, units: Sequence[str]) -> str:
    index = 0
    while number >= base and index < len(units) - 1:
        number, index = number / base, index + 1
    digits = 0 if index == 0 or number >= 100 else 1 if number >= 10 else 2
    return f"{number:,.{digits}f}{units[index]}"
