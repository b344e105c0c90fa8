"""What every child leaves under ``run/`` while it lives, and how a start clears what an earlier life left."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import msgspec

from blazar.supervisor import effects
from blazar.supervisor.effects import Stat

_GRACE_S = 2.0
_STEP_S = 0.02


class Pidfile(msgspec.Struct, frozen=True):
    """One child: ``start`` (ticks since boot) with ``pid`` names the process for good, pids alone come round again."""

    pid: int
    start: int
    model: str
    secret: str
    unix: str = ""
    port: int = 0

    def write(self, run: Path, token: str) -> None:
        """Keep it under ``run``, readable by this user only."""
        effects.write_private(run / f"{token}.child", msgspec.json.encode(self))


def forget(run: Path, token: str) -> None:
    """Remove a child's files."""
    for suffix in ("child", "sock"):
        (run / f"{token}.{suffix}").unlink(missing_ok=True)


async def sweep(run: Path, owner: Path) -> list[Pidfile]:
    """End the children of an earlier life and remove their files; says which were still alive.

    Only for the one process that holds this home's lock. SIGTERM, 2 s, SIGKILL, never to a process whose start time
    differs from the recorded one.
    """
    found: list[Pidfile] = []
    for path in sorted(run.glob("*.child")):
        with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Pidfile))
    orphans = [child for child in found if _lives(child)]
    for child in orphans:
        effects.send(child.pid, signal.SIGTERM)
    for _ in range(int(_GRACE_S / _STEP_S)):
        if not any(_lives(child) for child in orphans):
            break
        await asyncio.sleep(_STEP_S)
    for child in orphans:
        if _lives(child):
            effects.send(child.pid, signal.SIGKILL)
    for child in found:
        effects.kill_group(child.pid, owner)
    for path in (*run.glob("*.child"), *run.glob("*.sock")):
        path.unlink(missing_ok=True)
    return orphans


def _lives(child: Pidfile) -> bool:
    stat = Stat.read(child.pid)
    return stat is not None and stat.alive and stat.start == child.start
