"""How far a transfer is: the struct that listeners get, and the meter that fills it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from blazar.clock import Clock, SystemClock

Phase = Literal["resolve", "wait", "download", "verify", "unpack", "copy", "load", "test", "done"]

_EVERY_NS = 100_000_000
_WINDOW_NS = 5_000_000_000


class Progress(msgspec.Struct, frozen=True):
    """``done`` of ``total`` bytes of ``what``; ``total`` is ``None`` while unknown.

    ``rate`` is in bytes per second over the last seconds, ``eta`` in seconds; both ``None`` until they can be told.
    ``digest`` is what the file's must be, where that is known.
    """

    phase: Phase
    what: str
    done: int = 0
    total: int | None = None
    rate: float | None = None
    eta: float | None = None
    digest: str = ""


Listener = Callable[[Progress], None]
"""Called with each step. An exception out of it stops the work, which can be taken up again later."""


def ignore(_: Progress) -> None:
    """The listener that wants to know nothing."""


class Meter:
    """Tells one listener of one phase, at most ten times a second and always at its end."""

    def __init__(
        self,
        listener: Listener,
        phase: Phase,
        what: str,
        total: int | None,
        *,
        done: int = 0,
        digest: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._listener = listener
        self._phase: Phase = phase
        self._what = what
        self._digest = digest
        self._clock = clock or SystemClock()
        self._total = total
        self._told_ns: int | None = None
        self._seen: deque[tuple[int, int]] = deque([(self._clock.monotonic_ns(), done)])
        self.done = done

    def add(self, count: int) -> None:
        """So many more bytes."""
        self.at(self.done + count)

    def at(self, done: int, total: int | None = None) -> None:
        """So many bytes altogether."""
        self.done = done
        self._total = self._total if total is None else total
        now = self._clock.monotonic_ns()
        finished = self._total is not None and done >= self._total
        if self._told_ns is not None and now - self._told_ns < _EVERY_NS and not finished:
            return
        self._told_ns = now
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_NS:
            self._seen.popleft()
        rate = self._rate()
        left = None if self._total is None else max(0, self._total - done)
        eta = left / rate if rate and left is not None else None
        self._listener(Progress(self._phase, self._what, done, self._total, rate, eta, self._digest))

    def _rate(self) -> float | None:
        (first_ns, first), (last_ns, last) = self._seen[0], self._seen[-1]
        # A tenth of a second is too short to judge by.
        return (last - first) * 1e9 / (last_ns - first_ns) if last_ns - first_ns >= _EVERY_NS else None
