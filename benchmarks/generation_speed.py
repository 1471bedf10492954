"""Pieces per second that a masked language model draws: ours beside loops as one writes them.

    make benchmark NAME=generation_speed

New texts of --length pieces by Gibbs sampling from left to right and by Metropolis-Hastings, from a
model folder that Hugging Face reads, too. The loops call its `BertForMaskedLM` for each draw, with
a text at a time or with all; that of Metropolis-Hastings computes the energies of both texts for
each proposal, a row for each of their pieces. Ours tells the pseudo-log-likelihood of each text
besides. A piece counts each time it is drawn. First all sides take the likeliest piece for each
blank, once: the texts must be the same.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import contest
from absl import app, flags

_SAMPLE_MODEL = Path(__file__).resolve().parents[1] / "tools" / "sample_model"
_MODEL = flags.DEFINE_string("model", str(_SAMPLE_MODEL), "Model folder.")
_TEXTS = flags.DEFINE_integer("texts", 16, "Texts of a round.", lower_bound=8)
_LENGTH = flags.DEFINE_integer("length", 20, "Pieces of a text.", lower_bound=1)
_SWEEPS = flags.DEFINE_integer("sweeps", 20, "Draws of each piece by Gibbs.", lower_bound=1)
_MH_SWEEPS = flags.DEFINE_integer("mh_sweeps", 2, "The same by Metropolis-Hastings.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds of each side.", lower_bound=1)
_SIDE = flags.DEFINE_string("side", None, "The side that this process is; unset: starts them all.")

_METHODS = {"Gibbs": "gibbs", "Metropolis-Hastings": "metropolis_hastings"}
_SIDES = ("ours", "a loop over texts", "a loop, all texts at a time")


def _sweeps(method: str) -> int:
    return (_SWEEPS if method == "gibbs" else _MH_SWEEPS).value


class Ours:
    """`TextGenerator`.

    Args:
        method: of `GenerationOptions`.
    """

    def __init__(self, method: str):
        from keras_bert import GenerationOptions, TextGenerator

        def make(**options: Any) -> TextGenerator:
            return TextGenerator.from_preset(_MODEL.value, GenerationOptions(**options))

        self._likeliest = make(sweeps=1, top_k=1)
        self._sampler = make(method=method, sweeps=_sweeps(method))
        self.sample(_TEXTS.value)

    def sample(self, texts: int) -> None:
        """Samples so many texts."""
        self._sampler.generate(texts, _LENGTH.value)

    def likeliest(self) -> list[str]:
        """Returns the pieces of a text."""
        return list(self._likeliest.generate(1, _LENGTH.value)[0].pieces)


class Loop:
    """A loop around Hugging Face's model.

    Args:
        method: of `GenerationOptions`.
        at_a_time: texts that the model sees at a time.
    """

    def __init__(self, method: str, at_a_time: int):
        import torch
        from transformers import BertForMaskedLM

        self._torch, self._method, self._at_a_time = torch, method, at_a_time
        self._model = BertForMaskedLM.from_pretrained(_MODEL.value, dtype=torch.float32).eval()
        self._tokens = Path(_MODEL.value, "vocab.txt").read_text("utf-8").splitlines()
        special = [token.startswith("[") and token != "[" for token in self._tokens]
        self._never = torch.tensor(special)  # bool [V]

    def sample(self, texts: int) -> None:
        """Samples so many texts."""
        for _ in range(0, texts, self._at_a_time):
            ids = self._blanks(self._at_a_time)
            if self._method == "metropolis_hastings":  # [MASK] has no energy
                self._sweep(ids, self._gibbs)
            for _ in range(_sweeps(self._method)):
                self._sweep(ids, getattr(self, f"_{self._method}"))

    def likeliest(self) -> list[str]:
        """Returns the pieces of a text."""
        ids = self._blanks(1)
        self._sweep(ids, lambda ids, column: self._expected(ids, column).argmax(-1))
        return [self._tokens[piece] for piece in ids[0, 1:-1].tolist()]

    def _blanks(self, texts: int) -> Any:  # int64 [N, S]
        names = ["[CLS]", *["[MASK]"] * _LENGTH.value, "[SEP]"]
        return self._torch.tensor([[self._tokens.index(name) for name in names]] * texts)

    def _sweep(self, ids: Any, new_pieces: Any) -> None:
        with self._torch.inference_mode():
            for column in range(1, _LENGTH.value + 1):
                ids[:, column] = new_pieces(ids, column)

    def _expected(self, ids: Any, column: int) -> Any:  # log-probabilities [N, V]
        masked = ids.clone()
        masked[:, column] = self._tokens.index("[MASK]")
        logits = self._model(masked).logits[:, column]
        return logits.masked_fill(self._never, -self._torch.inf).log_softmax(-1)

    def _gibbs(self, ids: Any, column: int) -> Any:  # [N]
        return self._torch.multinomial(self._expected(ids, column).exp(), 1)[:, 0]

    def _metropolis_hastings(self, ids: Any, column: int) -> Any:  # [N]
        expected = self._expected(ids, column)
        new = self._torch.multinomial(expected.exp(), 1)  # [N, 1]
        old = ids[:, column : column + 1]
        proposed = ids.clone()
        proposed[:, column : column + 1] = new
        gain = self._log_likelihood(proposed) - self._log_likelihood(ids)
        gain += (expected.gather(1, old) - expected.gather(1, new))[:, 0]
        accepted = self._torch.rand(len(ids)) < gain.exp()
        return self._torch.where(accepted, new[:, 0], old[:, 0])

    def _log_likelihood(self, ids: Any) -> Any:  # [N]
        return sum(
            self._expected(ids, column).gather(1, ids[:, column : column + 1])[:, 0]
            for column in range(1, _LENGTH.value + 1)
        )


def _measure_side(name: str) -> None:
    """Is one side of the contest."""
    method, kind = name.split(", ", 1)
    if kind == "ours":
        side, texts = Ours(_METHODS[method]), _TEXTS.value
    else:
        one = kind == "a loop over texts"
        # One text after the other is slow, and each takes the same time.
        texts = _TEXTS.value // 8 if one else _TEXTS.value
        side = Loop(_METHODS[method], 1 if one else texts)

    def measure() -> dict[str, float]:
        started = time.perf_counter()
        side.sample(texts)
        pieces = texts * _LENGTH.value * _sweeps(_METHODS[method])
        return {"pieces_per_s": pieces / (time.perf_counter() - started)}

    contest.answer_rounds(measure, likeliest=side.likeliest())


def _rows(sides: list[contest.Side]) -> Iterator[str]:
    """Yields a row of the table for each side."""
    speeds = {side.name: side.median("pieces_per_s") for side in sides}
    for name, speed in speeds.items():
        ratio = speeds[f"{name.split(',')[0]}, ours"] / speed
        yield f"| {name} | {speed:,.1f} | {ratio:.1f} |"


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    if _SIDE.value:
        return _measure_side(_SIDE.value)
    names = [f"{method}, {kind}" for method in _METHODS for kind in _SIDES]
    sides = contest.run(names, _ROUNDS.value, sys.argv)
    texts = {" ".join(side.facts["likeliest"]) for side in sides}
    if len(texts) > 1:
        raise SystemExit(f"the sides found other texts: {texts}")
    print(f"all sides filled the blanks with: {texts.pop()}")
    print("| side | pieces a second | ours is x as fast |\n|---|---|---|")
    print(*_rows(sides), sep="\n")


if __name__ == "__main__":
    app.run(main)
