"""`gliner_config.json`: which GLiNER a folder holds, and where its encoder and tokenizer are.

GLiNER (Zaratiana et al. 2023, arXiv:2311.08526) appends three tokens to the vocabulary of its
encoder, in this order: [FLERT], which nothing reads, <<ENT>> before each label and <<SEP>> behind
the last one. Of n pieces they have the ids n, n + 1 and n + 2. Files of before 2025 have neither
the config of the encoder nor a tokenizer: `model_name` says whose they are.

One encoder that scores spans is read (`span_mode` "markerV0"), as the models of the paper and the
published gliner_small, gliner_medium, gliner_large and gliner_multi of version 2.1 are.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.config import CONFIG_FILES, read_json
from keras_bert.counts import padded_counts
from keras_bert.storage import hub

CONFIG_FILE = "gliner_config.json"
ENTITY_TOKEN, SEPARATOR_TOKEN = "<<ENT>>", "<<SEP>>"
_UNREAD_TOKEN = "[FLERT]"
# What stands behind the pieces of the encoder.
ADDED_TOKENS = 3
SPAN_MODE = "markerV0"

_TOKENIZER_FILE = "tokenizer_config.json"
_ADDED_FILE, _TOKENIZER_JSON = "added_tokens.json", "tokenizer.json"
_OTHER_KINDS = {
    "labels_encoder": "a bi-encoder, with an encoder of its own for labels",
    "labels_decoder": "a decoder that writes labels",
    "relations_layer": "relations between entities",
    "span_encoder_config": "a second encoder of words",
    "post_fusion_schema": "attention between labels and words behind the encoder",
    "fuse_layers": "a sum over the layers of the encoder",
    "precomputed_prompts_mode": "labels that are fixed once and for all",
}
# Settings with the values that are read.
_SETTINGS = {
    "subtoken_pooling": "first",
    "words_splitter_type": "whitespace",
    "embed_ent_token": True,
}


@dataclasses.dataclass(frozen=True)
class GlinerSettings:
    """What a folder says of its model beside the numbers of the encoder.

    Attributes:
        hidden_size: width of the vectors of words, spans and labels.
        max_width: the most words of an entity.
        num_rnn_layers: bidirectional LSTMs on the words.
        dropout: of the projections, in training.
        max_words: the most words of a row.
        class_token_index: the id of <<ENT>>; None where it is the last row but one.
        encoder_config: of the encoder, in Hugging Face's words; None where `model_name` tells.
        model_name: a folder, or a name on the Hugging Face Hub.
    """

    hidden_size: int
    max_width: int
    num_rnn_layers: int
    dropout: float
    max_words: int
    class_token_index: int | None
    encoder_config: Mapping[str, Any] | None
    model_name: str

    def head(self, entity_token_id: int) -> dict[str, Any]:
        """Returns the arguments of a `BertEntityMatcher` beside its config.

        Args:
            entity_token_id: the id of <<ENT>>.
        """
        return {
            "entity_token_id": entity_token_id,
            "separator_token_id": entity_token_id + 1,
            "max_width": self.max_width,
            "max_words": self.max_words,
            "span_hidden_size": self.hidden_size,
            "num_rnn_layers": self.num_rnn_layers,
            "head_dropout": self.dropout,
        }


def is_gliner_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder is one of GLiNER."""
    return (Path(folder) / CONFIG_FILE).is_file()


def rows_with_markers(pieces: int) -> int:
    """Returns how many rows a table of embeddings needs with the markers behind its pieces.

    It is padded, as a table of three rows too many would be taken for that of another vocabulary.

    Args:
        pieces: of the vocabulary, n.
    """
    needed = pieces + ADDED_TOKENS
    return next((padded for padded in padded_counts(pieces) if padded >= needed), needed)


def read_settings(folder: str | os.PathLike) -> GlinerSettings:
    """Reads `gliner_config.json`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, or the model is another kind of GLiNER.
    """
    file = Path(folder) / CONFIG_FILE
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist: give a folder of GLiNER")
    values = read_json(file)
    _check_kind(values, file)

    def number(name: str, default: int, least: int) -> int:
        value = values.get(name, default)
        if type(value) is not int or value < least:
            raise ValueError(
                f"{file}: {name} is {value!r}: expected a whole number, {least} or more"
            )
        return value

    dropout = values.get("dropout", 0.4)
    if type(dropout) not in (int, float) or not 0 <= dropout < 1:
        raise ValueError(f"{file}: dropout is {dropout!r}: expected a number from 0 to below 1")
    index = number("class_token_index", -1, -1)
    # What GLiNER itself takes where nothing is said.
    return GlinerSettings(
        hidden_size=number("hidden_size", 512, 1),
        max_width=number("max_width", 12, 1),
        num_rnn_layers=number("num_rnn_layers", 1, 0),
        dropout=float(dropout),
        max_words=number("max_len", 384, 1),
        class_token_index=None if index < 0 else index,
        encoder_config=values.get("encoder_config"),
        model_name=str(values.get("model_name") or "microsoft/deberta-v3-small"),
    )


def _check_kind(values: Mapping[str, Any], file: Path) -> None:
    """Refuses models of other kinds than a single encoder that scores spans."""
    mode = values.get("span_mode", SPAN_MODE)
    kind = next((told for key, told in _OTHER_KINDS.items() if values.get(key)), None)
    if mode != SPAN_MODE:
        kind = f"span_mode {mode!r}"
    if values.get("model_type") == "gliner_streaming_span":
        kind = "a decoder that reads from left to right"
    if kind is not None:
        raise ValueError(
            f"{file}: the model has {kind}, which cannot be reproduced: give a GLiNER with one "
            f"encoder that scores spans (span_mode {SPAN_MODE!r}), such as gliner_small-v2.1"
        )
    for name, expected in _SETTINGS.items():
        if values.get(name, expected) != expected:
            raise ValueError(
                f"{file}: {name} is {values[name]!r}, which cannot be reproduced: expected "
                f"{expected!r}"
            )


def marker_names(folder: str | os.PathLike) -> tuple[str, ...]:
    """Returns the tokens that GLiNER adds to the vocabulary of a folder; none of another folder.

    No text holds them, so a tokenizer need not find them.
    """
    if not is_gliner_folder(folder):
        return ()
    values = read_json(Path(folder) / CONFIG_FILE)
    named = values.get("ent_token", ENTITY_TOKEN), values.get("sep_token", SEPARATOR_TOKEN)
    return (_UNREAD_TOKEN, *map(str, named))


def check_marker_ids(folder: str | os.PathLike, entity_token_id: int) -> None:
    """Compares the ids of the markers with those that the tokenizer of a folder gives them.

    Raises:
        ValueError: the files of the tokenizer say otherwise, or are damaged.
    """
    folder = Path(folder)
    names = marker_names(folder)
    told: list[tuple[str, Any]] = []
    try:
        for name in (_ADDED_FILE, _TOKENIZER_FILE, _TOKENIZER_JSON):
            values = read_json(folder / name) if (folder / name).is_file() else {}
            if name == _ADDED_FILE:
                told += values.items()
            decoder = values.get("added_tokens_decoder") or {}
            told += [(token["content"], int(index)) for index, token in decoder.items()]
            told += [(t["content"], t["id"]) for t in values.get("added_tokens") or ()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / name} is damaged ({error!r}): fetch it again") from None
    # [FLERT] stands before <<ENT>>, <<SEP>> behind it.
    expected = dict(zip(names, range(entity_token_id - 1, entity_token_id + 2), strict=True))
    for token, index in told:
        if token in expected and index != expected[token]:
            raise ValueError(
                f"{folder}: the token {token} has the id {index}, but {expected[token]} by "
                f"{CONFIG_FILE} and the weights: take all files from one model"
            )


def encoder_folder(folder: str | os.PathLike) -> Path:
    """Returns the folder of the config of the encoder where `gliner_config.json` has none.

    Raises:
        ValueError: it is a name on the Hugging Face Hub, and cannot be fetched.
    """
    return _named_folder(Path(folder), read_settings(folder).model_name, CONFIG_FILES)


def tokenizer_folder(folder: str | os.PathLike) -> Path:
    """Returns the folder of the tokenizer: this one, or that of the encoder that it names.

    Raises:
        ValueError: it is a name on the Hugging Face Hub, and cannot be fetched.
    """
    folder = Path(folder)
    if not is_gliner_folder(folder) or (folder / _TOKENIZER_FILE).is_file():
        return folder
    return _named_folder(folder, read_settings(folder).model_name, (_TOKENIZER_FILE,))


def _named_folder(folder: Path, name: str, files: tuple[str, ...]) -> Path:
    """Returns the folder that a `model_name` means: beside the file, from here, or on the Hub."""
    for place in (folder / name, Path(name)):
        if any((place / file).is_file() for file in files):
            return place
    try:
        return hub.local_folder(f"{hub.SCHEME}{name}")
    except ValueError as error:
        raise ValueError(
            f"{folder / CONFIG_FILE} names the encoder {name}, which holds what this folder lacks "
            f"({' or '.join(files)}), and {error}"
        ) from None
