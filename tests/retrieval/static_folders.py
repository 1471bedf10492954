"""Small tables of static embeddings over tokenizers of three families, and folders of them."""

import json

import numpy as np
import tokenizers
from safetensors.numpy import save_file

WIDTH = 6
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES += ["the", "film", "was", "good", ",", "!", "zoe", "##s"]


def word_pieces():
    """BERT's, with the rows that its tokenizer makes."""
    model = tokenizers.models.WordPiece(
        {piece: number for number, piece in enumerate(PIECES)}, unk_token="[UNK]"
    )
    made = tokenizers.Tokenizer(model)
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(PIECES[:5])
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def byte_level():
    """RoBERTa's."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=[*special, "<mask>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["the film was good, the film"] * 4, trainer)
    made.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True)
    return made


def unigram():
    """XLM-R's."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [("▁the", -3.0), ("▁film", -4.0), ("▁was", -4.5), ("▁good", -5.0), ("o", -6.0)]
    pieces += [("good", -7.0), ("<mask>", 0.0)]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=3))
    steps = tokenizers.pre_tokenizers.WhitespaceSplit(), tokenizers.pre_tokenizers.Metaspace()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(list(steps))
    made.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]
    )
    return made


def table(tokenizer, dtype=np.float32):
    shape = [tokenizer.get_vocab_size(), WIDTH]
    return np.random.default_rng(5).normal(size=shape).astype(dtype)


def model2vec_folder(folder, tokenizer, tensors, **config):
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", **config}))
    return folder
