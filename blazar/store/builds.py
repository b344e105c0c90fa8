"""Rows of engine builds: what is installed, what probing it showed, which one of a kind is active."""

from __future__ import annotations

from typing import Any

import msgspec

from blazar.errors import NotFound
from blazar.store.connection import Connection

_COLUMNS = "kind, tag, channel, path, version, flags, backends, fingerprint, active, added_ns, used_ns"


class BuildRow(msgspec.Struct, frozen=True):
    """One installed build. ``fingerprint`` is of what was probed, so that a changed file is probed again; ``used_ns``
    is when it became the active one last, 0 for never.
    """

    kind: str
    tag: str
    channel: str
    path: str
    version: str
    flags: tuple[str, ...]
    backends: tuple[str, ...]
    fingerprint: str
    active: bool
    added_ns: int
    used_ns: int = 0


class BuildRows:
    """The table ``builds``: (kind, tag) is the key; at most one of a kind is active."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, kind: str | None = None) -> tuple[BuildRow, ...]:
        """The builds of one kind, or all, newest first."""
        where, arguments = ("", ()) if kind is None else ("WHERE kind = ?", (kind,))
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM builds {where} ORDER BY added_ns DESC, tag", arguments)
        return tuple(_row(row) for row in rows)

    def get(self, kind: str, tag: str) -> BuildRow | None:
        """One build, or ``None``."""
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM builds WHERE kind = ? AND tag = ?", (kind, tag))
        return _row(rows[0]) if rows else None

    def active(self, kind: str) -> BuildRow | None:
        """The active build of a kind, or ``None``."""
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM builds WHERE kind = ? AND active", (kind,))
        return _row(rows[0]) if rows else None

    def put(self, row: BuildRow) -> None:
        """Insert or replace a build; an active one takes the place of the active one of its kind."""
        values = (
            row.kind, row.tag, row.channel, row.path, row.version, msgspec.json.encode(row.flags).decode(),
            msgspec.json.encode(row.backends).decode(), row.fingerprint, row.active, row.added_ns, row.used_ns,
        )  # fmt: skip
        with self._connection.write() as db:
            if row.active:
                db.execute("UPDATE builds SET active = 0 WHERE kind = ?", (row.kind,))
            db.execute(f"INSERT OR REPLACE INTO builds ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)

    def activate(self, kind: str, tag: str, now_ns: int) -> None:
        """Make this the active build of its kind. Raises ``NotFound``."""
        with self._connection.write() as db:
            db.execute("UPDATE builds SET active = 0 WHERE kind = ?", (kind,))
            changed = db.execute(
                "UPDATE builds SET active = 1, used_ns = ? WHERE kind = ? AND tag = ?", (now_ns, kind, tag)
            ).rowcount
            if not changed:
                raise NotFound(f"build '{tag}' of the engine {kind}")

    def delete(self, kind: str, tag: str) -> bool:
        """Forget a build; says whether there was one."""
        with self._connection.write() as db:
            return db.execute("DELETE FROM builds WHERE kind = ? AND tag = ?", (kind, tag)).rowcount > 0


def _row(values: tuple[Any, ...]) -> BuildRow:
    facts = dict(zip(_COLUMNS.split(", "), values, strict=True))
    flags, backends, active = facts.pop("flags"), facts.pop("backends"), facts.pop("active")
    return BuildRow(**facts, flags=_words(flags), backends=_words(backends), active=bool(active))


def _words(text: str) -> tuple[str, ...]:
    # A row that was edited by hand must not take the list down: without flags, the build is probed again.
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ()
