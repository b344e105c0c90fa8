"""A bound on bytes a second."""

from __future__ import annotations

import threading
import time


class Pace:
    """How many bytes a second all transfers that share it may bring; 0: as many as come."""

    def __init__(self, rate: int = 0) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free_at = 0.0

    def wait_s(self, count: int) -> float:
        """How long whoever brought so many bytes waits before more."""
        if not self._rate:
            return 0.0
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self._rate
            return self._free_at - now
