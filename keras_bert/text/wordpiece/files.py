"""The files of a WordPiece tokenizer: vocab.txt or tokenizer.json, and tokenizer_config.json."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.storage import hub
from keras_bert.text import tokenizer_config
from keras_bert.text.corpus_tokenizer import CorpusTokenizer, TextsToIds
from keras_bert.text.framing import ROBERTA_FRAMING, ROBERTA_TOKENS
from keras_bert.text.vocabulary import FILE_NAME, UNUSED_SLOT, Vocabulary


@dataclasses.dataclass(frozen=True)
class WordPieceFiles:
    """What a `BertTokenizer` is made of.

    Attributes:
        vocabulary: the pieces.
        settings: how text is treated.
    """

    vocabulary: Vocabulary
    settings: tokenizer_config.Settings

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "WordPieceFiles":
        """Reads vocab.txt or tokenizer.json, and tokenizer_config.json; see `tokenizer_config`.

        Raises:
            FileNotFoundError: the folder has no vocabulary.
            ValueError: a file is damaged, or there is an added token that word pieces do not find
                wherever Hugging Face's tokenizers do.
        """
        folder = hub.local_folder(folder)
        found = cls(*tokenizer_config.read(folder))
        vocabulary, to_ids = found.vocabulary, functools.cache(found.texts_to_ids)

        def finds(token: Mapping[str, Any]) -> bool:
            content = str(token.get("content"))
            if content in vocabulary.special_tokens or UNUSED_SLOT.fullmatch(content):
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
        tokenizer_config.write(folder, self.settings, self.vocabulary, segments)
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
