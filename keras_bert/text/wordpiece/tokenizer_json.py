"""The tokenizer of a model folder as a tokenizer.json, the file that static embeddings keep."""

import json
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.config import read_json
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.tokenizer_config import TOKENIZER_JSON


def tokenizer_json(folder: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the content of the file: as the folder has it, or made of its WordPiece vocabulary.

    Args:
        folder: a local folder, also one of sentence-transformers with the encoder in another.
        tokenizer: opened from it.

    Raises:
        ValueError: there is no such file, and the tokenizer is of another family.
    """
    file = Path(encoder_source(folder)) / TOKENIZER_JSON
    if file.is_file():
        return read_json(file)
    if not isinstance(tokenizer, BertTokenizer):
        raise ValueError(
            f"{file} does not exist, and static embeddings are stored with that file: write it "
            "with transformers, AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    import tokenizers

    vocabulary, settings = tokenizer.vocabulary, tokenizer.settings
    pieces = {piece: number for number, piece in enumerate(vocabulary.tokens)}
    special = vocabulary.special_tokens
    written = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            pieces,
            unk_token=special.unk,
            max_input_chars_per_word=settings["max_input_chars_per_word"],
        )
    )
    written.normalizer = tokenizers.normalizers.BertNormalizer(
        handle_chinese_chars=settings["split_cjk"],
        strip_accents=settings["strip_accents"],
        lowercase=settings["lowercase"],
    )
    written.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    written.add_special_tokens(list(special))
    return json.loads(written.to_str())
