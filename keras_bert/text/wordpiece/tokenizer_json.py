"""The tokenizer of a model folder as a tokenizer.json, the file that static embeddings keep."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.config import read_json
from keras_bert.storage.files import write_json
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.framing import BERT_TOKENS
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.tokenizer_config import TOKENIZER_JSON


def tokenizer_json(folder: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the content of a file that alone says all of a tokenizer.

    Args:
        folder: a local folder, also one of sentence-transformers with the encoder in another.
        tokenizer: opened from it.

    Raises:
        ValueError: there is no such file, and the tokenizer is of another family than WordPiece; or
            it would be opened as another tokenizer.
    """
    if isinstance(tokenizer, BertTokenizer):
        # Not the file of the folder: others beside it may have the last word on its settings.
        stored = _word_pieces(tokenizer)
    else:
        file = Path(encoder_source(folder)) / TOKENIZER_JSON
        if not file.is_file():
            raise ValueError(
                f"{file} does not exist, and static embeddings are stored with that file: write it "
                "with transformers, AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
            )
        stored = read_json(file)
    # Opened as it will be, before work of minutes: "[MASK]" in a text is that token there.
    expected = tokenizer.with_settings(keep_special_tokens=True)
    with tempfile.TemporaryDirectory() as scratch:
        write_json(Path(scratch) / TOKENIZER_JSON, stored)
        try:
            opened = load_tokenizer(scratch, keep_special_tokens=True)
        except ValueError as error:
            reason = str(error).replace(f"{scratch}{os.sep}", "")
            raise ValueError(
                f"{folder} has a tokenizer that a folder of static embeddings cannot hold: {reason}"
            ) from None
    if (opened.vocabulary.tokens, opened.settings) != (
        expected.vocabulary.tokens,
        expected.settings,
    ):
        raise ValueError(
            f"{folder}: {TOKENIZER_JSON} has other pieces or settings than the files beside it: "
            "take all of them from one model"
        )
    return stored


def _word_pieces(tokenizer: BertTokenizer) -> dict[str, Any]:
    """Returns a WordPiece tokenizer as a tokenizer.json."""
    import tokenizers

    vocabulary, settings = tokenizer.vocabulary, tokenizer.settings
    pieces = {piece: number for number, piece in enumerate(vocabulary.tokens)}
    written = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            pieces,
            unk_token=vocabulary.special_tokens.unk,
            max_input_chars_per_word=settings["max_input_chars_per_word"],
        )
    )
    written.normalizer = tokenizers.normalizers.BertNormalizer(
        handle_chinese_chars=settings["split_cjk"],
        strip_accents=settings["strip_accents"],
        lowercase=settings["lowercase"],
    )
    written.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    # Those that are special where such a file is opened: of MPNet's vocabulary, too.
    written.add_special_tokens([token for token in BERT_TOKENS if token in vocabulary])
    return json.loads(written.to_str())
