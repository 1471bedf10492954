"""The files of a WordPiece tokenizer.

vocab.txt                 the pieces, one a line; where it is missing:
tokenizer.json            what transformers 5 writes: pieces, ids and a normalizer
tokenizer_config.json     the settings, see `settings.py`
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints import multi_vector_modules, tf_hub
from keras_bert.text import tokenizer_config
from keras_bert.text.corpus_tokenizer import CorpusTokenizer, TextsToIds
from keras_bert.text.framing import (
    BERT_FRAMING,
    BERT_TOKENS,
    MPNET_TOKENS,
    ROBERTA_FRAMING,
    ROBERTA_TOKENS,
    Framing,
    SpecialTokens,
    rows,
)
from keras_bert.text.tokenizer_config import (
    GENERAL_CLASSES,
    MPNET_CLASS,
    TOKENIZER_JSON,
    read_json,
    rows_of,
    special_tokens,
    tokenizer_class,
)
from keras_bert.text.vocabulary import (
    CONTINUATION_PREFIX,
    FILE_NAME,
    UNUSED_SLOT,
    Vocabulary,
    piece_of_line,
)
from keras_bert.text.wordpiece.settings import (
    Settings,
    folder_settings,
    is_cased,
    stored_settings,
    write_settings,
)


@dataclasses.dataclass(frozen=True)
class WordPieceFiles:
    """What a `BertTokenizer` is made of.

    Attributes:
        vocabulary: the pieces.
        settings: how text is treated.
    """

    vocabulary: Vocabulary
    settings: Settings

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "WordPieceFiles":
        """Reads vocab.txt or tokenizer.json, and tokenizer_config.json; see `read`.

        Raises:
            FileNotFoundError: the folder has no vocabulary.
            ValueError: a file is damaged, or there is an added token that word pieces do not find
                wherever Hugging Face's tokenizers do.
        """
        folder = tokenizer_config.local_folder(folder)
        found = cls(*read(folder))
        vocabulary, to_ids = found.vocabulary, functools.cache(found.texts_to_ids)
        # What ColBERT puts behind [CLS], such as "[Q] ", stands in no text.
        markers = multi_vector_modules.marker_ids(folder)

        def finds(token: Mapping[str, Any]) -> bool:
            content = str(token.get("content"))
            if content in vocabulary.special_tokens or UNUSED_SLOT.fullmatch(content):
                return True
            if content.strip() in markers and content.strip() in vocabulary:
                return True
            # A second token of this role in MPNet's vocabulary, which no text spells out.
            if content == ROBERTA_TOKENS.unk and vocabulary.framing == ROBERTA_FRAMING:
                return True
            # Any other is found within words, too, unless it is a single word.
            if not token.get("single_word") or content not in vocabulary:
                return False
            return to_ids()([content])[0].tolist() == [vocabulary.id_of(content)]

        tokenizer_config.check_added(folder, finds)
        return found

    def save(self, folder: str | os.PathLike, segments: bool = True) -> None:
        """Writes vocab.txt and tokenizer_config.json, for a model that reads segments or not."""
        # Here and below the vocabulary comes last: a folder that has it has the others.
        write_settings(folder, self.settings, self.vocabulary, segments)
        self.vocabulary.save(Path(folder) / FILE_NAME)

    def file_names(self) -> tuple[str, ...]:
        """Names of the files that `save` writes."""
        return FILE_NAME, tokenizer_config.FILE_NAME

    @property
    def lowercase(self) -> bool:
        """Whether text is lower-cased."""
        return self.settings.lowercase

    def texts_to_ids(self) -> TextsToIds:
        """Returns a function from texts to ids."""
        return CorpusTokenizer(self.vocabulary, self.settings)


def read(folder: str | os.PathLike) -> tuple[Vocabulary, Settings]:
    """Reads the vocabulary and the settings of a model folder.

    The vocabulary is vocab.txt or else that of tokenizer.json. A setting comes from
    tokenizer_config.json, else from tokenizer.json; else a vocabulary with capital letters means
    cased, any other uncased.

    Args:
        folder: the folder, or `hf://org/name` for one on the Hugging Face Hub. A SavedModel of
            TF-Hub's has both in its assets and in `do_lower_case`.

    Raises:
        FileNotFoundError: it has no vocabulary.
        ValueError: a file is damaged, a setting in it is not true, false or (for
            `strip_accents`) null, a limit is no number, or tokenizer.json has steps that are not
            BERT's.
    """
    folder = tokenizer_config.local_folder(folder)
    if tf_hub.is_saved_model(folder):
        file, lowercase = tf_hub.vocabulary_file(folder)
        vocabulary = Vocabulary.from_file(file)
        lowercase = not is_cased(vocabulary) if lowercase is None else lowercase
        return vocabulary, stored_settings({"lowercase": lowercase}, file.parent)
    text, as_json = folder / FILE_NAME, folder / TOKENIZER_JSON
    stored = read_json(as_json) if as_json.is_file() else {}
    special, framing = _family(folder)
    if text.is_file() or not stored:
        vocabulary = _with_markers(_read_lines(text, special, framing), folder)
    else:
        tokens = _tokens_of(stored, as_json)
        vocabulary = Vocabulary(tokens, _of_vocabulary(special, tokens), framing=framing)
    # Of a general class tokenizer.json says all, in transformers too.
    is_general = bool(stored) and tokenizer_class(folder)[0] in GENERAL_CLASSES[1:]
    _check_rows(stored, as_json, vocabulary, is_general)
    return vocabulary, folder_settings(vocabulary, folder, stored, is_general)


def read_file(path: str | os.PathLike) -> tuple[Vocabulary, Settings]:
    """Reads a vocab.txt, and the settings of a tokenizer_config.json beside it, if any.

    Without one a vocabulary with capital letters means cased, any other uncased.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: one of the files is damaged.
    """
    vocabulary = _read_lines(Path(path), *_family(Path(path).parent))
    return vocabulary, stored_settings({"lowercase": not is_cased(vocabulary)}, Path(path).parent)


def _family(folder: Path) -> tuple[SpecialTokens, Framing]:
    """Returns the special tokens and the rows of a WordPiece tokenizer: MPNet's, or else BERT's."""
    name, _ = tokenizer_class(folder)
    is_mpnet = name.removesuffix("Fast") == MPNET_CLASS
    if name in GENERAL_CLASSES:
        # MPNet's vocabulary holds BERT's special tokens as well: the model or the names tell.
        config = folder / "config.json"
        model_type = read_json(config).get("model_type") if config.is_file() else None
        is_mpnet = model_type == "mpnet" or special_tokens(folder, BERT_TOKENS) == MPNET_TOKENS
    if is_mpnet:
        return special_tokens(folder, MPNET_TOKENS), ROBERTA_FRAMING
    return special_tokens(folder, BERT_TOKENS), BERT_FRAMING


def _of_vocabulary(special: SpecialTokens, tokens: Iterable[str]) -> SpecialTokens:
    """Returns the special tokens, BERT's in place of those that are in no vocabulary."""
    known = {*tokens}
    return SpecialTokens(
        *(t if t in known else default for t, default in zip(special, BERT_TOKENS, strict=True))
    )


def _read_lines(path: Path, special: SpecialTokens, framing: Framing) -> Vocabulary:
    """Reads a vocab.txt; see `Vocabulary.from_file`."""
    if framing == BERT_FRAMING and special != BERT_TOKENS and path.is_file():
        lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
        special = _of_vocabulary(special, map(piece_of_line, lines))
    return Vocabulary.from_file(path, special, framing)


def _with_markers(vocabulary: Vocabulary, folder: Path) -> Vocabulary:
    """Returns the pieces of a vocab.txt and the markers of a ColBERT that other files add."""
    ids = multi_vector_modules.marker_ids(folder)
    added = {marker: i for marker, i in ids.items() if marker not in vocabulary and i is not None}
    if not added:
        return vocabulary
    tokens = [*vocabulary.tokens, *sorted(added, key=added.__getitem__)]
    for marker, index in added.items():
        if tokens.index(marker) != index:
            raise ValueError(
                f"{folder}: the marker {marker!r} has the id {index}, but {tokens.index(marker)} "
                f"is the next free one behind the {len(vocabulary)} pieces of {FILE_NAME}: add the "
                "tokens between them to that file"
            )
    return Vocabulary(tokens, vocabulary.special_tokens, framing=vocabulary.framing)


def _tokens_of(stored: dict[str, Any], path: Path) -> list[str]:
    """Returns the pieces of a tokenizer.json in the order of their ids."""
    model = stored.get("model") or {}
    kind, prefix = model.get("type"), model.get("continuing_subword_prefix")
    if (kind, prefix) != ("WordPiece", CONTINUATION_PREFIX):
        raise ValueError(
            f"{path} holds a {kind} model with the prefix {prefix!r}; BERT's is WordPiece with "
            f"{CONTINUATION_PREFIX!r}: pass the folder of a BERT model"
        )
    ids = model["vocab"] | {
        token["content"]: token["id"] for token in stored.get("added_tokens") or ()
    }
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise ValueError(
                f"{path}: {token!r} has the id {ids[token]}, but {index} is the next free one: "
                "ids must be 0, 1, 2, ... without gaps"
            )
    # White space at the edge of a piece, which no word has, is gone from a vocab.txt.
    return [piece_of_line(token) for token in tokens]


def _check_rows(
    stored: Mapping[str, Any], path: Path, vocabulary: Vocabulary, is_general: bool
) -> None:
    """Refuses a tokenizer.json that makes other rows of texts than the package does.

    Without a `post_processor` the class makes them, and a general class leaves texts as they are.
    """
    step = stored.get("post_processor")
    if step is None and not is_general:
        return
    expected = rows(vocabulary.framing, vocabulary.special_tokens)
    made = rows_of(step, path)
    if made != expected:
        told, usual = (" and ".join(repr(" ".join(row)) for row in two) for two in (made, expected))
        raise ValueError(
            f"{path}: post_processor makes the rows {told}, the package's tokenizer {usual}: open "
            "the encoder alone, and make ids with transformers"
        )
