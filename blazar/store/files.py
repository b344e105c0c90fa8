"""Files that clients uploaded or batches wrote; their bytes lie on the disk under their ids."""

from __future__ import annotations

import msgspec

from blazar.store.connection import Connection

_COLUMNS = "id, created_ns, expires_ns, filename, purpose, bytes, owner"


class FileRow(msgspec.Struct, frozen=True):
    """One file. Times are Unix ns, ``expires_ns`` 0 for never; ``bytes`` is its size; ``owner`` is the API key that
    brought it, or nothing.
    """

    id: str
    created_ns: int
    expires_ns: int
    filename: str
    purpose: str
    bytes: int
    owner: str = ""


class FileRows:
    """The table ``files``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, row: FileRow) -> None:
        """Keep the row in place of an earlier one of its id."""
        values = (row.id, row.created_ns, row.expires_ns, row.filename, row.purpose, row.bytes, row.owner)
        with self._connection.write() as db:
            db.execute(f"INSERT OR REPLACE INTO files ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def get(self, id: str) -> FileRow | None:  # noqa: A002  (it is one)
        """The row, or ``None``."""
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM files WHERE id = ?", (id,))
        return FileRow(*rows[0]) if rows else None

    def list(self, purpose: str | None = None) -> tuple[FileRow, ...]:
        """Every row, or those of one purpose, the newest first."""
        where, values = ("WHERE purpose = ?", (purpose,)) if purpose else ("", ())
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM files {where} ORDER BY created_ns DESC, id DESC", values)
        return tuple(FileRow(*row) for row in rows)

    def delete(self, id: str) -> bool:  # noqa: A002
        """Let it go; says whether it was there."""
        with self._connection.write() as db:
            return db.execute("DELETE FROM files WHERE id = ?", (id,)).rowcount > 0
