"""The files of a WordPiece tokenizer: vocab.txt or tokenizer.json, and tokenizer_config.json."""

import dataclasses
import os
from pathlib import Path

from keras_bert.storage import hub
from keras_bert.text import tokenizer_config
from keras_bert.text.corpus_tokenizer import CorpusTokenizer, TextsToIds
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
            ValueError: a file is damaged, or there is an added token that is no word of the
                vocabulary.
        """
        folder = hub.local_folder(folder)
        found = cls(*tokenizer_config.read(folder))
        tokenizer_config.check_added(folder, found._finds)
        return found

    def _finds(self, token: str) -> bool:
        if token in self.vocabulary.special_tokens or UNUSED_SLOT.fullmatch(token):
            return True
        ids, _ = self.texts_to_ids()([token])
        return token in self.vocabulary and ids.tolist() == [self.vocabulary.id_of(token)]

    def save(self, folder: str | os.PathLike, segments: bool = True) -> None:
        """Writes vocab.txt and tokenizer_config.json, for a model that reads segments or not."""
        # Here and below the vocabulary comes last: a folder that has it has the others.
        tokenizer_config.write(folder, self.settings, segments)
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
