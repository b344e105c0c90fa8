"""Become a child that dies with its parent, then become the program.

Run by path with ``python -I -S``: ``launcher.py PARENT_PID PROGRAM ARGUMENT...``. Standard library only. Linux: the
kernel sends SIGKILL when the parent's thread that started us ends, also when the parent was killed itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"


def main() -> None:
    """Tie, clean, execute."""
    parent = int(sys.argv[1])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It died before the tie was made: nobody would ever tell us.
        os._exit(1)
    # When memory runs out, the kernel should take the model and leave the gateway.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    # A listening socket of the parent that leaked into an engine would keep the port taken.
    os.closerange(3, max(int(fd) for fd in os.listdir("/proc/self/fd")) + 1)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"cannot start {sys.argv[2]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


main()
