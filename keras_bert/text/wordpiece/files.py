"""The files of a WordPiece tokenizer: vocab.txt or tokenizer.json, and tokenizer_config.json."""

import dataclasses
import os
from pathlib import Path

from keras_bert.text import tokenizer_config
from keras_bert.text.corpus_tokenizer import CorpusTokenizer, TextsToIds
from keras_bert.text.vocabulary import FILE_NAME, Vocabulary


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
        """Reads vocab.txt or tokenizer.json, and tokenizer_config.json; see `tokenizer_config`."""
        return cls(*tokenizer_config.read(folder))

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.txt and tokenizer_config.json."""
        # Here and below the vocabulary comes last: a folder that has it has the others.
        tokenizer_config.write(folder, self.settings)
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
