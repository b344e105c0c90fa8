"""What loading a model with a build really took: memory and time, the latest measurement of each pair."""

from __future__ import annotations

import msgspec

from blazar.store.connection import Connection

_COLUMNS = "kind, tag, context, slots, resident_bytes, load_seconds, measured_ns, gpu_layers, device_bytes"


class MeasureRow(msgspec.Struct, frozen=True):
    """One measurement: memory in bytes, main and of all GPUs together, and load time in seconds, at this context and
    number of slots, and with so many layers on GPUs.
    """

    model: str
    kind: str
    tag: str
    context: int
    slots: int
    resident_bytes: int
    load_seconds: float
    measured_ns: int
    gpu_layers: int = 0
    device_bytes: int = 0


class MeasureRows:
    """The table ``measures``. A model's measurements leave with it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, row: MeasureRow) -> bool:
        """Keep the measurement in place of an earlier one; says whether the model is in the catalogue at all."""
        values = (
            row.kind, row.tag, row.context, row.slots, row.resident_bytes, row.load_seconds, row.measured_ns,
            row.gpu_layers, row.device_bytes,
        )  # fmt: skip
        with self._connection.write() as db:
            kept = db.execute(
                f"INSERT OR REPLACE INTO measures (model_id, {_COLUMNS}) "
                f"SELECT id, {', '.join('?' * len(values))} FROM models WHERE name = ?",
                (*values, row.model),
            )
            return kept.rowcount > 0

    def get(self, model: str, kind: str, tag: str) -> MeasureRow | None:
        """The latest measurement of this model with this build, or ``None``."""
        rows = self._connection.read(
            f"SELECT name, {_COLUMNS} FROM measures JOIN models ON models.id = model_id "
            "WHERE name = ? AND kind = ? AND tag = ?",
            (model, kind, tag),
        )
        return MeasureRow(*rows[0]) if rows else None
