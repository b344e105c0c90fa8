"""A program that takes long and is none of the fleet's: pip, cmake. It ends with whoever waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

Tell = Callable[[str], None]
_LOOK_S = 0.2
_ASK_S = 20
_LEAVE_S = 5.0
_LAST_BYTES = 4096
_LAST_WORDS = 3


class Failed(Exception):
    """It ended with another code than 0; ``said`` are its last lines."""

    def __init__(self, program: str, code: int, said: str) -> None:
        super().__init__(f"{program} ended with code {code}: {said}")


_TIED = Path(__file__).with_name("tied.py")


def tied(argv: Sequence[str]) -> list[str]:
    """The command, so that it ends with this process whatever ends that. It wants a session of its own."""
    return [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), *argv]


def run(
    program: str,
    argv: Sequence[str],
    tell: Tell,
    what: str | Callable[[str], str],
    *,
    env: Mapping[str, str] | None = None,
) -> str:
    """To its end, or to an exception out of ``tell``, which is called again and again meanwhile, with ``what`` or with
    what that makes of the newest words; its last words. Raises Failed, which names ``program``.
    """
    with tempfile.TemporaryFile("w+b") as words:
        child = subprocess.Popen(
            tied(argv),
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=env,
        )
        try:
            while (code := child.poll()) is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_LOOK_S)
                tell(what if isinstance(what, str) else what(_newest(words)))
        finally:
            if child.poll() is None:
                _end(child)
        last = _newest(words)
        if code:
            raise Failed(program, code, " | ".join(last.strip().splitlines()[-_LAST_WORDS:]))
        return last


def _end(child: subprocess.Popen[bytes]) -> None:
    """It and all that it started; they may write until they are gone."""
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    until = time.monotonic() + _LEAVE_S
    with suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(child.pid, 0)
            time.sleep(_LOOK_S / 20)


def said(argv: Sequence[str], *, env: Mapping[str, str]) -> str:
    """All that a quick program writes, whatever code it ends with. Raises OSError."""
    try:
        told = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=_ASK_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"it says nothing for {_ASK_S} s") from late
    return told.stdout


def _newest(words: IO[bytes]) -> str:
    """Read at a place of its own: the child writes where the file's own mark stands."""
    size = os.fstat(words.fileno()).st_size
    return os.pread(words.fileno(), _LAST_BYTES, max(0, size - _LAST_BYTES)).decode(errors="replace")
