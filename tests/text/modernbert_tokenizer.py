"""A tiny tokenizer.json of ModernBERT's form, and strings that are hard for it."""

import functools
import json
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
SENTENCES = (
    "She left the room, and the room was left.",
    "def left(room):\n    return room\n\n\n        the end",
    "Caf\xe9 ol\xe9, d\xe9j\xe0 vu; na\xefve \u1ea1 \u1ea1,",
    "\ud55c\uad6d\uc5b4 \ud55c\uad6d, \u6f22\u5b57",
    "it's the end, they're leaving; we'll leave. 12 345 678",
)

# fmt: off
_PARTS = (
    " ", "  ", "   ", " " * 23, " " * 24, " " * 25, " " * 50, "\n", "\t", "\xa0", "\u3000",
    "\u2000", "a", "e", "q", "the", "room", "'s", "12", "!", ".", "\xe9", "\u1ea1", "\u212b",
    "\u03a9", "\u2126", "\u0301", "\u0300", "\u0323", "\u0327", "\u0338", "\u0345", "\u0344",
    "\u0958", "\u093c", "\u0915", "\u1100", "\u1161", "\u11a8", "\uac00", "\uac01", "\u09c7",
    "\u09be", "\u0dd9", "\u0dcf", "\u0dca", "\U0001d15e", "\ufb1d", "\u0f73", "\u0f71", "\u0f72",
    "\u0f74", "\U00011131", "\U00011127", "\u1e69", "\u0307", "s", "\u0898",
    "\U00011935\U00011930", "\u2adc", "<", ">", "\U0002f800", "\U0001f600", "\u200d", "\u034f",
    "[unused0]", "[unused1]", "[unused12]", "[unused", "]", "|||IP_ADDRESS|||",
    "|||EMAIL_ADDRESS|||", "|||", "||", "|", "[MASK]", " [MASK]", "[CLS]", "[SEP]", "<|padding|>",
    "<|endoftext|>", "<|", "\u2260", "x=", "=",
)
# fmt: on


@functools.cache
def modernbert_json():
    """The contents of a tokenizer.json, as a string."""
    first = ["|||IP_ADDRESS|||", "<|padding|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 2, trainer)
    stored = json.loads(tokenizer.to_str())
    added = [(first[0], False), (first[1], True)]
    added += [(" " * count, False) for count in range(24, 1, -1)]
    added += [
        ("|||EMAIL_ADDRESS|||", False),
        ("|||PHONE_NUMBER|||", False),
        ("<|endoftext|>", True),
    ]
    added += [(token, True) for token in SPECIAL]
    added += [(f"[unused{number}]", False) for number in range(15)]
    size = len(stored["model"]["vocab"])
    stored["added_tokens"] = [
        {
            "id": number if number < len(first) else size + number - len(first),
            "content": content,
            "single_word": False,
            "lstrip": content == "[MASK]",
            "rstrip": False,
            "normalized": not special,
            "special": special,
        }
        for number, (content, special) in enumerate(added)
    ]
    ids = {token["content"]: token["id"] for token in stored["added_tokens"]}
    row = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    end = [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    stored["post_processor"] = {
        "type": "TemplateProcessing",
        "single": row + end,
        "pair": row + end + [{"Sequence": {"id": "B", "type_id": 0}}] + end,
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in ("[CLS]", "[SEP]")
        },
    }
    return json.dumps(stored)


def write_modernbert(folder):
    """Writes tokenizer.json and tokenizer_config.json as the folders of the Hub have them."""
    (folder / "tokenizer.json").write_text(modernbert_json(), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "added_tokens_decoder": {
            str(token["id"]): {name: token[name] for name in token if name != "id"}
            for token in json.loads(modernbert_json())["added_tokens"]
        },
    }
    roles = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    content = json.dumps(config | roles)
    (folder / "tokenizer_config.json").write_text(content, encoding="utf-8")
    return folder


def nasty_texts(count, seed=0):
    """Strings of parts that join, divide and hide each other."""
    draw = random.Random(seed)
    return ["".join(draw.choices(_PARTS, k=draw.randint(1, 12))) for _ in range(count)]


def rust_modernbert(keep_special_tokens=False, stored=None):
    """The oracle; without `keep_special_tokens` it does not know special tokens."""
    stored = json.loads(stored or modernbert_json())
    if not keep_special_tokens:
        stored["added_tokens"] = [t for t in stored["added_tokens"] if not t["special"]]
        # Those that are left keep their ids where the vocabulary has all of them.
        stored["model"]["vocab"] = all_ids(modernbert_json())
    return Tokenizer.from_str(json.dumps(stored))


def all_ids(content):
    stored = json.loads(content)
    return stored["model"]["vocab"] | {t["content"]: t["id"] for t in stored["added_tokens"]}
