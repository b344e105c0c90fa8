"""Sessions: a client that names one has its model kept from making room for others, for a while after each request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from blazar.clock import Clock

_MOST = 1024


class SessionView(msgspec.Struct, frozen=True):
    """One session now; ``left_s`` are the seconds for which it still holds its model."""

    id: str
    model: str
    left_s: float


class Sessions:
    """All that were named lately, the oldest first. ``closed`` is called when one lets its model go."""

    def __init__(self, keep_s: float, clock: Clock, closed: Callable[[], object]) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._closed = closed
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def name(self, session: str, model: str) -> None:
        """A request of ``session`` uses ``model``. Names come from clients: the oldest give way."""
        if self._keep_s > 0:
            self._open[session] = (model, self._now() + self._keep_s)
            self._open.move_to_end(session)
            if len(self._open) > _MOST:
                self._open.popitem(last=False)

    def close(self, session: str) -> bool:
        """Hold nothing for it any more; says whether it was there."""
        there = self._open.pop(session, None) is not None
        self._closed()
        return there

    def hold(self, model: str) -> bool:
        """Whether some session holds ``model``."""
        return any(held == model for _, held, _ in self._live())

    def views(self) -> tuple[SessionView, ...]:
        """Those that hold something."""
        now = self._now()
        return tuple(SessionView(session, model, until - now) for session, model, until in self._live())

    def _live(self) -> list[tuple[str, str, float]]:
        now = self._now()
        while self._open and next(iter(self._open.values()))[1] <= now:
            self._open.popitem(last=False)
        return [(session, model, until) for session, (model, until) in self._open.items()]

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9
