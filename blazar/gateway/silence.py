"""Keeps streams open while there is nothing to tell: queued, loading, in prefill, or between two slow tokens."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import Protocol


class Quiet(Protocol):
    """A stream."""

    over: bool

    def quiet_ns(self, now_ns: int) -> int:
        """How long its client has heard nothing."""

    def break_silence(self, now_ns: int) -> None:
        """Say that it goes on."""


class Silence:
    """Breaks the silence of every stream that was handed over once it lasts ``limit_s`` seconds; 0 never does.

    One coarse ticker looks at all of them, so that a stream costs no timer; it rests while there are none.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_ns = int(limit_s * 1e9)
        self._period_s = min(0.5, limit_s / 4)
        self._streams: set[Quiet] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: Quiet) -> None:
        """Look after ``stream`` until it is over."""
        if not self._limit_ns:
            return
        self._streams.add(stream)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._tick)

    def _tick(self) -> None:
        now_ns = monotonic_ns()
        for stream in tuple(self._streams):
            if stream.over:
                self._streams.discard(stream)
            elif stream.quiet_ns(now_ns) >= self._limit_ns:
                stream.break_silence(now_ns)
        self._timer = asyncio.get_running_loop().call_later(self._period_s, self._tick) if self._streams else None
