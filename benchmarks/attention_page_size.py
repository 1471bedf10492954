"""How large a page of attention is: ours and that of bertviz, for the same weights.

    make benchmark NAME=attention_page_size

The first words of the sample novels, cut at --tokens, through MiniLM (6 layers of 12 heads). Rows
of twelve layers have these six twice, and random numbers in their place, which no packing makes
smaller. Pages are text; bertviz's are those that `html_action="return"` gives, which fetch
require.js, d3 and jQuery from the network when they are opened.
"""

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import packages
from absl import app, flags

from keras_bert import show_attention

_TOKENS = flags.DEFINE_integer("tokens", 128, "Tokens of the text.", lower_bound=8)

_BERTVIZ = "bertviz==1.4.1"
_NOVELS = Path(__file__).resolve().parents[1] / "tools" / "sample_data" / "austen.txt.gz"
_CHARACTERS_PER_TOKEN = 12  # more than English has


def main(_: list[str]) -> None:
    """Prints the sizes in megabytes."""
    with gzip.open(_NOVELS, "rt", encoding="utf-8") as file:
        text = file.read(_CHARACTERS_PER_TOKEN * _TOKENS.value)
    view = show_attention(packages.minilm(), text, max_tokens=_TOKENS.value)
    count = view.end
    # [L, A, S, S], of the tokens on the page
    six = np.ascontiguousarray(view.probabilities[:, :, :count, :count])
    noise = np.random.default_rng(0).exponential(size=(12, *six.shape[1:])).astype(np.float32)
    noise /= noise.sum(axis=-1, keepdims=True)
    rows = {
        "MiniLM, 6 layers of 12 heads": six,
        "the same twice, 12 layers of 12 heads": np.concatenate([six, six]),
        "random numbers, 12 layers of 12 heads": noise,
    }
    print(f"| weights of {count} tokens | ours, MB | head_view, MB | model_view, MB |")
    print("|---|---|---|---|")
    for name, weights in rows.items():
        sizes = [_our_page(view, weights), *_bertviz_pages(view, weights)]
        print(f"| {name} | " + " | ".join(f"{size / 1e6:.1f}" for size in sizes) + " |", flush=True)


def _our_page(view: Any, weights: np.ndarray) -> int:
    """Returns the bytes of our page for the tokens of a view and other weights, [L, A, S, S]."""
    attention = view._attention
    tokens = attention.tokens[: view.end]
    shown = attention._replace(probabilities=weights, tokens=tokens, cut_pieces=0)
    return len(type(view)(shown, "MiniLM", 0, view.end).html().encode())


def _bertviz_pages(view: Any, weights: np.ndarray) -> list[int]:
    """Returns the bytes of bertviz's two pages of attention."""
    sys.path.append(str(packages.python_package(_BERTVIZ)))
    import torch
    from bertviz import head_view, model_view

    tokens = [token.piece for token in view.tokens[: view.end]]
    layers = [torch.from_numpy(layer[None]) for layer in weights]  # [1, A, S, S] each
    pages = (show(layers, tokens, html_action="return") for show in (head_view, model_view))
    return [len(page.data.encode()) for page in pages]


if __name__ == "__main__":
    app.run(main)
