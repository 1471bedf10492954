"""Asks exports for answers to random bytes, in a process of tensorflow and tensorflow_text alone.

    python -I tests/serving/fuzz_process.py COUNT NAME=FOLDER ...

Every model of `tiny_models.MODELS` is asked the same strings in batches, and some of them alone.
It ends with an error at the first answer that breaks a promise, and prints how many it checked.
"""

import random
import sys

import numpy as np
import tensorflow as tf

_BATCH = 250
_ALONE = 50  # of the strings are asked once more, each by itself
_ALPHABETS = [
    "abc .,!?'()",
    "\0\t\n\r\x7f\x85\u200b\ufeff\u2028",
    "\u4e2d\u65e5\uac00\u0e01\u0301\u0327\u0130\u03a3\u1e9e\U0001f642\U0010ffff\ufffe",
    "[MASK][SEP][CLS]",
]
# The same arithmetic in another shape, as in tests/tolerances.py, which is not at hand here.
_REORDERED = {"rtol": 1e-5, "atol": 1e-5}


def random_bytes(draw, longest=200):
    """A string of up to so many characters, or a few bytes that are none."""
    kind = draw.random()
    if kind < 0.1:
        return b""
    if kind < 0.2:
        return chr(draw.choice([*range(0xD800), *range(0xE000, 0x110000)])).encode()
    if kind < 0.4:  # not UTF-8
        return draw.randbytes(draw.randint(1, 60))
    alphabet = "".join(draw.sample(_ALPHABETS, draw.randint(1, 3)))
    text = "".join(draw.choices(alphabet, k=draw.randint(1, longest))).encode()
    return text[: draw.randint(0, len(text))]  # may end within a character


def request_of(name, texts):
    """Inputs for one of `tiny_models.MODELS`."""
    if name.startswith("spans"):
        return {"question": texts[::-1], "context": texts}
    if name == "choices":
        # Choices that are never alike: which of two equals is taken is a matter of rounding.
        return {"context": texts, "choices": [[text, b"d", b"e " + text[:3]] for text in texts]}
    if name == "pairs":
        return {"text": texts, "text_pair": texts[::-1]}
    if name in ("masked_lm", "pretrainer"):
        return {"text": [b"[MASK] " + text for text in texts]}
    return {"text": texts}


def check(answers, texts):
    """Checks what every answer promises: one a string, UTF-8, finite, offsets in order."""
    for output, values in answers.items():
        assert len(values) == len(texts), output
        if values.dtype == object:
            for text in values.ravel():
                text.decode()
        else:
            assert np.isfinite(values).all(), output
    if "answer" in answers:
        assert ((answers["start"] < 0) == (answers["answer"] == b"")).all()
        assert (answers["start"] <= answers["end"]).all()
    if "starts" in answers:
        entry = answers["labels"] != b""
        assert ((answers["starts"] >= 0) == entry).all()
        assert ((answers["ends"] > answers["starts"]) == entry).all()
    # The `score` of a regression is any number.
    for name in ("scores", "probabilities", *(["score"] if "answer" in answers else [])):
        if name in answers:
            assert ((answers[name] >= 0) & (answers[name] <= 1 + 1e-6)).all(), name


def check_alone(row, alone, together):
    """Checks that a string is answered as in its batch; rows there may be longer, by padding."""
    for output, value in alone.items():
        found = together[output][(slice(row, row + 1), *(slice(size) for size in value.shape[1:]))]
        if value.dtype == object:
            assert found.tolist() == value.tolist(), output
        else:
            np.testing.assert_allclose(found, value, **_REORDERED, err_msg=output)


def _answer(serve, request):
    found = serve(**{key: tf.constant(values, tf.string) for key, values in request.items()})
    return {key: values.numpy() for key, values in found.items()}


def main():
    """Asks all models."""
    import tensorflow_text  # noqa: F401  (registers its operations)

    draw = random.Random(2)
    strings = [random_bytes(draw, longest=60) for _ in range(int(sys.argv[1]))]
    for argument in sys.argv[2:]:
        name, folder = argument.split("=", 1)
        serve = tf.saved_model.load(folder).signatures["serving_default"]
        for start in range(0, len(strings), _BATCH):
            part = strings[start : start + _BATCH]
            request = request_of(name, part)
            together = _answer(serve, request)
            check(together, part)
            for row in range(0, 0 if start else len(part), _BATCH // _ALONE):
                alone = {key: values[row : row + 1] for key, values in request.items()}
                check_alone(row, _answer(serve, alone), together)
        print(f"{name}: {len(strings)} answered", flush=True)
    # Keras itself is imported by TensorFlow.
    assert not any(name.split(".")[0] == "keras_bert" for name in sys.modules)


if __name__ == "__main__":
    main()
