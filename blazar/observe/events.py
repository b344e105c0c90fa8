"""The stream of what happened: states of instances, loads, unloads and their reasons."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec


class Event(msgspec.Struct, frozen=True):
    """One thing that happened. ``at_ns`` is civil time; ``subject`` an instance, a model or a request."""

    at_ns: int
    kind: str
    subject: str
    detail: str = ""
    data: dict[str, str | int | float | bool | None] = msgspec.field(default_factory=dict)


class Events:
    """Keeps the last ones and tells whoever listens. Listeners are called at once and must not block."""

    def __init__(self, time_ns: Callable[[], int], keep: int = 1024) -> None:
        self._time_ns = time_ns
        self._kept: deque[Event] = deque(maxlen=keep)
        self._listeners: list[Callable[[Event], None]] = []

    def tell(self, kind: str, subject: str, detail: str = "", **data: str | float | bool | None) -> None:
        """Record that something happened."""
        event = Event(self._time_ns(), kind, subject, detail, dict(data))
        self._kept.append(event)
        for listener in tuple(self._listeners):
            listener(event)

    def recent(self) -> tuple[Event, ...]:
        """The kept events, oldest first."""
        return tuple(self._kept)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``listener`` for each event from now on; the result stops that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
