"""One child process: its output, its end, and how it is asked to go."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from blazar.engines.base import LaunchPlan
from blazar.supervisor import effects
from blazar.supervisor.effects import MARK
from blazar.supervisor.wake import Wake

_KEPT_LINES = 200
_LONGEST_LINE = 2000
_LOG_BYTES = 4 * 1024 * 1024
_TAIL_S = 0.1
_SECOND_GRACE_S = 2.0


class Child(asyncio.SubprocessProtocol):
    """A process that runs. ``code`` is its return code once it is reaped, negative for a signal."""

    def __init__(self, log: Path, owner: Path, ended: Callable[[], None]) -> None:
        self.pid = 0
        self.code: int | None = None
        self.lines_seen = 0
        self.spoke = Wake()
        self.over = asyncio.Event()
        self._owner = owner
        self._ended = ended
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._partial = b""
        self._log_path = log
        self._log: BinaryIO = log.open("wb")
        self._logged = 0
        self._transport: asyncio.SubprocessTransport | None = None
        self._pipe_closed = False
        self._tail: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, plan: LaunchPlan, *, log: Path, owner: Path, ended: Callable[[], None]) -> Child:
        """Start ``plan``. ``ended`` is called once, when the process is reaped and its last words are read."""
        log.parent.mkdir(parents=True, exist_ok=True)
        child = cls(log, owner, ended)
        try:
            await effects.spawn(plan.argv, {**plan.env, MARK: str(owner)}, plan.cwd, lambda: child)
        except BaseException:
            child._log.close()
            raise
        return child

    def last_lines(self, count: int = _KEPT_LINES) -> tuple[str, ...]:
        """The newest lines of its output, oldest first."""
        return tuple(self._lines)[-count:]

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, ``grace_s`` seconds, SIGTERM, 2 s, SIGKILL; returns when it is reaped and its group is empty.

        Cancelling this leaves the child to the next call.
        """
        for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGTERM, _SECOND_GRACE_S)):
            if self.code is not None:
                break
            effects.send(self.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self.over.wait()
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL; returns when it is reaped."""
        if self.code is None:
            effects.send(self.pid, signal.SIGKILL)
        await self.over.wait()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It runs."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002  (both outputs are one pipe)
        """It says something."""
        if self._logged + len(data) > _LOG_BYTES:
            self._turn_log()
        self._log.write(data)
        self._log.flush()
        self._logged += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _LONGEST_LINE:
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            self._keep(line)
        self.spoke.fire()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  (the pipe is the only one)
        """It closed its outputs."""
        if fd == 1:
            self._pipe_closed = True
            if self.code is not None:
                self._finish()

    def process_exited(self) -> None:
        """It is reaped. A helper may hold its pipe open, so its last words are awaited for a moment only."""
        assert self._transport is not None
        code = self._transport.get_returncode()
        self.code = -1 if code is None else code
        if self._pipe_closed:
            self._finish()
        else:
            self._tail = asyncio.get_running_loop().call_later(_TAIL_S, self._finish)

    def _finish(self) -> None:
        if self.over.is_set():
            return
        if self._tail is not None:
            self._tail.cancel()
        if self._partial:
            self._keep(self._partial)
        effects.kill_group(self.pid, self._owner)
        self._log.close()
        assert self._transport is not None
        self._transport.close()
        self.over.set()
        self.spoke.fire()
        self._ended()

    def _keep(self, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode(errors="replace").rstrip()
        if text:
            self._lines.append(text)
            self.lines_seen += 1

    def _turn_log(self) -> None:
        self._log.close()
        self._log_path.replace(self._log_path.with_name(self._log_path.name + ".1"))
        self._log = self._log_path.open("wb")
        self._logged = 0
