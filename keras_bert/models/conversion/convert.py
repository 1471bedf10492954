"""Conversion of a model folder to another format, with the proof that nothing changed."""

import dataclasses
import os
from collections.abc import Collection
from typing import Any

import numpy as np

from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.model_classes import ENCODER_DECODER, ENTITY_MATCHER
from keras_bert.checkpoints.peft.settings import is_adapter_folder
from keras_bert.choices import PositionExtension, TargetFormat, WeightsDtype, check_choice
from keras_bert.config import BertConfig
from keras_bert.models import preset, registry
from keras_bert.models.conversion import parity
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.surgery.local_attention import localize_checkpoint
from keras_bert.models.surgery.position_extension import extend_checkpoint
from keras_bert.storage import hub

# Of the largest activation: rounding is millionths of it, a matrix turned the wrong way tenths.
_ALLOWED_DIFFERENCE = 1e-3


@dataclasses.dataclass(frozen=True)
class ParityReport:
    """What a conversion did and how alike source and result are.

    Attributes:
        checkpoint: the source, with the report of what became of its tensors.
        format: format of the result.
        new: variables that the result holds and the source does not; they are random.
        left_out: variables of the source that the format has no place for: a pooler, where it
            keeps one in some heads only, or the next sentence head of a family that has none there.
        lost: what the format has no place for of the head beside its weights, by name: labels of
            its classes, and whether a text may have several of them.
        equal_arrays: number of variables that are bit-equal in both.
        compared: the two libraries whose activations were compared, None if neither owner's is
            installed.
        difference: largest difference of their activations on random input.
        positions: how many positions the source had, where the result has more. The source is then
            compared with its table extended.
        attention: that of the source and of the result in words, where it was changed.
        rounded: dtype of the result and the largest change of a weight, where it is not float32.
            The source is then compared with its weights rounded.
    """

    checkpoint: Checkpoint
    format: TargetFormat
    new: tuple[str, ...]
    left_out: tuple[str, ...]
    lost: dict[str, Any]
    equal_arrays: int
    compared: tuple[str, str] | None
    difference: float | None
    positions: int | None = None
    attention: tuple[str, str] | None = None
    rounded: tuple[WeightsDtype, float] | None = None

    def __str__(self) -> str:
        """Returns the report as lines of text."""
        report = self.checkpoint.report
        activations = "not compared: the library of neither format is installed"
        if self.checkpoint.architecture == ENTITY_MATCHER:
            activations = "not compared: gliner is not asked"
        if self.compared is not None:
            source, result = self.compared
            of = "of the encoder, " if self.checkpoint.architecture == ENCODER_DECODER else ""
            activations = (
                f"{of}{source} (source) and {result} (result) "
                f"differ by at most {self.difference:.1e}"
            )
        lines = [
            f"{self.checkpoint.architecture} -> {self.format}",
            *self._changed_lines(),
            f"tensors read:    {report.tensors_read}",
            f"tensors mapped:  {report.tensors_mapped} -> {len(report.mapped)} variables",
            f"tensors dropped: {len(report.dropped)}",
            *(f"  {name}: {reason}" for name, reason in report.dropped.items()),
            f"variables new:   {len(self.new)}",
            *(f"  {path}: not in the source, random in the result" for path in self.new),
            *(f"  {path}: left out, the result has no place for it" for path in self.left_out),
            *(
                f"{name + ':':<16} {value}: the format has no place for it"
                for name, value in self.lost.items()
            ),
            f"arrays equal:    {self.equal_arrays} of {len(self.checkpoint.variables)}",
            f"activations:     {activations}",
        ]
        return "\n".join(lines)

    def _changed_lines(self) -> list[str]:
        lines = []
        if self.positions is not None:
            longer = self.checkpoint.config.max_position_embeddings
            lines.append(f"positions:       {self.positions} -> {longer}")
        if self.attention is not None:
            lines.append("attention:       " + " -> ".join(self.attention))
        if self.rounded is not None:
            dtype, change = self.rounded
            lines.append(f"weights:         {dtype}, rounding changed them by at most {change:.1e}")
        return lines


def convert(
    source: str | os.PathLike,
    target: str | os.PathLike,
    format: TargetFormat,
    ignore_config_keys: Collection[str] = (),
    max_position_embeddings: int | None = None,
    position_extension: PositionExtension = "copy",
    attention_window: int | None = None,
    dtype: WeightsDtype = "float32",
    adapter: str | None = None,
) -> ParityReport:
    """Writes the model of one folder into another in any format, and compares the two.

    Args:
        source: a folder of ours, Google's, Hugging Face's, Model Garden's or GLiNER's, an adapter
            of PEFT, a SavedModel in TF-Hub's form, or `hf://org/name`.
        target: a folder that exists and is empty.
        format: format of the result.
        ignore_config_keys: unknown keys of its config to pass over, see `BertConfig.from_dict`.
        max_position_embeddings: positions of the result; None keeps those of the source.
        position_extension: how the table gets longer then, see `extend_positions`.
        attention_window: how far a position of the result sees to each side, see
            `with_local_attention`; None keeps the attention of the source.
        dtype: of the weights in the files of the result; other than float32 for "hf" only.
        adapter: the task of Jina Embeddings v3 as it is published, such as "retrieval.query", whose
            adapter is added to the weights; None for those beside the adapters.

    Returns:
        What was done, and how alike both are.

    Raises:
        FileNotFoundError: the source is no model folder.
        ValueError: the source is damaged or has as many positions already, the format cannot hold
            it, an array changed, a weight is too large for the dtype, or the activations differ by
            more than rounding explains.
    """
    check_choice("dtype", dtype, WeightsDtype)
    if dtype != "float32" and format != "hf":
        raise ValueError(
            f"weights in {dtype} are for the format hf, not {format}: leave the dtype out, or "
            "give --format=hf"
        )
    source = hub.local_folder(source)
    # As named arrays in float32, the form that every format is read into and written from.
    read = preset.read_checkpoint(source, ignore_config_keys, adapter=adapter)
    read.check_masked_lm()
    positions = None
    if max_position_embeddings is not None:
        positions = read.config.max_position_embeddings
        read = extend_checkpoint(read, max_position_embeddings, position_extension)
    attention = None
    if attention_window is not None:
        full = _attention(read.config)
        read = localize_checkpoint(read, attention_window)
        attention = (full, _attention(read.config))
    rounded: tuple[WeightsDtype, float] | None = None
    if dtype != "float32":
        read, change = _rounded(read, dtype)
        rounded = (dtype, change)
    whole = read.variables
    if format == "keras":
        model_class = registry.model_class(read.architecture)
        preset.save(preset.from_checkpoint(model_class, read, {}), target)
    else:
        read = checkpoints.writable(read, format)
        checkpoints.write(read, target, format)
    # Read back from the files: the writing is proven together with the name table.
    written = preset.read_checkpoint(target)
    # Bit-equal variables.
    kept = {
        path: value
        for path, value in read.variables.items()
        if path not in preset.POOLER or path in written.variables
    }
    in_order = dict.fromkeys([*preset.POOLER, *whole])
    left_out = tuple(path for path in in_order if path in whole and path not in kept)
    for path, value in kept.items():
        if not np.array_equal(written.variables[path], value, equal_nan=True):
            raise ValueError(f"{path} reads differently from the result: nothing was kept")
    lost = {
        name: read.head[name]
        for name in ("labels", "problem_type")
        if read.head.get(name) and written.head.get(name) != read.head[name]
    }
    new = tuple(path for path in written.variables if path not in read.variables)
    # The activations of both, each computed by the library that owns its format.
    features = parity.random_features(read.config)
    # An adapter has no library of its own: it is compared as it was read.
    is_read_here = preset.is_ours(source) or is_adapter_folder(source)
    source_format = "keras" if is_read_here else checkpoints.format_of(source)
    # Sequence output [2, S, H] and pooled output [2, H] of either side, on the same random ids.
    before = None  # of what was changed on the way only we know what is right
    changes = (positions, attention_window, rounded, adapter)
    if all(change is None for change in changes):
        before = parity.library_activations(source, source_format, read.config, features)
    if before and any("pooler" in name for name in read.report.dropped):
        # An idle one beside a head with a layer of its own: their encoder runs it, ours the head's.
        before = before._replace(pooled_output=None)
    after = parity.library_activations(target, format, read.config, features)
    compared = difference = None
    if before or after:
        # Ours stand in for a library that is not there, each from the files of its own side.
        before = before or _our_activations(read, features)
        after = after or _our_activations(written, features)
        compared = (before.library, after.library)
        difference = parity.largest_difference(before, after, features)
        # A matrix that a name table turns the wrong way is of the right shape where it is square,
        # and comes back as it was; only another library's activations show it.
        allowed = _ALLOWED_DIFFERENCE * float(np.abs(before.sequence_output).max())
        if difference > allowed:
            raise ValueError(
                f"{before.library} (source) and {after.library} (result) compute activations that "
                f"differ by {difference:.1e}, more than rounding explains ({allowed:.1e}): one of "
                "them reads its folder as another model; nothing was kept"
            )
    return ParityReport(
        *(read, format, new, left_out, lost, len(kept)),
        *(compared, difference, positions, attention, rounded),
    )


def _rounded(checkpoint: Checkpoint, dtype: WeightsDtype) -> tuple[Checkpoint, float]:
    """Returns a checkpoint with its weights in a dtype, and the largest change of one."""
    variables, largest = {}, 0.0
    for path, value in checkpoint.variables.items():
        with np.errstate(over="ignore"):  # told below
            variables[path] = value.astype(dtype)
        change = np.abs(variables[path].astype(np.float32) - value)
        if not np.isfinite(change).all():
            raise ValueError(
                f"{path} holds {np.abs(value).max():.3g}, which {dtype} cannot hold: give another "
                "dtype"
            )
        largest = max(largest, float(change.max(initial=0.0)))
    return dataclasses.replace(checkpoint, variables=variables), largest


def _attention(config: BertConfig) -> str:
    if not config.has_local_attention:
        return "full"
    numbers = {"global_tokens": 0, **config.to_dict()}
    return "window {attention_window}, {global_tokens} global".format_map(numbers)


def _our_activations(checkpoint: Checkpoint, features: dict[str, np.ndarray]) -> parity.Activations:
    encoder = preset.from_checkpoint(BertEncoder, checkpoint, {"dtype": "float32"})
    activations = parity.our_activations(encoder, features)
    if not any(path in checkpoint.variables for path in preset.POOLER):
        return activations._replace(pooled_output=None)
    return activations
