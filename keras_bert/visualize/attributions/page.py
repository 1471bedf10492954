"""The page of attributions: a text with shaded words and the table of their scores.

It has no script: what is to be read stands in it. Blue raises the logit, orange lowers it; each
word's number stands in the table and is read out by screen readers.
"""

import html
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.visualize import html_page

if TYPE_CHECKING:
    from keras_bert.visualize.attributions.view import AttributionView

# Rows of the table; the rest is folded.
_STRONGEST = 12
_TOLD_ERROR = 0.005


def attribution_page(view: "AttributionView") -> str:
    """Returns one HTML text with the styles in it."""
    scores = view.word_scores
    largest = float(np.abs(scores).max()) or 1.0
    order = [index for index in np.argsort(-np.abs(scores)) if not _is_special(view, index)]
    parts = {
        "TITLE": html.escape(f"{view.target}: attributions of {view.model_name}"),
        "STYLE": html_page.resource(__package__, "page.css"),
        "MODEL": html.escape(view.model_name),
        "TARGET": html.escape(view.target),
        "LOGITS": f"{view.logit:.3f} for this text, {view.baseline_logit:.3f} with "
        f"{html.escape(view.baseline)} in place of every piece; the words make the difference of "
        f"{view.logit - view.baseline_logit:+.3f}",
        "WARNING": _warnings(view),
        "WORDS": _shaded_words(view, scores, largest),
        "STRONGEST": _rows(view, order[:_STRONGEST], largest),
        "OTHERS": _folded(f"Other words ({len(order) - _STRONGEST})", view, order, largest),
        "PIECES": _pieces(view),
    }
    return html_page.fill(html_page.resource(__package__, "page.html"), parts)


def _is_special(view: "AttributionView", word: int) -> bool:
    return any(token.is_special for token in view.tokens if token.word == word)


def _warnings(view: "AttributionView") -> str:
    told = []
    if not view.error <= _TOLD_ERROR:  # NaN too
        told.append(
            f"The sum of the scores is {100 * view.error:.1f} % off the difference, after "
            f"{view.points} points: take them as rough."
        )
    if view.cut_pieces:
        told.append(
            f"{view.cut_pieces} pieces are not read: the text is longer than the model takes."
        )
    return "".join(f'<p class="warning">{html.escape(sentence)}</p>\n' for sentence in told)


def _shaded_words(view: "AttributionView", scores: np.ndarray, largest: float) -> str:
    lines: list[list[str]] = []
    line: list[str] = []
    segment = 0
    first_token = {token.word: token for token in reversed(view.tokens)}
    for index, (word, score) in enumerate(zip(view.words, scores, strict=True)):
        token = first_token[index]
        if token.segment != segment:
            lines.append(line)
            line, segment = [], token.segment
        if token.is_special:
            # With a direction of its own it has no say in that of the text.
            line.append(f'<span class="special" dir="ltr">{html.escape(word)}</span>')
            continue
        side = "up" if score >= 0 else "down"
        strength = abs(float(score)) / largest
        line.append(
            f'<span class="word {side}" style="--s:{strength:.3f}" title="{score:+.4f}">'
            f"{html.escape(word)}</span>"
        )
    lines.append(line)
    return "\n".join(f'<p class="text" dir="auto">{" ".join(words)}</p>' for words in lines)


def _rows(view: "AttributionView", order: list[int], largest: float) -> str:
    rows = []
    for index in order:
        score = float(view.word_scores[index])
        side = "up" if score >= 0 else "down"
        rows.append(
            f'<tr><th scope="row">{html.escape(view.words[index])}</th><td>{score:+.4f}</td>'
            f'<td><span class="bar {side}" style="--s:{abs(score) / largest:.3f}"></span></td></tr>'
        )
    return "\n".join(rows)


def _folded(title: str, view: "AttributionView", order: list[int], largest: float) -> str:
    if len(order) <= _STRONGEST:
        return ""
    return (
        f"<details><summary>{title}</summary>\n<table>{_HEAD}<tbody>\n"
        f"{_rows(view, order[_STRONGEST:], largest)}\n</tbody></table></details>"
    )


_HEAD = (
    '<thead><tr><th scope="col">Word</th><th scope="col">Adds</th>'
    '<th scope="col"><span class="hidden">as a bar</span></th></tr></thead>'
)


def _pieces(view: "AttributionView") -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(token.piece)}</th><td>{score:+.4f}</td></tr>'
        for token, score in zip(view.tokens, view.scores, strict=True)
    )
    return (
        "<details><summary>All pieces, in order</summary>\n<table><thead><tr>"
        '<th scope="col">Piece</th><th scope="col">Adds</th></tr></thead><tbody>\n'
        f"{rows}\n</tbody></table></details>"
    )
