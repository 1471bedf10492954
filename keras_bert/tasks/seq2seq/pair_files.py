"""The `seq2seq` task: columns of source and target in CSV, TSV or JSONL files."""

import functools
import os
import sys
from pathlib import Path
from typing import Any

from keras_bert.choices import check_choice
from keras_bert.counts import needed_count
from keras_bert.finetuning.task import (
    TRAIN,
    VALIDATION,
    PredictionInput,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.models.seq2seq.encoder_decoder import DecoderStart, Decoding
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.tables import EXTENSIONS, check_different_columns, read_table
from keras_bert.tasks.seq2seq.head import (
    SOURCE,
    TARGET,
    Seq2SeqHead,
    SourceTarget,
    default_candidates,
)
from keras_bert.tasks.seq2seq.metrics import seq2seq_metrics
from keras_bert.tasks.splits import find_splits

# Cross-attention starts fresh and takes more steps than a head of some thousand weights.
_DEFAULTS = {"epochs": 10, "batch_size": 32, "learning_rate": 1e-4}


def seq2seq_task(
    source_column: str = SOURCE,
    target_column: str = TARGET,
    decoder: DecoderStart = "bert2bert",
    max_target_length: int = 64,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    decoding: Decoding = "autoregressive",
    iterations: int | None = None,
    length_candidates: int | None = None,
) -> Task:
    """Returns the task of writing the target column for the source column.

    Args:
        source_column: column of the text to read.
        target_column: column of the text to write.
        decoder: how the decoder starts: "bert2bert", "bertshare" or "random".
        max_target_length: the most pieces of a target, its end among them.
        beam_size: beams of the search; 1 is greedy search; None for 4.
        length_penalty: prefers longer texts, the more the larger it is; 0 does not; None for 0.6.
        decoding: piece by piece ("autoregressive"), or by Mask-Predict ("mask_predict").
        iterations: of Mask-Predict; None for 10.
        length_candidates: lengths that Mask-Predict tries; None for 5, or all that there are.

    Raises:
        ValueError: an argument is out of its range, or for the other decoding, or both columns are
            one.
    """
    check_different_columns(source_column=source_column, target_column=target_column)
    check_choice("decoding", decoding, Decoding)
    needed_count("max_target_length", max_target_length, 2)
    settings: dict[str, dict[str, Any]] = {
        "autoregressive": {"beam_size": beam_size, "length_penalty": length_penalty},
        "mask_predict": {"iterations": iterations, "length_candidates": length_candidates},
    }
    given: dict[str, Any] = {}
    for of_decoding, values in settings.items():
        told = {name: value for name, value in values.items() if value is not None}
        if told and of_decoding != decoding:
            raise ValueError(
                f"{' and '.join(told)}: of the decoding {of_decoding!r}, but decoding is "
                f"{decoding!r}: leave it out, or give --decoding={of_decoding}"
            )
        given |= told
    if decoding == "mask_predict":
        given.setdefault("length_candidates", default_candidates(max_target_length))
    head = Seq2SeqHead(decoder, max_target_length, decoding=decoding, **given)
    read = functools.partial(_read, source_column=source_column, target_column=target_column)
    return Task("seq2seq", head, read, seq2seq_metrics(head.fills_gaps), _DEFAULTS)


def _read(folder: str | os.PathLike, source_column: str, target_column: str) -> TaskData:
    if is_tfds(folder):
        raise ValueError(
            f"{folder} is a TFDS set: this task reads files with the columns {SOURCE} and "
            f"{TARGET}; write one from it"
        )
    splits = {
        split: read_pairs(path, source_column, target_column, split in (TRAIN, VALIDATION))
        for split, path in find_splits(Path(folder), EXTENSIONS).items()
    }
    # Said where texts are to be measured, not where they are predicted.
    if "chrf" not in seq2seq_metrics():
        print(
            "sacrebleu is not installed: texts are generated but not measured by BLEU and chrF; "
            "pip install sacrebleu for them",
            file=sys.stderr,
        )
    return TaskData(splits, text_columns={SOURCE: source_column, TARGET: target_column})


def read_pairs(
    path: Path,
    source_column: str = SOURCE,
    target_column: str = TARGET,
    target_needed: bool = False,
) -> list[SourceTarget]:
    """Reads a table of sources and targets.

    Args:
        path: CSV, TSV or JSONL.
        source_column: column of the text to read.
        target_column: column of the text to write.
        target_needed: whether a table without targets is refused.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a column is missing, or a text in it is empty or a list; the sentence names the
            line.
    """
    table = read_table(path)
    sources = table.texts(source_column, "name the right one with --source_column")
    targets: list[str | None] = [None] * len(sources)
    if target_needed or target_column in table.columns:
        targets = [*table.texts(target_column, "name the right one with --target_column")]
    for row, source, target in zip(table.rows, sources, targets, strict=True):
        for name, text in ((source_column, source), (target_column, target)):
            if text is not None and not text.strip():
                raise ValueError(
                    f"{path}, line {row.line}: {name} is empty: fill it or remove the row"
                )
    return [SourceTarget(*pair) for pair in zip(sources, targets, strict=True)]


def read_sources_to_predict(path: Path, description: TaskDescription) -> PredictionInput:
    """Reads a table with the column of sources that a model was trained on.

    Args:
        path: the table; targets are not needed.
        description: the model's task.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it lacks the column, or a value is a list.
    """
    table = read_table(path)
    column = description.text_columns.get(SOURCE, SOURCE)
    remedy = "the model was trained on a column of this name; rename yours"
    examples = [SourceTarget(text) for text in table.texts(column, remedy)]
    return PredictionInput.of_table(examples, table)
