"""Whether the event loop moves: how late it wakes, and what holds it when it does not wake at all."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections import deque
from time import monotonic

_log = logging.getLogger("blazar")
_BEAT_S = 1.0
_STUCK_S = 5.0
_REMEMBERED = 60


class Pulse:
    """A beat each second on the loop, and a thread that notices when there is none. Belongs to one loop."""

    def __init__(self, beat_s: float = _BEAT_S, stuck_s: float = _STUCK_S) -> None:
        self._beat_s = beat_s
        self._stuck_s = stuck_s
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._thread_id = 0
        self._over = threading.Event()
        self._watchdog: threading.Thread | None = None

    def start(self) -> None:
        """From now on. Call it on the loop."""
        self._thread_id = threading.get_ident()
        self._next()
        self._watchdog = threading.Thread(target=self._watch, name="blazar-watchdog", daemon=True)
        self._watchdog.start()

    def stop(self) -> None:
        """No beat is waited for any more."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def lag_s(self) -> float:
        """How late the last beat came."""
        return self._lags[-1] if self._lags else 0.0

    @property
    def worst_s(self) -> float:
        """How late the latest of the last minute came."""
        return max(self._lags, default=0.0)

    def _next(self) -> None:
        self._due = monotonic() + self._beat_s
        self._timer = asyncio.get_running_loop().call_later(self._beat_s, self._beat)

    def _beat(self) -> None:
        self._lags.append(max(0.0, monotonic() - self._due))
        self._next()

    def _watch(self) -> None:
        told = 0.0
        while not self._over.wait(self._beat_s):
            due = self._due
            late = monotonic() - due
            if late > self._stuck_s and told != due:
                told = due
                _log.error("the event loop has not moved for %.1f s; it is here:\n%s", late, self._stack())

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread_id)
        return "".join(traceback.format_stack(frame)) if frame is not None else "(gone)"
