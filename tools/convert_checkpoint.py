"""Converts a model folder between our format and those of Google, Hugging Face and others.

The source's format is found out from its files; SavedModels of BERT from TF-Hub and Kaggle are read
too. The target is written whole or not at all, with vocabulary and tokenizer settings. A parity
report follows: what became of every tensor, and how far the activations of source and result differ
where the library that owns one of them is installed.

    python tools/convert_checkpoint.py --from=uncased_L-12_H-768_A-12 --to=bert_base_hf --format=hf

--dtype=bfloat16 halves the size of a folder in Hugging Face's format.
--adapter=retrieval.query takes the weights of a task of jina-embeddings-v3, and its prompt.
--max_position_embeddings=4096 gives the result a longer table of positions, --attention_window=256
attention in a sliding window: a start for texts of that length (docs/long_texts.md).

With --to=hf://org/name the result is uploaded to the Hugging Face Hub, with a model card (extra
`hub`; log in with `hf auth login` or set HF_TOKEN):

    python tools/convert_checkpoint.py --from=runs/mini/preset --to=hf://org/name
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from absl import flags

from keras_bert import command_line
from keras_bert.checkpoints import (
    multi_vector_modules,
    sentence_modules,
    sentence_prompts,
    sparse_modules,
)
from keras_bert.checkpoints.jina import task_adapters
from keras_bert.checkpoints.m3 import folder as m3
from keras_bert.choices import PositionExtension, TargetFormat, WeightsDtype
from keras_bert.config import read_json
from keras_bert.models.conversion import model_card
from keras_bert.storage import hub
from keras_bert.storage.files import atomic_folder, write_json
from keras_bert.storage.paths import check_local
from keras_bert.text import tokenizer_config
from keras_bert.text.tokenizer_files import TokenizerFiles, read_tokenizer_files
from keras_bert.text.wordpiece.files import WordPieceFiles

if TYPE_CHECKING:
    from keras_bert.config import BertConfig
    from keras_bert.models.conversion.convert import ParityReport

# What releases of sentence-transformers write into config.json for a cross-encoder.
_SCORING_KEYS = ("sentence_transformers", "sbert_ce_default_activation_function")
_AS_IT_IS = "torch.nn.modules.linear.Identity"

_FROM = flags.DEFINE_string("from", None, "Model folder, or hf://org/name.", required=True)
_TO = flags.DEFINE_string(
    "to", None, "Folder to write, which must not exist yet, or hf://org/name.", required=True
)
_FORMAT = flags.DEFINE_enum(
    "format",
    None,
    get_args(TargetFormat),
    "Format of the result; unset: keras for a folder, hf for the Hub.",
)
_PRIVATE = flags.DEFINE_bool(
    "private", True, "Whether a new repository on the Hub is seen by its owners alone."
)
_POSITIONS = flags.DEFINE_integer(
    "max_position_embeddings", None, "Positions of the result; unset: those of the source."
)
_EXTENSION = flags.DEFINE_enum(
    "position_extension",
    "copy",
    get_args(PositionExtension),
    "How a longer table of positions is made: repeated, or stretched.",
)
_WINDOW = flags.DEFINE_integer(
    "attention_window",
    None,
    "Attention in a window: pieces that a position sees to each side (RoBERTa: also --format=hf).",
)
_DTYPE = flags.DEFINE_enum(
    "dtype", "float32", get_args(WeightsDtype), "Of the weights in the files (--format=hf)."
)
_TOKENIZER = flags.DEFINE_bool(
    "tokenizer",
    True,
    "Write the tokenizer's files, too; --notokenizer converts a model whose tokenizer the package "
    "lacks.",
)
_ADAPTER = flags.DEFINE_string(
    "adapter",
    None,
    "Task of jina-embeddings-v3, such as retrieval.query, whose adapter is added to the weights.",
)
_IGNORED = flags.DEFINE_list(
    "ignore_config_keys", [], "Unknown keys of the source's config to pass over."
)


def main(_: Sequence[str]) -> None:
    """Converts, writes the tokenizer's files beside the weights, and prints the report."""
    if _EXTENSION.present and _POSITIONS.value is None:
        raise ValueError(
            "--position_extension is for a longer table of positions: give "
            "--max_position_embeddings, too, or leave it out"
        )
    if hub.is_hub_name(_TO.value):
        return _convert_and_push(_TO.value)
    if _PRIVATE.present:
        raise ValueError("--private is for --to=hf://org/name: leave it out")
    check_local("--to", _TO.value)
    source, target = hub.local_folder(_FROM.value), Path(_TO.value)
    if target.exists():
        raise FileExistsError(f"{target} exists: give a new folder to --to, or remove it first")
    with atomic_folder(target) as temporary:
        report, tokenizer, sentences = _convert_folder(source, temporary, _format("keras"))
    print(f"{report}\ntokenizer:       {tokenizer}{sentences}\nwritten to {target}")


def _format(unset: TargetFormat) -> TargetFormat:
    # The flag takes nothing else.
    return cast(TargetFormat, _FORMAT.value or unset)


def _convert_and_push(name: str) -> None:
    hub.check_can_push(name)
    source, format = hub.local_folder(_FROM.value), _format("hf")
    repository = name.removeprefix(hub.SCHEME)
    base = _FROM.value.removeprefix(hub.SCHEME) if hub.is_hub_name(_FROM.value) else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report, tokenizer, sentences = _convert_folder(source, folder, format)
        card = model_card.model_card(report.checkpoint, format, repository, base, tokenizer)
        (folder / hub.CARD_FILE).write_text(card, encoding="utf-8")
        url, card_was_kept = hub.push(folder, name, _PRIVATE.value)
    print(f"{report}\ntokenizer:       {tokenizer}{sentences}")
    if card_was_kept:
        print(f"model card:      the {hub.CARD_FILE} of the repository was kept as it is")
    print(f"uploaded to {url}")


def _convert_folder(
    source: Path, target: Path, format: TargetFormat
) -> tuple[ParityReport, str, str]:
    """Returns the report, a description of the tokenizer and lines on what is behind the model."""
    report, tokenizer, lines = _convert(source, target, format)
    if m3.is_m3_folder(source):
        m3.copy(source, target)
        lines += f"\nlinear layers:   {m3.LEXICAL_FILE} and {m3.TOKEN_FILE} were copied"
    return report, tokenizer, lines


def _convert(source: Path, target: Path, format: TargetFormat) -> tuple[ParityReport, str, str]:
    """Returns the report, a description of the tokenizer and a line on modules behind it."""
    from keras_bert.finetuning.task import TASK_FILE
    from keras_bert.models.conversion.convert import convert

    inner = Path(sentence_modules.encoder_source(source))  # such as 0_Transformer in it
    files = _read_tokenizer(inner)  # first: what it refuses needs no minutes of conversion
    extension = cast(PositionExtension, _EXTENSION.value)
    report = convert(
        inner,
        target,
        format,
        _IGNORED.value,
        _POSITIONS.value,
        extension,
        _WINDOW.value,
        cast(WeightsDtype, _DTYPE.value),
        _ADAPTER.value,
    )
    if format == "gliner":
        _check_markers(files, report)
    tokenizer = _write_tokenizer(files, target, report.checkpoint.config)
    if not isinstance(files, str):
        _write_length(inner, target, report)
    if format == "keras" and (source / TASK_FILE).is_file():
        shutil.copyfile(source / TASK_FILE, target / TASK_FILE)  # what a fine-tuned run asks for
    try:
        sentences = f"{sentence_modules.MODULES_FILE} and what it lists were copied"
        if sparse_modules.is_sparse_folder(source):
            size = report.checkpoint.config.vocab_size
            sparse_modules.copy(source, target, size)
            return report, tokenizer, f"\nsentences:       {sentences}"
        if multi_vector_modules.is_multi_vector_folder(source):
            multi_vector_modules.copy(source, target)
            if not (source / sentence_modules.MODULES_FILE).is_file():  # Stanford's
                sentences = f"projection and settings are in {sentence_modules.MODULES_FILE} now"
            length = multi_vector_modules.read(target).max_seq_length
        elif sentence_modules.is_sentence_folder(source):
            sentence_modules.copy(source, target)
            if _ADAPTER.value is not None:
                prompt = task_adapters.prompt(read_json(inner / "config.json"), _ADAPTER.value)
                sentence_prompts.set_default(target, _ADAPTER.value, prompt)
                sentences += f"; {prompt!r} stands before texts"
            length = sentence_modules.read(target).max_seq_length
        else:
            if format == "hf" and inner == source:
                _copy_scoring(source, target)
            return report, tokenizer, ""
        if _POSITIONS.value is not None and length is not None and length < _POSITIONS.value:
            # What the author of the model chose is not changed in silence.
            sentences += (
                f"; texts are cut at {length} pieces as before: for longer ones change "
                f"max_seq_length in {sentence_modules.TRANSFORMER_FILE}"
            )
    except ValueError as error:  # no reason not to convert the encoder
        sentences = f"the encoder alone: {error}"
    return report, tokenizer, f"\nsentences:       {sentences}"


def _check_markers(tokenizer: TokenizerFiles | str, report: ParityReport) -> None:
    """Refuses markers with other ids than GLiNER gives them: those behind all pieces."""
    pieces = report.checkpoint.head["entity_token_id"] - 1
    if not isinstance(tokenizer, str) and len(tokenizer.vocabulary) != pieces:
        raise ValueError(
            f"the model has its markers behind {pieces} pieces, but the tokenizer beside it has "
            f"{len(tokenizer.vocabulary)}, behind which GLiNER would put them: make the model with "
            "run_finetuning.py --task=gliner, which counts them"
        )


def _write_length(source: Path, target: Path, report: ParityReport) -> None:
    """Writes how long texts may be, where the source says so or transformers would ask for it."""
    positions = report.checkpoint.config.max_position_embeddings
    try:
        stated = sentence_modules.row_length(source)
    except ValueError:  # no reason not to convert the model
        stated = None
    # All positions that the source had are no choice of its author's where there are more now.
    is_chosen = stated is not None and stated < (report.positions or positions)
    if is_chosen or report.format == "hf":
        path = target / tokenizer_config.FILE_NAME
        stored = tokenizer_config.read_json(path)
        write_json(path, stored | {"model_max_length": stated if is_chosen else positions})


def _copy_scoring(source: Path, target: Path) -> None:
    """Copies what a cross-encoder of sentence-transformers says of its scores.

    Those of a run of the package are the numbers that it learned.
    """
    from keras_bert.finetuning.task import TASK_FILE

    for name in (
        *(sentence_prompts.MODEL_FILE, sentence_modules.MODULES_FILE),
        sentence_modules.TRANSFORMER_FILE,
    ):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    theirs = read_json(source / "config.json") if (source / "config.json").is_file() else {}
    kept = {key: theirs[key] for key in _SCORING_KEYS if key in theirs}
    path = target / "config.json"
    written = read_json(path)
    if (source / TASK_FILE).is_file() and _has_one_score(written):
        kept = {_SCORING_KEYS[0]: {"activation_fn": _AS_IT_IS}}
    if kept:
        write_json(path, written | kept)


def _has_one_score(config: Mapping[str, Any]) -> bool:
    """Whether a text has one score, which sentence-transformers would turn into a probability."""
    architecture = (config.get("architectures") or [""])[0]
    of_classes = architecture.endswith("ForSequenceClassification")
    return architecture.endswith("ForMultipleChoice") or (
        of_classes and len(config.get("id2label", ())) == 1
    )


def _read_tokenizer(source: Path) -> TokenizerFiles | str:
    """Returns the tokenizer, or why there is none."""
    if not _TOKENIZER.value:
        return "none: --notokenizer"
    try:
        return read_tokenizer_files(source)
    except FileNotFoundError:
        return "none: the source holds no vocabulary"
    except ValueError as error:
        raise ValueError(f"{error}; --notokenizer converts the model alone") from None


def _write_tokenizer(tokenizer: TokenizerFiles | str, target: Path, config: BertConfig) -> str:
    """Writes the tokenizer's files; returns what is told of them."""
    if isinstance(tokenizer, str):
        return tokenizer
    vocabulary = tokenizer.vocabulary
    padding = config.vocab_size - len(vocabulary)
    if padding < 0:  # more rows than pieces are padding, and convert like any others
        vocabulary.check_size(config.vocab_size)
    if isinstance(tokenizer, WordPieceFiles):
        tokenizer.save(target, config.has_segments)
    else:  # those of models without segments, or ALBERT's
        tokenizer.save(target)
    told = f"{len(vocabulary)} pieces, {'un' if tokenizer.lowercase else ''}cased"
    return f"{told}; the embeddings have {padding} rows of padding" if padding else told


if __name__ == "__main__":
    command_line.run(main)
