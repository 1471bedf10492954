"""Exports answer whatever bytes they are sent, alone and in batches."""

import random

import numpy as np
import pytest

from tests.export.tiny_models import ask

ALPHABETS = [
    "abc .,!?'()",
    "\0\t\n\r\x7f\x85\u200b\ufeff\u2028",
    "\u4e2d\u65e5\uac00\u0e01\u0301\u0327\u0130\u03a3\u1e9e\U0001f642\U0010ffff\ufffe",
    "[MASK][SEP][CLS]",
]
ONE_MEGABYTE = 1 << 20


def random_bytes(draw):
    kind = draw.random()
    if kind < 0.1:
        return b""
    if kind < 0.2:
        return chr(draw.choice([*range(0xD800), *range(0xE000, 0x110000)])).encode()
    if kind < 0.4:  # not UTF-8
        return draw.randbytes(draw.randint(1, 60))
    alphabet = "".join(draw.sample(ALPHABETS, draw.randint(1, 3)))
    text = "".join(draw.choices(alphabet, k=draw.randint(1, 200))).encode()
    return text[: draw.randint(0, len(text))]  # may end within a character


def request_of(name, texts):
    if name == "spans_or_none":
        return {"question": texts[::-1], "context": texts}
    if name == "choices":
        return {"context": texts, "choices": [[text, b"a", text[:3]] for text in texts]}
    return {"text": texts}


def check(answers, texts):
    for output, values in answers.items():
        assert len(values) == len(texts), output
        if values.dtype == object:
            for text in values.ravel():
                text.decode()  # every string is UTF-8
        else:
            assert np.isfinite(values).all(), output
    if "start" in answers:
        starts, ends = (answers[name] for name in ("start", "end"))
        assert ((starts < 0) == (answers["answer"] == b"")).all()
        assert (starts <= ends).all()
    for name in ("score", "scores", "probabilities"):
        if name in answers:
            assert ((answers[name] >= 0) & (answers[name] <= 1 + 1e-6)).all()


NAMES = ["classes", "tags", "spans_or_none", "choices", "masked_lm", "encoder"]


@pytest.mark.parametrize("name", NAMES)
def test_some_bytes_are_answered(name, model_folder):
    draw = random.Random(1)
    texts = [random_bytes(draw) for _ in range(96)]
    check(ask(model_folder(name), **request_of(name, texts)), texts)


def test_the_text_of_a_choice_is_utf8(model_folder):
    cut = "\u4e2d\0z".encode()[1:]
    answers = ask(model_folder("choices"), context=[b"a"], choices=[[cut, cut]])
    assert answers["choice_text"].tolist() == ["\ufffd\ufffd\0z".encode()]


# Ten thousand for one head; the others read strings with the same tokenizer.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [(name, 10_000 if name == "spans_or_none" else 2_000) for name in NAMES]
)
def test_thousands_of_strings_are_answered(name, count, model_folder):
    draw = random.Random(2)
    texts = [random_bytes(draw) for _ in range(count)]
    for start in range(0, len(texts), 100):
        part = texts[start : start + 100]
        check(ask(model_folder(name), **request_of(name, part)), part)
    for text in texts[: count // 20]:
        check(ask(model_folder(name), **request_of(name, [text])), [text])


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["the film ", "x", "\u4e2d", "\0", "\xff", "[MASK]"])
@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_is_answered(name, unit, model_folder):
    data = unit.encode("latin-1") if unit == "\xff" else unit.encode()
    text = data * (ONE_MEGABYTE // len(data))
    # As the context of a question and the text of a tagger it is read to the end.
    check(ask(model_folder(name), **request_of(name, [text, b"a"])), [text, b"a"])
