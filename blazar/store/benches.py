"""What ``blazar bench`` measured, kept to be compared with."""

from __future__ import annotations

import msgspec

from blazar.store.connection import Connection

_KEPT = 200


class BenchRow(msgspec.Struct, frozen=True):
    """One run: of which model on which build, when (Unix ns), and its results as JSON."""

    model: str
    build: str
    at_ns: int
    results: str


class BenchRows:
    """The table ``benches``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, row: BenchRow) -> None:
        """Keep it; of each model the oldest leave."""
        with self._connection.write() as db:
            db.execute(
                "INSERT INTO benches (model, build, at_ns, results) VALUES (?, ?, ?, ?)",
                (row.model, row.build, row.at_ns, row.results),
            )
            db.execute(
                "DELETE FROM benches WHERE model = ? AND at_ns NOT IN "
                f"(SELECT at_ns FROM benches WHERE model = ? ORDER BY at_ns DESC LIMIT {_KEPT})",
                (row.model, row.model),
            )

    def list(self, model: str) -> tuple[BenchRow, ...]:
        """The runs of a model, the oldest first."""
        rows = self._connection.read(
            "SELECT model, build, at_ns, results FROM benches WHERE model = ? ORDER BY at_ns", (model,)
        )
        return tuple(BenchRow(*row) for row in rows)
