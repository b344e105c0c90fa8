"""Where this command works: the folders, the settings, the daemon."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from blazar.client import Client
from blazar.config.load import load
from blazar.config.paths import Paths
from blazar.config.schema import Config

_LISTENING = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class _Record(msgspec.Struct):
    pid: int
    host: str
    port: int
    secret: str = ""


def url(host: str, port: int) -> str:
    """The URL that reaches who listens on ``host`` and ``port``; a wildcard is reached on this machine."""
    host = _LISTENING.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def client(paths: Paths, config: Config) -> Client:
    """A client of the daemon of this home: of the one that runs, else of the one that the settings describe."""
    record = _record(paths)
    address = url(record.host, record.port) if record else url(config.server.host, config.server.port)
    # Whoever may read the daemon's record owns it, and needs no key.
    return Client(address, os.environ.get("BLAZAR_API_KEY") or (record.secret if record else None) or None)


def owners(paths: Paths) -> Client | None:
    """A client of the daemon that runs here, as who may read its files, whatever key is set; if one runs."""
    record = _record(paths)
    return Client(url(record.host, record.port), record.secret) if record and record.secret else None


def lives(paths: Paths) -> bool:
    """A daemon of this home runs."""
    return _record(paths) is not None


def here() -> tuple[Paths, Config]:
    """The folders and the settings that the environment leads to."""
    paths = Paths.from_env()
    return paths, load(paths)


def _record(paths: Paths) -> _Record | None:
    """What the daemon of this home left, if it lives; it may be at another port than the settings name."""
    try:
        record = msgspec.json.decode((paths.run / "daemon.json").read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None
    return record if Path(f"/proc/{record.pid}").exists() else None
