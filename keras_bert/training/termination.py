"""SIGTERM: how schedulers, preempted machines and `kill` ask a job to end."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class TerminatedError(Exception):
    """A job was asked to end."""


class Termination:
    """While it is open, SIGTERM sets `requested` instead of ending the process.

    One that is opened within another takes over its request, and hands its own on when it is
    closed: so a request that comes too late for one part of a job ends the next.

    A machine that is preempted (a TPU VM among them) sends it to its processes half a minute before
    it goes. Python receives signals in its main thread only; elsewhere nothing is changed.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._take_note)
            if outer := self._outer():
                self.requested |= outer.requested
        return self

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)
            if outer := self._outer():
                outer.requested |= self.requested

    def _outer(self) -> "Termination | None":
        outer = getattr(self._previous, "__self__", None)
        return outer if isinstance(outer, Termination) else None

    def check(self) -> None:
        """Raises TerminatedError when the job was asked to end."""
        if self.requested:
            raise TerminatedError

    def _take_note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
