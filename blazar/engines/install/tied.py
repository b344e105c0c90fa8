"""Run a program so that it, and all that it starts, ends with our parent.

Run by path with ``python -I -S``, in a session of its own: ``tied.py PARENT_PID PROGRAM ARGUMENT...``. Standard library
only. On Linux the kernel sends SIGTERM when the parent's thread that started us ends, also when the parent was killed
(prctl(2), PR_SET_PDEATHSIG); whoever sends SIGTERM ends everything.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def _end(*_: object) -> None:
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Tie, run, pass on the code."""
    signal.signal(signal.SIGTERM, _end)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        return 1
    try:
        code = subprocess.call(sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"cannot start {sys.argv[2]}: {error.strerror}\n")
        return 127
    return code if code >= 0 else 128 - code


sys.exit(main())
