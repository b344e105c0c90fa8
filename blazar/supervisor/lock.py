"""One daemon for one home: a lock that the kernel drops with its holder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from blazar.errors import Conflict

_STEP_S = 0.02


class Lock:
    """An exclusive lock on a file, which then holds the holder's pid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def take(self, wait_s: float = 0.0) -> None:
        """Take it. Blocks for up to ``wait_s`` seconds. Raises Conflict that names the holder."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(_STEP_S)
                    continue
                holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
                os.close(fd)
                who = f" (pid {holder})" if holder else ""
                raise Conflict(f"Another Blazar{who} uses {self._path.parent}.") from None
            break
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def give(self) -> None:
        """Let it go; nothing happens when it is not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
