"""Batches of requests: what is known of each, as its dialect keeps it."""

from __future__ import annotations

import msgspec

from blazar.store.connection import Connection

_COLUMNS = "id, dialect, created_ns, over, state"


class BatchRow(msgspec.Struct, frozen=True):
    """One batch. ``over``: nothing of it is left to be done; ``state`` is JSON; times are Unix ns."""

    id: str
    dialect: str
    created_ns: int
    over: bool
    state: str


class BatchRows:
    """The table ``batches``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, row: BatchRow) -> None:
        """Keep the row in place of an earlier one of its id."""
        values = (row.id, row.dialect, row.created_ns, row.over, row.state)
        with self._connection.write() as db:
            db.execute(f"INSERT OR REPLACE INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", values)

    def get(self, id: str) -> BatchRow | None:  # noqa: A002  (it is one)
        """The row, or ``None``."""
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM batches WHERE id = ?", (id,))
        return _row(rows[0]) if rows else None

    def list(self, dialect: str) -> tuple[BatchRow, ...]:
        """Every batch of a dialect, the newest first."""
        rows = self._connection.read(
            f"SELECT {_COLUMNS} FROM batches WHERE dialect = ? ORDER BY created_ns DESC, id DESC", (dialect,)
        )
        return tuple(map(_row, rows))

    def open(self) -> tuple[BatchRow, ...]:
        """Those that are not over, the oldest first."""
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM batches WHERE NOT over ORDER BY created_ns, id")
        return tuple(map(_row, rows))

    def delete(self, id: str) -> bool:  # noqa: A002
        """Let it go; says whether it was there."""
        with self._connection.write() as db:
            return db.execute("DELETE FROM batches WHERE id = ?", (id,)).rowcount > 0


def _row(values: tuple[str, str, int, int, str]) -> BatchRow:
    id, dialect, created_ns, over, state = values  # noqa: A001
    return BatchRow(id, dialect, created_ns, bool(over), state)
