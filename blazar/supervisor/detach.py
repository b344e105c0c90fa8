"""The daemon as seen from outside: the record that it leaves, and starting it in a session of its own."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import DaemonFailed, PortTaken
from blazar.supervisor import effects
from blazar.supervisor.effects import Stat
from blazar.supervisor.listeners import owner
from blazar.supervisor.lock import Lock

if TYPE_CHECKING:
    from blazar.config.paths import Paths

_STEP_S = 0.02
_ANSWER_S = 2.0
_PORT_TAKEN = 3
_LAST_WORDS = 5


class DaemonInfo(msgspec.Struct, frozen=True):
    """A daemon. ``start`` (ticks since boot) with ``pid`` names its process for good; ``started_ns`` is civil time."""

    pid: int
    host: str
    port: int
    started_ns: int
    start: int
    # What opens everything to whoever may read this file.
    secret: str = ""


def record(paths: Paths, host: str, port: int) -> DaemonInfo:
    """Called by the daemon itself as it starts: leave the record that ``running`` reads."""
    stat = Stat.read(os.getpid())
    info = DaemonInfo(
        os.getpid(), host, port, time.time_ns(), stat.start if stat is not None else 0, secrets.token_hex(16)
    )
    effects.private_folder(paths.run)
    effects.write_private(_file(paths), msgspec.json.encode(info))
    return info


def forget(paths: Paths) -> None:
    """Called by the daemon on its way out. The record of another daemon stays."""
    info = _read(paths)
    if info is not None and info.pid == os.getpid():
        _file(paths).unlink(missing_ok=True)


def running(paths: Paths) -> DaemonInfo | None:
    """The daemon of this home, when its process lives; a record that a killed one left does not count."""
    info = _read(paths)
    if info is None:
        return None
    stat = Stat.read(info.pid)
    return info if stat is not None and stat.alive and stat.start == info.start else None


def start(paths: Paths, host: str, port: int, *, command: Sequence[str] = (), wait_s: float = 20.0) -> tuple[int, bool]:
    """Start ``blazar serve`` in a session of its own, or find the one that answers; its pid, and whether it is new.

    ``command`` replaces the command line; the environment is this process's. Two who call this at once start
    one. Returns when ``GET /health`` answers. Raises PortTaken, DaemonFailed with the last lines of the log, Conflict.
    """
    effects.private_folder(paths.run)
    lock = Lock(paths.run / "start.lock")
    lock.take(wait_s)
    try:
        if (info := running(paths)) is not None and _healthy(info.host, info.port):
            return info.pid, False
        return _start(paths, host, port, command or default_command(), wait_s), True
    finally:
        lock.give()


def stop(paths: Paths, *, wait_s: float = 30.0) -> DaemonInfo | None:
    """Ask the daemon of this home to end, and wait until it has; ``None`` if none runs.

    Raises DaemonFailed if it is still there after ``wait_s``; it is not killed then, since its models hang on it.
    """
    info = running(paths)
    if info is None:
        return None
    effects.send(info.pid, signal.SIGTERM)
    deadline = time.monotonic() + wait_s
    while running(paths) is not None:
        if time.monotonic() > deadline:
            raise DaemonFailed(f"(pid {info.pid}) did not end within {wait_s:g} s", ())
        time.sleep(_STEP_S)
    return info


def default_command() -> tuple[str, ...]:
    """``blazar serve`` of this installation."""
    return (str(Path(sys.executable).with_name("blazar")), "serve")


def log_file(paths: Paths) -> Path:
    """Where a detached daemon writes."""
    return paths.log / "daemon.log"


def _start(paths: Paths, host: str, port: int, command: Sequence[str], wait_s: float) -> int:
    if _listens(host, port):
        raise PortTaken(f"{host}:{port}", owner(port))
    paths.log.mkdir(parents=True, exist_ok=True)
    with log_file(paths).open("ab") as log:
        begin = log.tell()
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )
    deadline = time.monotonic() + wait_s
    # Nobody listened there a moment ago, so whoever answers is the new one.
    while time.monotonic() < deadline:
        code = daemon.poll()
        if code == _PORT_TAKEN:
            raise PortTaken(f"{host}:{port}", owner(port))
        if code is not None:
            raise DaemonFailed(f"ended with code {code}", _tail(paths, begin))
        if _healthy(host, port):
            # The process goes on without us; its handle must not complain.
            daemon.returncode = 0
            return daemon.pid
        time.sleep(_STEP_S)
    daemon.kill()
    daemon.wait()
    raise DaemonFailed(f"did not answer within {wait_s:g} s", _tail(paths, begin))


def _environment() -> dict[str, str]:
    """The environment of this process, with a home that does not depend on the folder in which it is read."""
    env = dict(os.environ)
    if home := env.get("BLAZAR_HOME"):
        env["BLAZAR_HOME"] = str(Path(home).expanduser().absolute())
    return env


def _healthy(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(_reachable(host), port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((_reachable(host), port), timeout=_ANSWER_S).close()
    except OSError:
        return False
    return True


def _reachable(host: str) -> str:
    """A wildcard is for listening; one connects to this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def _tail(paths: Paths, begin: int) -> tuple[str, ...]:
    with log_file(paths).open("rb") as log:
        log.seek(begin)
        lines = [line.rstrip() for line in log.read().decode(errors="replace").splitlines()]
    return tuple(line for line in lines if line)[-_LAST_WORDS:]


def _file(paths: Paths) -> Path:
    return paths.run / "daemon.json"


def _read(paths: Paths) -> DaemonInfo | None:
    try:
        return msgspec.json.decode(_file(paths).read_bytes(), type=DaemonInfo)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
