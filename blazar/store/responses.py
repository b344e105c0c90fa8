"""Responses that clients asked to have kept, each with its input, so that a later one can go on from it."""

from __future__ import annotations

import msgspec

from blazar.store.connection import Connection

_COLUMNS = "id, created_ns, previous, model, status, input, body, owner"
# Between two looks at what is too much or too old.
_EVERY = 64


class ResponseRow(msgspec.Struct, frozen=True):
    """One response. ``input`` is a JSON array of items, ``body`` the object as clients see it; ``previous`` is the id
    that it went on from, or nothing; ``owner`` is the API key that asked for it, or nothing; times are Unix ns.
    """

    id: str
    created_ns: int
    previous: str
    model: str
    status: str
    input: str
    body: str
    owner: str = ""


class ResponseRows:
    """The table ``responses``, bounded in bytes and in age."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._puts = 0

    def put(self, row: ResponseRow, *, most_bytes: int, oldest_ns: int) -> None:
        """Keep the row in place of an earlier one of its id. Now and then, the oldest beyond the bounds leave."""
        values = (row.id, row.created_ns, row.previous, row.model, row.status, row.input, row.body, row.owner)
        size = len(row.input) + len(row.body)
        with self._connection.write() as db:
            db.execute(
                f"INSERT OR REPLACE INTO responses ({_COLUMNS}, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, size),
            )
            if self._puts % _EVERY == 0:
                db.execute("DELETE FROM responses WHERE created_ns < ?", (oldest_ns,))
                db.execute(
                    "DELETE FROM responses WHERE rowid IN (SELECT rowid FROM (SELECT rowid, SUM(bytes) OVER "
                    "(ORDER BY created_ns DESC, rowid DESC) AS total FROM responses) WHERE total > ?)",
                    (most_bytes,),
                )
        self._puts += 1

    def get(self, id: str) -> ResponseRow | None:  # noqa: A002  (it is one)
        """The row, or ``None``."""
        rows = self._connection.read(f"SELECT {_COLUMNS} FROM responses WHERE id = ?", (id,))
        return ResponseRow(*rows[0]) if rows else None

    def chain(self, id: str, most: int = 10_000) -> tuple[ResponseRow, ...]:  # noqa: A002
        """The row and all that it goes on from, the oldest first; shorter than the conversation where one is gone."""
        found: list[ResponseRow] = []
        seen: set[str] = set()
        with self._connection.snapshot():
            while id and id not in seen and len(found) < most:
                seen.add(id)
                row = self.get(id)
                if row is None:
                    break
                found.append(row)
                id = row.previous  # noqa: A001
        return tuple(reversed(found))

    def delete(self, id: str) -> bool:  # noqa: A002
        """Let it go; says whether it was there."""
        with self._connection.write() as db:
            return db.execute("DELETE FROM responses WHERE id = ?", (id,)).rowcount > 0

    def abandoned(self, error: str) -> int:
        """Say of what an earlier life left running that it failed, with ``error`` (JSON); how many there were."""
        with self._connection.write() as db:
            return db.execute(
                "UPDATE responses SET status = 'failed', body = json_set(body, '$.status', 'failed', '$.error', "
                "json(?)) WHERE status IN ('queued', 'in_progress')",
                (error,),
            ).rowcount
