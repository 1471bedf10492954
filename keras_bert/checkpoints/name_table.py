"""Strict name tables: one list of rows per dialect, read in both directions.

A row says under which names a variable of ours lies in the other dialect and in which form. Every
tensor of a checkpoint must be claimed by a row, be a known copy, or be dropped for a stated reason;
every row must find its tensors in their exact shapes. Anything else is an error with its name.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from keras_bert.checkpoints.checkpoint import MappingReport
from keras_bert.checkpoints.variables import Shapes
from keras_bert.config import BertConfig

# Longer lists of wrong names help nobody: the first ones show the pattern.
_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Form:
    """How one array of ours is laid out as one or more arrays of theirs.

    Attributes:
        to_theirs: cuts and turns our array; must work on views without copying.
        to_ours: the inverse.
    """

    to_theirs: Callable[[np.ndarray, BertConfig], list[np.ndarray]]
    to_ours: Callable[[list[np.ndarray], BertConfig], np.ndarray]


SAME = Form(lambda ours, _: [ours], lambda theirs, _: theirs[0])
TRANSPOSED = Form(lambda ours, _: [ours.T], lambda theirs, _: theirs[0].T)


def _parts(ours: np.ndarray, config: BertConfig) -> list[np.ndarray]:
    """Returns query, key and value, each with that of global positions behind it, if any."""
    if config.projects_global_attention:
        return np.split(ours, 6, axis=-1)
    ends = np.cumsum([config.num_attention_heads, config.key_value_heads]) * config.head_size
    return np.split(ours, ends, axis=-1)


# One array of ours, three or six of theirs.
PARTS = Form(_parts, lambda theirs, _: np.concatenate(theirs, axis=-1))
PARTS_TRANSPOSED = Form(
    lambda ours, config: [part.T for part in _parts(ours, config)],
    lambda theirs, _: np.concatenate([part.T for part in theirs], axis=-1),
)

# Query and key where they read a layer of their own: one array of ours, two of theirs.
HALVES = Form(
    lambda ours, _: np.split(ours, 2, axis=-1), lambda theirs, _: np.concatenate(theirs, axis=-1)
)
# What goes through the activation of a feed-forward layer, and the gate beside it: two arrays of
# theirs, or one in which the gate stands first (which is the one form that copies).
HALVES_TRANSPOSED = Form(
    lambda ours, _: [half.T for half in np.split(ours, 2, axis=-1)],
    lambda theirs, _: np.concatenate([half.T for half in theirs], axis=-1),
)
GATE_FIRST_TRANSPOSED = Form(
    lambda ours, _: [np.roll(ours, ours.shape[-1] // 2, axis=-1).T],
    lambda theirs, _: np.roll(theirs[0].T, theirs[0].shape[0] // 2, axis=-1),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One variable: our path, their names, the form.

    `{layer}` stands for every layer's number, `{network}` for that of each feed-forward network of
    a layer but the last.
    """

    ours: str
    theirs: tuple[str, ...]
    form: Form = SAME


def same(ours: str, theirs: str, *names: str) -> list[Row]:
    """Returns rows for variables with the same last names under our path and under theirs."""
    return [Row(f"{ours}/{name}", (f"{theirs}/{name}",)) for name in names]


@dataclasses.dataclass(frozen=True)
class Leftovers:
    """Tensors of a dialect that no row claims, and why that is right.

    Attributes:
        dropped: regular expression of the whole name -> the reason to leave the tensor behind.
        copies: their name -> the variable of ours that it should equal, see `differing_copy`.
    """

    dropped: Mapping[str, str]
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Tensors:
    """The tensors of a file, read one at a time.

    Attributes:
        source: the file's name, for messages.
        shapes: shape of every tensor by name.
        read: returns one tensor by name.
    """

    source: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]


def expand(rows: Iterable[Row], config: BertConfig) -> list[Row]:
    """Returns the rows with one copy per layer, or network of it, of those that name it."""
    expanded = list(rows)
    for place, count in (
        ("{layer}", config.num_hidden_layers),
        ("{network}", config.num_feedforward_networks - 1),
    ):
        expanded = [
            Row(
                row.ours.replace(place, str(index)),
                tuple(name.replace(place, str(index)) for name in row.theirs),
                row.form,
            )
            for row in expanded
            for index in (range(count) if place in row.ours else [0])
        ]
    return expanded


def to_variables(
    tensors: Tensors,
    rows: Sequence[Row],
    shapes: Shapes,
    config: BertConfig,
    leftovers: Leftovers,
    optional: Sequence[str] = (),
) -> tuple[dict[str, np.ndarray], MappingReport]:
    """Reads a checkpoint of another dialect.

    Args:
        tensors: the checkpoint.
        rows: the dialect's table, expanded.
        shapes: the variables wanted, with their shapes.
        config: the encoder's numbers.
        leftovers: what the dialect may hold besides.
        optional: variable paths that may be missing, but only all together.

    Returns:
        The variables found (float32), and what became of each tensor.

    Raises:
        ValueError: a tensor is missing, is one too many, or has another shape or no float type; the
            sentence names each.
    """
    rows = [row for row in rows if row.ours in shapes]
    if not any(
        name in tensors.shapes for row in rows for name in row.theirs if row.ours in optional
    ):
        rows = [row for row in rows if row.ours not in optional]
    claimed = {name for row in rows for name in row.theirs}
    dropped = {}
    for name in (name for name in tensors.shapes if name not in claimed):
        reasons = [
            reason for pattern, reason in leftovers.dropped.items() if re.fullmatch(pattern, name)
        ]
        if name in leftovers.copies:
            reasons.append(f"a copy of {leftovers.copies[name]}")
        if reasons:
            dropped[name] = reasons[0]
    theirs: Shapes = {}
    for row in rows:
        # A view of a single zero has the shape but costs no memory.
        parts = row.form.to_theirs(np.broadcast_to(np.float32(0), shapes[row.ours]), config)
        theirs |= {name: part.shape for name, part in zip(row.theirs, parts, strict=True)}
    _check_names_and_shapes(tensors, theirs, {*dropped})
    variables = {
        row.ours: np.ascontiguousarray(
            row.form.to_ours([read_float32(tensors, name) for name in row.theirs], config)
        )
        for row in rows
    }
    new = tuple(path for path in shapes if path not in variables)
    return variables, MappingReport({row.ours: row.theirs for row in rows}, dropped, new)


def to_tensors(
    variables: Mapping[str, np.ndarray], rows: Sequence[Row], config: BertConfig
) -> dict[str, np.ndarray]:
    """Returns the variables under the names and in the forms of a dialect.

    Raises:
        ValueError: the dialect has no name for a variable.
    """
    table = {row.ours: row for row in rows}
    tensors = {}
    for path, value in variables.items():
        if path not in table:
            raise ValueError(f"the format has no name for the variable {path} {value.shape}")
        parts = table[path].form.to_theirs(np.asarray(value), config)
        for name, part in zip(table[path].theirs, parts, strict=True):
            tensors[name] = np.ascontiguousarray(part)
    return tensors


def _check_names_and_shapes(tensors: Tensors, expected: Shapes, dropped: set[str]) -> None:
    missing = [
        f"{name} {_shown(expected[name])}" for name in expected if name not in tensors.shapes
    ]
    extra = [
        f"{name} {_shown(shape)}"
        for name, shape in tensors.shapes.items()
        if name not in expected and name not in dropped
    ]
    misshapen = [
        f"{name} is {_shown(tensors.shapes[name])}, expected {_shown(shape)}"
        for name, shape in expected.items()
        if tuple(tensors.shapes.get(name, shape)) != tuple(shape)
    ]
    problems = [
        f"{kind} {', '.join(names[:_NAMES_SHOWN])}"
        + (f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else "")
        for kind, names in (
            ("missing:", missing),
            ("unknown:", extra),
            ("of another shape:", misshapen),
        )
        if names
    ]
    if problems:
        raise ValueError(
            f"{tensors.source} does not fit its config. Tensors {'; '.join(problems)}. "
            "Give the config and the files that belong together"
        )


def _shown(shape: Sequence[int]) -> str:
    return str(list(shape))


def read_float32(tensors: Tensors, name: str) -> np.ndarray:
    """Returns one tensor in float32.

    Raises:
        ValueError: it has another type than float32, float16 and bfloat16.
    """
    value = tensors.read(name)
    # bfloat16 (kind "V" to NumPy) and float16 fit into float32 exactly, float64 does not.
    if value.dtype.name not in ("float32", "float16", "bfloat16"):
        raise ValueError(
            f"{tensors.source}: {name} is {value.dtype.name}, expected float32, float16 or "
            "bfloat16: save the checkpoint in one of these"
        )
    return value.astype(np.float32)


def differing_copy(
    tensors: Tensors, variables: Mapping[str, np.ndarray], copies: Mapping[str, str]
) -> str | None:
    """Returns a sentence on the first copy that does not equal its variable, None without one.

    Args:
        tensors: the checkpoint.
        variables: those read from it.
        copies: name of a tensor -> the variable that it should equal; either may be missing.
    """
    for name, path in copies.items():
        if name in tensors.shapes and path in variables:
            if not np.array_equal(read_float32(tensors, name), variables[path]):
                return f"{tensors.source}: {name} differs from {path}"
    return None
