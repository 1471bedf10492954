"""The page of attention: tokens and probabilities put into a template.

Probabilities are stored as bytes, deflated, in base64. A byte is the rounded square root of a
probability, q = round(255 sqrt(p)): small ones, of which there are most, keep more digits than
large ones. The error of p is at most sqrt(p) / 255 + 1 / 510^2, which is 0.4 points at 100 % and
0.04 at 1 %; the page divides each row by its sum again.

Where the page shows a part of the tokens, each row ends with what goes to all others.
"""

import base64
import html
import json
import zlib

import numpy as np

from keras_bert.visualize import html_page
from keras_bert.visualize.attention.head_places import sentences_with_means
from keras_bert.visualize.attention.probabilities import Attention

_LARGEST_BYTE = 255


def attention_page(attention: Attention, model_name: str, start: int, end: int) -> str:
    """Returns one HTML text with scripts, styles and data in it.

    Args:
        attention: what is shown.
        model_name: name of the model, for the title.
        start: the first token that is shown.
        end: the token behind the last.
    """
    layers, heads, total = attention.probabilities.shape[:3]
    shown = attention.tokens[start:end]
    # The first word may have begun before the part that is shown.
    first_word = shown[0].word
    content = {
        "model": model_name,
        "layers": layers,
        "heads": heads,
        "start": start,
        "total": total,
        "cutPieces": attention.cut_pieces,
        "pieces": [token.piece for token in shown],
        "segments": [token.segment for token in shown],
        "directions": _directions(attention),
        "special": [int(token.is_special) for token in shown],
        "wordOf": [token.word - first_word for token in shown],
        # Of the whole text: the token a head looks at may lie beyond the page.
        "sentences": sentences_with_means(
            attention.probabilities,
            [token.piece for token in attention.tokens],
            attention.vocabulary,
        ),
        "words": attention.words[first_word : shown[-1].word + 1],
        "probabilities": _encode(attention.probabilities, start, end),
    }
    parts = {
        "TITLE": html.escape(f"Attention of {model_name}"),
        "STYLE": html_page.resource(__package__, "page.css"),
        "SCRIPT": html_page.resource(__package__, "page.js"),
        # Nothing in a text may end the element that holds it.
        "DATA": json.dumps(content, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return html_page.fill(html_page.resource(__package__, "page.html"), parts)


def _directions(attention: Attention) -> list[str]:
    """Returns "ltr" or "rtl" for each segment, by its words alone: [CLS] is Latin in every text."""
    words: dict[int, list[str]] = {}
    for token in attention.tokens:
        words.setdefault(token.segment, [])
        if not token.is_special:
            words[token.segment].append(attention.words[token.word])
    return [html_page.direction(" ".join(words[segment])) for segment in sorted(words)]


def _encode(probabilities: np.ndarray, start: int, end: int) -> str:
    """Returns bytes [L, A, tokens, tokens + 1], the last column for what is not shown, in text."""
    shown = probabilities[:, :, start:end, start:end]  # [L, A, tokens, tokens]
    # Rounding may leave a sum a little above 1.
    elsewhere = np.clip(1 - shown.sum(axis=-1, keepdims=True), 0, 1)
    if (start, end) == (0, probabilities.shape[-1]):
        elsewhere[:] = 0
    rows = np.concatenate([shown, elsewhere], axis=-1)
    quantized = np.rint(_LARGEST_BYTE * np.sqrt(np.clip(rows, 0, 1))).astype(np.uint8)
    return base64.b64encode(zlib.compress(quantized.tobytes(), 9)).decode()
