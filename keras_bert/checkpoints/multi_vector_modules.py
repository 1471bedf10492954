"""What makes a folder a late-interaction encoder: a projection of each token, and what is scored.

ColBERT (Khattab & Zaharia 2020, arXiv:2004.12832; Santhanam et al. 2021, arXiv:2112.01488) makes a
vector of each token of a text. Three formats are read:

sentence-transformers 6   `modules.json` lists Transformer, Dense, MultiVectorMask and Normalize
PyLate 1 to 3             it lists Transformer and Dense, and the rest is settings in
                          config_sentence_transformers.json
Stanford's ColBERT        no `modules.json`: `linear.weight` stands among the weights of the
                          encoder, and the settings in artifact.metadata

The first is written. Where an older format leaves a setting out it has the value that
sentence-transformers 6 takes for it.

A marker is a piece behind [CLS] that tells queries from texts to be found. Files have it as the
beginning of a prompt: "[unused0] " is the marker [unused0] and no other text.
"""

import dataclasses
import os
import string
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert.checkpoints import sentence_prompts, torch_state
from keras_bert.checkpoints.name_table import Tensors
from keras_bert.checkpoints.sentence_modules import (
    MODULES_FILE,
    TRANSFORMER_FILE,
    module_entries,
    module_list,
    text_settings,
)
from keras_bert.checkpoints.sentence_prompts import MODEL_FILE, Prompts
from keras_bert.config import read_json
from keras_bert.storage.files import write_json

MAXSIM = "maxsim"
METADATA_FILE = "artifact.metadata"
# In a folder of its own, and among the weights of Stanford's encoder.
PROJECTION = "linear.weight"

_CONFIG_FILE = "config.json"
_STANFORD_CLASS = "HF_ColBERT"
_MODEL_TYPE, _PYLATE_TYPE = "MultiVectorEncoder", "ColBERT"
_TRANSFORMER, _DENSE, _MASK, _NORM = "Transformer", "Dense", "MultiVectorMask", "Normalize"
_PYLATE_DENSE = "pylate.models.Dense.Dense"
# Folder and class of each module that is written.
_WRITTEN = {
    "": "sentence_transformers.base.modules.transformer.Transformer",
    "1_Dense": "sentence_transformers.base.modules.dense.Dense",
    "2_MultiVectorMask": (
        "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask"
    ),
    "3_Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}
_TOKENS = "token_embeddings"
_TASK = "feature-extraction"
_IDENTITY = "torch.nn.modules.linear.Identity"
_STRATEGY = "fixed"
# What PyLate calls the text before queries and before texts to be found, and the prompt of each.
_PREFIXES = {"query": "query_prefix", "document": "document_prefix"}
_LENGTH_KEYS = ("query_length", "document_length", "query_expansion")
# PyLate's settings beside these; where any stands there, queries are expanded.
_PYLATE_KEYS = (
    *("do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"),
    *(*_PREFIXES.values(), "skiplist_words"),
)
_USUAL_LENGTH = 32  # of an expanded query, where nothing is said
_STANFORD_MARKERS = {"query": "[unused0]", "document": "[unused1]"}
_PUNCTUATION = tuple(string.punctuation)


@dataclasses.dataclass(frozen=True)
class QueryExpansion:
    """What fills a query up to a fixed length; its positions are scored like words.

    Attributes:
        length: positions of a query, special tokens and markers included: longer ones are cut.
        attend: whether other tokens, and they themselves, see those that are added.
        token: what is added; None is the mask token of the tokenizer.
    """

    length: int
    attend: bool
    token: str | None


@dataclasses.dataclass(frozen=True)
class MultiVectorModules:
    """How a text becomes a vector for each of its tokens.

    Attributes:
        projection: float32 [hidden size, numbers of a vector], without bias.
        query_length: the most positions of a query, special tokens and markers included; None is
            `max_seq_length`. Expanded queries have the length of `expansion` in any case.
        max_seq_length: the most positions of a text to be found; None takes those of the encoder.
        lowercase: whether texts are lower-cased first, whatever the tokenizer does.
        prompts: what stands before texts, without the markers.
        query_marker: a piece of the vocabulary behind the first special token of a query; "" none.
        document_marker: that of a text to be found.
        expansion: how queries are filled up; None leaves them as they are.
        skiplist: pieces of texts to be found that get no vector; what is no piece of the vocabulary
            counts for nothing.
    """

    projection: np.ndarray
    query_length: int | None = None
    max_seq_length: int | None = None
    lowercase: bool = False
    prompts: Prompts = Prompts("", {}, "", "", MAXSIM)
    query_marker: str = ""
    document_marker: str = ""
    expansion: QueryExpansion | None = None
    skiplist: tuple[str, ...] = ()

    @property
    def special_pieces(self) -> list[str]:
        """Pieces of the vocabulary that mean what they do to this model alone."""
        token = self.expansion and self.expansion.token
        return [piece for piece in (self.query_marker, self.document_marker, token) if piece]


class _Parts(NamedTuple):
    """Where encoder, projection and mask lie; None: older formats have no folder for it."""

    encoder: Path
    projection: Path | None = None
    mask: Path | None = None


class _Told(NamedTuple):
    """What a file says beside those of the modules, in the words of sentence-transformers 6."""

    file: Path
    lengths: Mapping[str, Any]
    prefixes: Mapping[str, str]
    skiplist: Any


class _Pieces(NamedTuple):
    """What a tokenizer of Hugging Face finds whole: of its vocabulary, and added to it."""

    vocabulary: Collection[str]
    added: Mapping[str, int | None]  # token -> id, None where no file says it
    is_wordpiece: bool


def is_multi_vector_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder is one of a late-interaction encoder, in any of the three formats.

    Raises:
        ValueError: a file that would say so is damaged.
    """
    folder = Path(folder)
    model = _values(folder / MODEL_FILE)
    if model.get("model_type") in (_MODEL_TYPE, _PYLATE_TYPE):
        return True
    if not (folder / MODULES_FILE).is_file():
        return is_stanford_class(_values(folder / _CONFIG_FILE))
    kinds = [kind for kind, _ in module_entries(folder / MODULES_FILE)]
    names = [kind.rpartition(".")[2] for kind in kinds]
    if _MASK in names or _PYLATE_DENSE in kinds:
        return True
    return "Pooling" not in names and any(key in model for key in _PYLATE_KEYS)


def is_stanford_class(config: Mapping[str, Any]) -> bool:
    """Whether the values of a config.json are those of Stanford's ColBERT."""
    named = config.get("architectures")
    return isinstance(named, list) and _STANFORD_CLASS in named


def model_folder(folder: str | os.PathLike) -> Path:
    """Returns where the encoder of a folder lies: in it, or in one inside.

    Raises:
        ValueError: `modules.json` is damaged, or lists modules that cannot be reproduced.
    """
    folder = Path(folder)
    return _parts(folder).encoder if is_multi_vector_folder(folder) else folder


def marker_ids(folder: str | os.PathLike) -> dict[str, int | None]:
    """Returns the markers of a folder that has its encoder in it, and the ids of those added.

    A piece of the vocabulary has no id of its own there. Any other folder has no markers, and a
    damaged `modules.json` says nothing.

    Raises:
        ValueError: a file of a late-interaction encoder is damaged.
    """
    folder = Path(folder)
    try:
        if not is_multi_vector_folder(folder):
            return {}
    except ValueError:  # told where it is read for what it says
        return {}
    pieces = _pieces(folder)
    *markers, _ = _prompts(folder, _told(folder), pieces)
    added = {
        token.strip() if pieces.is_wordpiece else token: i for token, i in pieces.added.items()
    }
    return {marker: added.get(marker) for marker in markers if marker}


def read(folder: str | os.PathLike) -> MultiVectorModules:
    """Reads what stands behind the encoder of a folder.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or a module or a setting cannot be reproduced; the sentence
            names it.
    """
    folder = Path(folder)
    parts = _parts(folder)
    told = _told(folder)
    if parts.projection is None:
        projection, own = _stanford_projection(folder), {}
    else:
        projection = _projection(parts.projection)
        own = _values(parts.encoder / TRANSFORMER_FILE)
    # Another name than these two means the sum in sentence-transformers, too.
    if _values(told.file).get("similarity_fn_name") == "meanmaxsim":
        raise ValueError(
            f"{told.file}: similarity_fn_name is 'meanmaxsim', which cannot be reproduced: write "
            f"{MAXSIM!r} there if sums over the tokens of a query will do"
        )
    query_marker, document_marker, prompts = _prompts(folder, told, _pieces(parts.encoder))
    row_length, lowercase = text_settings(parts.encoder, _TASK)
    query_length, document_length, expansion = _lengths(told, own, parts.encoder)
    max_seq_length = row_length if document_length is None else document_length
    if expansion is None and query_length is None and max_seq_length != row_length:
        # What is said of texts to be found is not said of queries: they may fill the encoder.
        positions = _values(parts.encoder / _CONFIG_FILE).get("max_position_embeddings")
        query_length = positions if row_length is None else row_length
    return MultiVectorModules(
        projection,
        query_length,
        max_seq_length,
        lowercase,
        prompts,
        query_marker,
        document_marker,
        expansion,
        _skiplist(told) if parts.mask is None else _mask(parts.mask),
    )


def write(folder: Path, modules: MultiVectorModules) -> None:
    """Writes `modules.json` and everything behind the encoder, as sentence-transformers 6 does.

    Args:
        folder: holds the encoder and its tokenizer.
        modules: what is written.
    """
    width, numbers = modules.projection.shape
    names = {"module_input_name": _TOKENS, "module_output_name": _TOKENS}
    # In the order of `_WRITTEN`, behind the Transformer.
    settings: tuple[dict[str, Any], ...] = (
        {
            "in_features": width,
            "out_features": numbers,
            "bias": False,
            "activation_function": _IDENTITY,
            **names,
        },
        {
            "skiplist_words": list(modules.skiplist),
            "skiplist_tasks": ["document"],
            "keep_only_token_ids": None,
        },
        names,
    )
    dense, *_ = paths = list(_WRITTEN)[1:]
    for path, content in zip(paths, settings, strict=True):
        (folder / path).mkdir(exist_ok=True)
        write_json(folder / path / _CONFIG_FILE, content)
    weight = np.ascontiguousarray(modules.projection.T, np.float32)  # [D, H], as torch has it
    torch_state.write({PROJECTION: weight}, folder / dense)
    expansion = modules.expansion
    lengths = {
        "max_seq_length": modules.max_seq_length,
        "do_lower_case": modules.lowercase,
        "query_length": modules.query_length,
        "document_length": modules.max_seq_length,
        # Null counts, too: beside a prefix nothing would mean that of PyLate.
        "query_expansion": expansion and {"strategy": _STRATEGY, **dataclasses.asdict(expansion)},
    }
    write_json(folder / TRANSFORMER_FILE, lengths)
    _write_prompts(folder, modules)
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate(_WRITTEN.items())
    ]
    write_json(folder / MODULES_FILE, entries)


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Writes everything behind the encoder of one folder to another; see `write`.

    Args:
        source: a folder of any of the three formats.
        target: holds the encoder and its tokenizer, in any format.

    Raises:
        ValueError: a file is damaged, or something in it cannot be reproduced.
    """
    write(Path(target), read(source))


def _parts(folder: Path) -> _Parts:
    file = folder / MODULES_FILE
    if not file.is_file() and is_stanford_class(_values(folder / _CONFIG_FILE)):
        return _Parts(folder)
    (_, encoder), *rest = module_list(
        folder, (_TRANSFORMER,), "late-interaction encoder", (_PYLATE_DENSE,)
    )
    names = [name for name, _ in rest]
    for name in names:
        if name not in (_DENSE, _MASK, _NORM):
            raise ValueError(
                f"{file} lists the module {name}, which cannot be reproduced: expected "
                f"{_TRANSFORMER}, {_DENSE}, {_MASK} and {_NORM}"
            )
    if names.count(_DENSE) > 1:
        raise ValueError(
            f"{file} lists {names.count(_DENSE)} {_DENSE} modules: several projections in a row "
            "cannot be reproduced"
        )
    is_native = _MASK in names or _values(folder / MODEL_FILE).get("model_type") == _MODEL_TYPE
    expected = [_DENSE, _MASK, _NORM] if is_native else [_DENSE]
    # Which of mask and norm comes first makes no difference.
    if names[:1] != [_DENSE] or sorted(names) != expected[:1] + sorted(expected[1:]):
        raise ValueError(
            f"{file} has {', '.join(names) or 'nothing'} behind the {_TRANSFORMER}, which cannot "
            f"be reproduced: expected {', '.join(expected)}"
        )
    inner = {name: folder / path for name, path in rest}
    if is_native:
        _check_inputs(inner[_NORM] / _CONFIG_FILE, "sentence_embedding")
    return _Parts(folder / encoder, inner[_DENSE], inner.get(_MASK))


def _values(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _told(folder: Path) -> _Told:
    is_listed = (folder / MODULES_FILE).is_file()
    return _settings(folder) if is_listed else _stanford_settings(folder)


def _settings(folder: Path) -> _Told:
    """Returns what config_sentence_transformers.json says, which is PyLate's place for it all."""
    file = folder / MODEL_FILE
    model = _values(file)
    prefixes = {name: model[key] or "" for name, key in _PREFIXES.items() if key in model}
    _check_texts(prefixes, file)
    # Null is as good as nothing, but for the expansion: there it is "none".
    lengths = {
        key: model[key]
        for key in _LENGTH_KEYS
        if key in model and (model[key] is not None or key == "query_expansion")
    }
    is_pylate = any(key in model for key in (*_LENGTH_KEYS, *_PYLATE_KEYS))
    if is_pylate and "query_expansion" not in lengths:
        lengths["query_expansion"] = None
        if model.get("do_query_expansion") is not False:
            attend = model.get("attend_to_expansion_tokens", model.get("attend_to_mask_tokens"))
            lengths["query_expansion"] = {
                "strategy": _STRATEGY,
                "attend": bool(attend),
                "length": lengths.pop("query_length", None) or _USUAL_LENGTH,
            }
    skiplist = model.get("skiplist_words")
    if skiplist is None:
        skiplist = _PUNCTUATION if prefixes or model.get("model_type") == _PYLATE_TYPE else ()
    return _Told(file, lengths, prefixes, skiplist)


def _stanford_settings(folder: Path) -> _Told:
    file = folder / METADATA_FILE
    values = _values(file)
    prefixes = {
        "query": values.get("query_token_id") or _STANFORD_MARKERS["query"],
        "document": values.get("doc_token_id") or _STANFORD_MARKERS["document"],
    }
    _check_texts(prefixes, file)
    lengths = {
        "document_length": values.get("doc_maxlen"),
        "query_expansion": {
            "strategy": _STRATEGY,
            "attend": bool(values.get("attend_to_mask_tokens")),
            "length": values.get("query_maxlen") or _USUAL_LENGTH,
        },
    }
    skiplist = _PUNCTUATION if values.get("mask_punctuation", True) else ()
    return _Told(file, lengths, {name: f"{one} " for name, one in prefixes.items()}, skiplist)


def _prompts(folder: Path, told: _Told, pieces: _Pieces) -> tuple[str, str, Prompts]:
    """Returns the markers of queries and texts to be found, and the prompts without them."""
    # In a folder of Stanford's the file means nothing.
    is_listed = told.file.name == MODEL_FILE
    stored = sentence_prompts.read(folder) if is_listed else Prompts("", {}, "", "", MAXSIM)
    split = {}
    for name in _PREFIXES:
        prefix = told.prefixes.get(name, "")
        prompt = prefix + stored.by_name.get(name, "").removeprefix(prefix)
        split[name] = _split_marker(prompt, prefix, pieces)
    (query_marker, query), (document_marker, document) = split["query"], split["document"]
    without = {stored.by_name.get(name): text for name, (_, text) in split.items()}
    default = without.get(stored.default, stored.default)
    by_name = {**stored.by_name, "query": query, "document": document}
    return query_marker, document_marker, Prompts(default, by_name, query, document, MAXSIM)


def _lengths(
    told: _Told, own: Mapping[str, Any], encoder: Path
) -> tuple[int | None, int | None, QueryExpansion | None]:
    """Returns the lengths of queries and of texts to be found, and how queries are filled up.

    Args:
        told: what counts where the module of the encoder says nothing.
        own: what that says.
        encoder: its folder.
    """
    values = {key: own.get(key, told.lengths.get(key)) for key in _LENGTH_KEYS}
    file_of = {key: encoder / TRANSFORMER_FILE if key in own else told.file for key in _LENGTH_KEYS}
    query_key, document_key, expansion_key = _LENGTH_KEYS
    for key in (query_key, document_key):
        _check_length(values[key], key, file_of[key])
    query, document = values[query_key], values[document_key]
    expansion = _expansion(values[expansion_key], file_of[expansion_key])
    if expansion is not None and query is not None and query < expansion.length:
        raise ValueError(
            f"{file_of[query_key]}: query_length is {query}, but queries are filled up to "
            f"{expansion.length} positions: raise it, or take it out"
        )
    return query, document, expansion


def _check_texts(prefixes: Mapping[str, Any], file: Path) -> None:
    for name, prefix in prefixes.items():
        if not isinstance(prefix, str):
            raise ValueError(
                f"{file}: what stands before a {name} is {prefix!r}: expected text such as "
                f"{_STANFORD_MARKERS[name]!r}"
            )


def _check_length(length: Any, key: str, file: Path) -> None:
    if length is not None and (type(length) is not int or length < 1):
        raise ValueError(f"{file}: {key} is {length!r}: expected a whole number above 0")


def _expansion(value: Any, file: Path) -> QueryExpansion | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(
            f"{file}: query_expansion is {value!r}: expected an object with strategy and length"
        )
    if value.get("strategy") != _STRATEGY:
        raise ValueError(
            f"{file}: query_expansion has the strategy {value.get('strategy')!r}, which cannot be "
            f"reproduced: expected {_STRATEGY!r}"
        )
    unknown = sorted(value.keys() - {"strategy", "length", "attend", "token"})
    if unknown:
        raise ValueError(
            f"{file}: query_expansion sets {', '.join(unknown)}, which cannot be reproduced"
        )
    length, attend, token = value.get("length"), value.get("attend", False), value.get("token")
    if length is None:
        raise ValueError(f"{file}: query_expansion has no length: expected a whole number above 0")
    _check_length(length, "the length of query_expansion", file)
    if not isinstance(attend, bool):
        raise ValueError(f"{file}: attend of query_expansion is {attend!r}: expected true or false")
    if not isinstance(token, str | None):
        raise ValueError(f"{file}: token of query_expansion is {token!r}: expected a token or null")
    return QueryExpansion(length, attend, token)


def _check_inputs(file: Path, usual: str) -> dict[str, Any]:
    """Returns the settings of a module that works on the vectors of tokens.

    Args:
        file: has the settings.
        usual: on what it works where nothing is said.
    """
    values = _values(file)
    source = values.get("module_input_name", usual)
    for key, name in (("input", source), ("output", values.get("module_output_name") or source)):
        if name != _TOKENS:
            raise ValueError(
                f"{file}: module_{key}_name is {name!r}, which cannot be reproduced: expected "
                f"{_TOKENS!r}"
            )
    return values


def _projection(folder: Path) -> np.ndarray:
    """Returns the kernel of a Dense module, float32 [H, D]."""
    file = folder / _CONFIG_FILE
    values = _check_inputs(file, _TOKENS)
    # What sentence-transformers takes where nothing is said.
    for key, usual in (("bias", True), ("use_residual", False)):
        if values.get(key, usual) is not False:
            raise ValueError(
                f"{file}: {key} is {values.get(key, usual)!r}, which cannot be reproduced: "
                "expected False"
            )
    function = str(values.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if not function.startswith("torch.nn.") or not function.endswith(".Identity"):
        raise ValueError(
            f"{file}: activation_function is {function}, which cannot be reproduced: expected "
            f"{_IDENTITY}"
        )
    tensors = torch_state.read(folder)
    expected = {PROJECTION: (values.get("out_features"), values.get("in_features"))}
    if dict(tensors.shapes) != expected:
        raise ValueError(f"{tensors.source} holds {dict(tensors.shapes)}: expected {expected}")
    return _kernel(tensors)


def _stanford_projection(folder: Path) -> np.ndarray:
    tensors = torch_state.read(folder)
    shapes = {name: tensors.shapes[name] for name in tensors.shapes if name.startswith("linear.")}
    if set(shapes) != {PROJECTION} or len(shapes[PROJECTION]) != 2:
        raise ValueError(
            f"{tensors.source} holds {shapes or 'no projection of tokens'}: expected the matrix "
            f"{PROJECTION}, without bias"
        )
    return _kernel(tensors)


def _kernel(tensors: Tensors) -> np.ndarray:
    kernel = tensors.read(PROJECTION).astype(np.float32).T.copy()
    if not np.all(np.isfinite(kernel)):
        raise ValueError(f"{tensors.source} has a weight that is not finite: fetch it again")
    return kernel


def _skiplist(told: _Told) -> tuple[str, ...]:
    words = told.skiplist
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{told.file}: skiplist_words is {words!r}: expected a list of pieces")
    return tuple(words)


def _mask(folder: Path) -> tuple[str, ...]:
    file = folder / _CONFIG_FILE
    values = _values(file)
    skiplist = _skiplist(_Told(file, {}, {}, values.get("skiplist_words") or ()))
    tasks = values.get("skiplist_tasks")
    if skiplist and tasks not in (None, "document", ["document"]):
        raise ValueError(
            f"{file}: skiplist_tasks is {tasks!r}, which cannot be reproduced: expected "
            "['document']"
        )
    if values.get("keep_only_token_ids"):
        raise ValueError(
            f"{file}: keep_only_token_ids is {values['keep_only_token_ids']!r}, which cannot be "
            "reproduced: expected null"
        )
    return skiplist


def _split_marker(prompt: str, prefix: str, pieces: _Pieces) -> tuple[str, str]:
    """Returns the marker that a prompt begins with, or "", and the text behind it.

    An added token is found in any prompt. In the place for markers the first word may be another
    piece of the vocabulary, such as [unused0]; one of letters and digits is that piece as text.

    Args:
        prompt: with the prefix.
        prefix: what stands in the place for markers; "" none.
        pieces: of the tokenizer.
    """
    found = max((token for token in pieces.added if prompt.startswith(token)), key=len, default="")
    first = next(iter(prefix.split()), "")
    if not found and prefix.startswith(first) and first in pieces.vocabulary:
        found = "" if first.isalnum() else first
    text = prompt.removeprefix(found)
    if found and pieces.is_wordpiece:
        # White space is nothing there, and a piece has none at its edges: "[Q] " is [Q].
        return found.strip(), text.removeprefix(" ")
    return found, text


def _pieces(folder: Path) -> _Pieces:
    """Reads the pieces of a tokenizer, but for those that only its SentencePiece model holds."""
    as_text, as_json, settings_file = (
        folder / name for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
    )
    stored, settings = _values(as_json), _values(settings_file)
    try:
        model = stored.get("model") or {}
        vocab = model.get("vocab") or ()  # word pieces and BPE: piece -> id; Unigram: with scores
        vocabulary = {*vocab} if isinstance(vocab, dict) else {str(piece) for piece, _ in vocab}
        decoder = settings.get("added_tokens_decoder") or {}
        added: dict[str, int | None] = {
            token["content"] if isinstance(token, dict) else str(token): None
            for key in ("extra_special_tokens", "additional_special_tokens")
            for token in settings.get(key) or ()
        }
        added |= _values(folder / "added_tokens.json")
        added |= {token["content"]: int(index) for index, token in decoder.items()}
        added |= {token["content"]: token["id"] for token in stored.get("added_tokens") or ()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{as_json} or {settings_file} is damaged ({error!r}): fetch the files again"
        ) from None
    is_wordpiece = as_text.is_file() or model.get("type") == "WordPiece"
    if as_text.is_file():
        text = as_text.read_text(encoding="utf-8-sig", errors="replace")
        vocabulary.update(map(str.strip, text.split("\n")))
    elif (folder / "vocab.json").is_file():
        vocabulary.update(read_json(folder / "vocab.json"))
    added.pop("", None)
    return _Pieces(vocabulary, added, is_wordpiece)


def _write_prompts(folder: Path, modules: MultiVectorModules) -> None:
    prompts = modules.prompts
    # Behind a marker of word pieces stands a blank, as in the files of others; it means nothing.
    blank = " " if _pieces(folder).is_wordpiece else ""
    markers = {"query": modules.query_marker, "document": modules.document_marker}
    prefixes = {name: marker and marker + blank for name, marker in markers.items()}
    texts = {name: prefixes[name] + getattr(prompts, name) for name in prefixes}
    names = [name for name, text in prompts.by_name.items() if text == prompts.default]
    sentence_prompts.write(
        folder,
        texts["query"],
        texts["document"],
        MAXSIM,
        prompts={**prompts.by_name, **texts},
        default_prompt_name=names[0] if names and prompts.default else None,
        # Without the type, sentence-transformers takes the folder for one of dense vectors.
        model_type=_MODEL_TYPE,
        # Where it looks for pieces that it does not find in texts by itself.
        **{_PREFIXES[name]: prefix for name, prefix in prefixes.items() if prefix},
    )
