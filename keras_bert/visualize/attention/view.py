"""What a model attends to, to be looked at: in a notebook, as a page, as a picture."""

import os
from collections.abc import Collection
from typing import Any

import numpy as np

from keras_bert.counts import check_count
from keras_bert.storage.paths import short_name
from keras_bert.tasks.opened_encoder import open_encoder
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.visualize import html_page
from keras_bert.visualize.attention import heat_map, page
from keras_bert.visualize.attention.probabilities import Attention, read_attention
from keras_bert.visualize.model_input import Token

# Of a page in a notebook, in pixels: controls, a text of some lines and the list below it.
_FRAME_HEIGHT = 760


class AttentionView:
    """The attention of a model for one text; a notebook shows it as an interactive page.

    Attributes:
        tokens: S tokens: [CLS], the pieces of the text, [SEP] (and the same of a second text).
        words: the words of these tokens, as they stand in the text.
        probabilities: float32 [L, A, S, S]: layers, heads, from a token, to a token.
        start: the first token on the page.
        end: the token behind the last one on the page.
        cut_pieces: how many pieces of the text did not fit the positions of the model.
    """

    def __init__(self, attention: Attention, name: str, start: int = 0, max_tokens: int = 256):
        self._attention = attention
        self._name = name
        self.start = start
        self.end = min(start + max_tokens, len(attention.tokens))

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the whole text."""
        return self._attention.tokens

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the whole text; `tokens[i].word` is an index into them."""
        return self._attention.words

    @property
    def probabilities(self) -> np.ndarray:
        """Float32 [L, A, S, S]; each row sums to 1."""
        return self._attention.probabilities

    @property
    def cut_pieces(self) -> int:
        """How many pieces of the text did not fit the positions of the model."""
        return self._attention.cut_pieces

    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file and no network."""
        return page.attention_page(self._attention, self._name, self.start, self.end)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page, whole or not at all.

        Args:
            path: the .html to write; its folder is created when missing.

        Raises:
            ValueError: the name ends otherwise.
        """
        html_page.save(path, self.html(), "; save_heat_map writes .png and .svg")

    def save_heat_map(
        self,
        path: str | os.PathLike,
        layer: int | None = None,
        head: int | None = None,
        join_words: bool = False,
    ) -> None:
        """Draws attention as matrices: from the token of a row to the token of a column.

        The picture shows the tokens of the page, `start` to `end`.

        Args:
            path: the .png or .svg to write.
            layer: counted from 0; None draws all of them, one below the other.
            head: counted from 0; None draws all of them, one beside the other.
            join_words: join the pieces of a word: attention to it is the sum, from it the mean.

        Raises:
            ValueError: matplotlib is not installed, the model has no such layer or head, or the
                name ends otherwise.
        """
        heat_map.draw(self._attention, path, self.start, self.end, layer, head, join_words)

    def _repr_html_(self) -> str:
        return html_page.frame(self.html(), "Attention", _FRAME_HEIGHT)

    def __repr__(self) -> str:
        layers, heads = self.probabilities.shape[:2]
        return f"AttentionView({len(self.tokens)} tokens, {layers} layers, {heads} heads)"


def show_attention(
    model: Any,
    text: str,
    text_pair: str | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    start: int = 0,
    max_tokens: int = 256,
    ignore_config_keys: Collection[str] = (),
) -> AttentionView:
    """Shows which tokens a model attends to in a text, or in a pair of texts.

    The model reads the text as far as its positions go. A folder's tokenizer is opened so that
    "[MASK]" in the text is the special token.

    Args:
        model: a model folder of any format, a `BertEncoder`, a model with a head, or a
            `FinetunedModel`.
        text: the text.
        text_pair: the second text of a pair.
        tokenizer: that of a model that is given as an object; a folder brings its own.
        start: the first token on the page, for texts of more than `max_tokens`.
        max_tokens: how many tokens the page holds. Its size grows with their square: a page of
            128 tokens for 12 layers of 12 heads takes at most 3.3 MB.
        ignore_config_keys: unknown keys of a folder's config to pass over.

    Returns:
        A view, which a notebook displays; `save` writes the page, `save_heat_map` a picture.

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: it is no model of this package, there is no tokenizer, or `start` or
            `max_tokens` do not fit the text.

    Example:
        view = show_attention("runs/mini/preset", "The doctor said that he was late .")
        view.save("attention.html")
    """
    check_count("max_tokens", max_tokens)
    check_count("start", start, least=0)
    encoder, tokenizer = open_encoder(
        model, "attention_probs", tokenizer, ignore_config_keys, keep_special_tokens=True
    )
    attention = read_attention(encoder, tokenizer, text, text_pair)
    if start >= len(attention.tokens):
        raise ValueError(
            f"start is {start} but the text has {len(attention.tokens)} tokens for the model: "
            f"give 0 to {len(attention.tokens) - 1}"
        )
    # "mini/preset" of a folder "runs/mini/preset": the last name alone may say nothing.
    is_folder = isinstance(model, str | os.PathLike)
    name = short_name(model) if is_folder else type(model).__name__
    return AttentionView(attention, name, int(start), int(max_tokens))
