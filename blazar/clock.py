"""Where the time comes from: one object, so that tests can own it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Monotonic time for waits and durations, civil time for what people read."""

    def monotonic_ns(self) -> int:
        """Nanoseconds from an arbitrary origin; never goes back."""

    def time_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()
    monotonic_ns = staticmethod(time.monotonic_ns)
    time_ns = staticmethod(time.time_ns)


def rfc3339(time_ns: int) -> str:
    """UTC with microseconds and a ``Z``, the form that Ollama's ``created_at`` takes."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
