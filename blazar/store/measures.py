"""What loading a model with a build really took: memory and time, the latest measurement of each pair."""

from __future__ import annotations

import msgspec

from blazar.store.connection import Connection


class MeasureRow(msgspec.Struct, frozen=True):
    """One measurement: resident memory in bytes and load time in seconds, at this context and number of slots."""

    model: str
    kind: str
    tag: str
    context: int
    slots: int
    resident_bytes: int
    load_seconds: float
    measured_ns: int


class MeasureRows:
    """The table ``measures``. A model's measurements leave with it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, row: MeasureRow) -> bool:
        """Keep the measurement in place of an earlier one; says whether the model is in the catalogue at all."""
        values = (
            row.kind, row.tag, row.context, row.slots, row.resident_bytes, row.load_seconds, row.measured_ns, row.model,
        )  # fmt: skip
        with self._connection.write() as db:
            kept = db.execute(
                "INSERT OR REPLACE INTO measures (model_id, kind, tag, context, slots, resident_bytes, load_seconds, "
                "measured_ns) SELECT id, ?, ?, ?, ?, ?, ?, ? FROM models WHERE name = ?",
                values,
            )
            return kept.rowcount > 0

    def get(self, model: str, kind: str, tag: str) -> MeasureRow | None:
        """The latest measurement of this model with this build, or ``None``."""
        rows = self._connection.read(
            "SELECT name, kind, tag, context, slots, resident_bytes, load_seconds, measured_ns "
            "FROM measures JOIN models ON models.id = model_id WHERE name = ? AND kind = ? AND tag = ?",
            (model, kind, tag),
        )
        return MeasureRow(*rows[0]) if rows else None
