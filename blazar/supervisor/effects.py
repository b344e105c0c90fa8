"""The door: everything here touches the system, nothing here decides."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_PR_SET_PDEATHSIG = 1
# More than any machine here will have streams; programs that walk over all numbers still end.
_FILES = 262_144
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
MARK = "BLAZAR_CHILD_OF"
"""A variable in every child's environment whose value is the data folder: it names whose child a process is."""

P = TypeVar("P", bound=asyncio.SubprocessProtocol)


async def spawn(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, protocol: Callable[[], P]
) -> tuple[asyncio.SubprocessTransport, P]:
    """Start ``argv`` in a session of its own, tied to the life of the calling thread. Its two outputs are one pipe."""
    return await asyncio.get_running_loop().subprocess_exec(
        protocol,
        *(sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid()), *argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(env),
        cwd=str(cwd),
        start_new_session=True,
    )


# Tells a worker of the daemon to end its answers: its server stops it only after the last of them.
CLOSE = signal.SIGUSR1


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends. For workers of a process pair."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def send(pid: int, number: signal.Signals) -> bool:
    """Signal one process; ``False`` when it is gone. Only for a pid that is known to be ours and not reaped."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def allow_many_files() -> None:
    """Let this process, and those that start from here, open as many files as the system grants.

    Each stream takes two, and what shells give is often 1,024.
    """
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def ignore(number: signal.Signals) -> None:
    """Let ``number`` do nothing, here and in processes that start from here, until they listen to it."""
    signal.signal(number, signal.SIG_IGN)


def kill_group(leader: int, owner: Path) -> int:
    """SIGKILL whoever is left in the group of ``leader`` and carries ``owner``'s mark; says how many that were.

    The leader's number may belong to somebody else by now, therefore the mark.
    """
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return 0
    killed = 0
    for pid in processes():
        stat = Stat.read(pid)
        if stat is not None and stat.group == leader and is_marked(pid, owner):
            killed += send(pid, signal.SIGKILL)
    return killed


def processes() -> list[int]:
    """Every process that can be seen."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def is_marked(pid: int, owner: Path) -> bool:
    """Whether a process was started, at whatever remove, by a fleet with the data folder ``owner``."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={owner}".encode() in environ.split(b"\0")


class Stat(msgspec.Struct, frozen=True):
    """A few fields of ``/proc/PID/stat``. ``start`` is in ticks since boot: with the pid it names one process."""

    state: str
    group: int
    cpu_s: float
    start: int
    resident: int

    @classmethod
    def read(cls, pid: int) -> Stat | None:
        """``None`` when the process is gone. A zombie is not gone."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The name in parentheses may hold anything; what follows it counts from the state, which is field 3.
        fields = text.rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return cls(fields[0], int(fields[2]), ticks * _TICK_S, int(fields[19]), int(fields[21]) * _PAGE)

    @property
    def alive(self) -> bool:
        """Runs or sleeps."""
        return self.state not in "ZX"


def read_bytes(pid: int) -> int:
    """Bytes that a process has read so far, from disk or cache; 0 when that is not to be seen."""
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return 0
    return int(text.split("rchar:", 1)[1].split(None, 1)[0])


def mapped_file_bytes(pid: int) -> int:
    """Bytes of files that a process has in memory: weights that are mapped, mostly."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    _, found, rest = text.partition("RssFile:")
    return int(rest.split(None, 1)[0]) * 1024 if found else 0


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    beside.replace(path)


def private_folder(path: Path) -> Path:
    """A folder that only this user may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path
