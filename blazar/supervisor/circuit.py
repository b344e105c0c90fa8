"""Crashes of one (model, build): three in a minute, and it is left alone until the oldest is a minute old."""

from __future__ import annotations

from collections import deque

from blazar.errors import EngineCircuitOpen

Key = tuple[str, str]
"""A model's name and a build's tag."""

_LIMIT = 3
_WINDOW_S = 60.0


class Circuits:
    """When what crashed. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._crashes: dict[Key, deque[float]] = {}
        self._words: dict[Key, tuple[str, ...]] = {}

    def crashed(self, key: Key, now: float, last_lines: tuple[str, ...]) -> None:
        """Count one crash."""
        self._crashes.setdefault(key, deque(maxlen=_LIMIT)).append(now)
        self._words[key] = last_lines

    def check(self, key: Key, model: str, now: float) -> None:
        """Raises EngineCircuitOpen, with the time to wait, while it is open."""
        times = self._crashes.get(key)
        if times is None:
            return
        closes_in = times[0] + _WINDOW_S - now
        if len(times) == _LIMIT and closes_in > 0:
            raise EngineCircuitOpen(model, _LIMIT, closes_in, self._words[key])
        if times[-1] + _WINDOW_S <= now:
            self._forget(key)

    def reset(self, model: str) -> None:
        """Forget the crashes of a model, with whatever build."""
        for key in [key for key in self._crashes if key[0] == model]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._crashes.pop(key, None)
        self._words.pop(key, None)
