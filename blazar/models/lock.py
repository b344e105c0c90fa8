"""One pull of one thing at a time, over threads and processes; a holder that died holds nothing."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.2


@contextmanager
def held(
    path: Path, waiting: Callable[[int | None], None], sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold the lock file. While another holds it, ``waiting`` is told the holder's pid again and again.

    The kernel's lock on the open file is what counts, and it goes with its process; the pid inside is for people.
    """
    handle = _take(path)
    while handle is None:
        waiting(holder(path))
        sleep(_POLL_S)
        handle = _take(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def holder(path: Path) -> int | None:
    """The pid of whoever holds the lock now, 0 when it cannot be told, ``None`` when nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(handle, 20).decode(errors="replace").strip()
        return int(text) if text.isdigit() else 0
    else:
        return None
    finally:
        os.close(handle)


def _take(path: Path) -> int | None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The holder before us may have removed the file between our open and our lock: then ours is nobody's file.
        if os.fstat(handle).st_ino == path.stat().st_ino:
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None
