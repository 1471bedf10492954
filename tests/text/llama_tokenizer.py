"""A tiny tokenizer.json of the form of EuroBERT and Llama 3, and strings that are hard for it."""

import functools
import json
import random
import tempfile
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from keras_bert.text.byte_level.files import ByteLevelBpeFiles
from tests.text.modernbert_tokenizer import SENTENCES

BEGIN, END, MASK, PAD = "<|begin_of_text|>", "<|end_of_text|>", "<|mask|>", "<|pad|>"
# As Llama 3's file spells it.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# What no merges make, so that only whole words are these pieces.
WHOLE = ("\u0120xqz", "zzq", "!?!")

# fmt: off
_PARTS = (
    " ", " ", "  ", "\n", "\r", "\r\n", "\t", "\xa0", "\u3000", "\u2028", "\x85", "a", "s", "S",
    "\u017f", "t", "re", "RE", "rE", "ve", "Ve", "ll", "lL", "l", "m", "d", "'", "'", "''", "!",
    "-", "1", "23", "4567", "\xb2", "\xbd", "\xe9", "e\u0301", "\u0301", "\u6f22", "\ud55c",
    "\U0001f600", "\x00", "_", "\u200b", "\xdf", "\ufb06", "\u0149", "\u212a", "\u2019", " xqz",
    "zzq", "!?!", "the", "left", MASK, " " + MASK + " ", BEGIN, END, "<|reserved_special_token_1|>",
    "<|", "|>",
)
# fmt: on


@functools.cache
def llama_json(form="begun", mask_strips_left=False):
    """The contents of a tokenizer.json as a string; the form is that of its rows."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 2, trainer)
    stored = json.loads(tokenizer.to_str())
    ids = stored["model"]["vocab"]
    for word in WHOLE:
        ids[word] = len(ids)
    tokens = [BEGIN, END, MASK, *(f"<|reserved_special_token_{n}|>" for n in range(3)), PAD]
    stored["added_tokens"] = [
        {
            "id": len(ids) + number,
            "content": token,
            "single_word": False,
            "lstrip": token == MASK and mask_strips_left,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(tokens)
    ]
    begin, end = ({"SpecialToken": {"id": token, "type_id": 0}} for token in (BEGIN, END))
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    single, pair = {
        "begun": ([begin, first], [begin, first, begin, second]),
        "ended": ([begin, first, end], [begin, first, end, second, end]),
        "both": ([begin, first, end], [begin, first, end, begin, second, end]),
    }[form]
    rows = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {
            token["content"]: {
                "id": token["content"],
                "ids": [token["id"]],
                "tokens": [token["content"]],
            }
            for token in stored["added_tokens"][:2]
        },
    }
    offsets = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps = [offsets | {"use_regex": True}, rows]
    stored["post_processor"] = {"type": "Sequence", "processors": steps}
    return json.dumps(stored)


def write_llama(folder, **form):
    """Writes tokenizer.json and tokenizer_config.json as folders of the Hub have them."""
    content = llama_json(**form)
    (folder / "tokenizer.json").write_text(content, encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "mask_token": MASK,
        "pad_token": PAD,
        "model_input_names": ["input_ids", "attention_mask"],
        "added_tokens_decoder": {
            str(token["id"]): {name: token[name] for name in token if name != "id"}
            for token in json.loads(content)["added_tokens"]
        },
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@functools.cache
def llama_files():
    """Its pieces and merges, with rows that do not end."""
    with tempfile.TemporaryDirectory() as folder:
        return ByteLevelBpeFiles.read(write_llama(Path(folder)))


def hard_texts(count, seed=0):
    """Strings of parts in which the patterns of words differ."""
    draw = random.Random(seed)
    return ["".join(draw.choices(_PARTS, k=draw.randint(0, 14))) for _ in range(count)]


def rust_llama(keep_special_tokens=False, **form):
    """The oracle; without `keep_special_tokens` it does not know special tokens."""
    stored = json.loads(llama_json(**form))
    if not keep_special_tokens:
        stored |= {"added_tokens": [], "post_processor": None}
    return Tokenizer.from_str(json.dumps(stored))
