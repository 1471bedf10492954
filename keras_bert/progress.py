"""Progress of long jobs: a bar on a terminal, one plain line every few seconds otherwise.

A job that ends before its bar or its first line was due shows nothing: in a notebook or a loop of
its user's, a call for a few texts should be silent.
"""

import sys
import time
from typing import Self

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BEFORE_BAR = 2.0
_SECONDS_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} s{postfix}"


class Progress:
    """Shows how far a job is, how fast it goes and how long it still takes.

    Args:
        total: number of units of the whole job, or None when it is not known.
        unit: name of one unit, such as "step" or "B" (bytes are scaled to kB and MB).
        description: what the job does, in a word or two.
        initial: units that were done before (a resumed job).
        at_once: whether it is shown from its start on, and its end however short it was: a run of
            training, or a job that is the whole of a command.

    Example:
        with Progress(3, "step", "pretraining") as progress:
            progress.update(1, loss=2.5)
    """

    def __init__(
        self,
        total: int | None,
        unit: str,
        description: str,
        initial: int = 0,
        at_once: bool = False,
    ):
        self._interactive = sys.stderr.isatty()
        self._description = description
        self._last_line = time.monotonic()
        self._tells_end = at_once
        self._bar = tqdm(
            total=total,
            initial=initial,
            unit=unit,
            unit_scale=unit in ("B", "token"),
            desc=description,
            bar_format=_SECONDS_BAR if unit == "s" else None,
            dynamic_ncols=True,
            file=sys.stderr if self._interactive else _Nowhere(),
            mininterval=0.2,
            delay=0.0 if at_once else _SECONDS_BEFORE_BAR,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        self._tells_end |= kind is not None
        self.close()

    def update(self, amount: int = 1, **shown: object) -> None:
        """Reports `amount` more units done; `shown` values stand at the end of the line."""
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(amount)
        if not self._interactive and time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._print_line()

    def write(self, line: str) -> None:
        """Prints a line without disturbing the bar."""
        if self._interactive:
            tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the display; off a terminal, a job that was on show has a last line."""
        if not self._interactive and self._tells_end:
            self._print_line()
        self._bar.close()

    def _print_line(self) -> None:
        self._last_line, self._tells_end = time.monotonic(), True
        if self._bar.total is None:  # nor is the time left known
            shown = "{n_fmt} {unit} [{elapsed}, {rate_fmt}{postfix}]"
        elif self._bar.unit == "s":  # the time left is on show already, the rate is always 1 s/s
            shown = "{n_fmt}/{total_fmt} {unit}{postfix}"
        else:
            shown = "{n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        state = self._bar.format_dict | {"ncols": None, "bar_format": "{desc}: " + shown}
        print(tqdm.format_meter(**state), file=sys.stderr, flush=True)


class _Nowhere:
    """A stream that keeps nothing: tqdm does the arithmetic, this module does the printing."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...
