"""Rows of the catalogue: one per model name, with its files in order."""

from __future__ import annotations

from typing import Any

import msgspec

from blazar.store.connection import Connection

_COLUMNS = (
    "name, source, size, digest, format, architecture, parameters, context_length, quantization, capabilities, owned, "
    "added_ns, modified_ns, projector, overlay"
)


class ModelRow(msgspec.Struct, frozen=True):
    """What the catalogue keeps of a model. Paths are as the catalogue wrote them; sizes in bytes, times in Unix ns.

    ``projector`` is the path of the file that lets it see, or nothing; ``overlay`` is JSON of what a Modelfile sets, or
    nothing.
    """

    name: str
    source: str
    files: tuple[str, ...]
    size: int
    digest: str
    format: str
    architecture: str
    parameters: int
    context_length: int
    quantization: str
    capabilities: tuple[str, ...]
    owned: bool
    added_ns: int
    modified_ns: int
    projector: str = ""
    overlay: str = ""


class ModelRows:
    """The tables ``models`` and ``model_files``. Names are told apart without regard to case."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> tuple[ModelRow, ...]:
        """Every row, newest first."""
        files: dict[int, list[str]] = {}
        # One transaction, so that no writer comes between the two queries.
        with self._connection.snapshot():
            rows = self._connection.read(f"SELECT id, {_COLUMNS} FROM models ORDER BY modified_ns DESC, id DESC")
            for model, path in self._connection.read("SELECT model_id, path FROM model_files ORDER BY position"):
                files.setdefault(model, []).append(path)
        return tuple(_row(row[1:], tuple(files.get(row[0], ()))) for row in rows)

    def get(self, name: str) -> ModelRow | None:
        """The row of this name in any case, or ``None``."""
        with self._connection.snapshot():
            rows = self._connection.read(f"SELECT id, {_COLUMNS} FROM models WHERE name = ?", (name,))
            if not rows:
                return None
            files = self._connection.read(
                "SELECT path FROM model_files WHERE model_id = ? ORDER BY position", (rows[0][0],)
            )
        return _row(rows[0][1:], tuple(path for (path,) in files))

    def put(self, row: ModelRow) -> None:
        """Insert the row, or replace the one of the same name (its measures stay)."""
        values = (
            row.name, row.source, row.size, row.digest, row.format, row.architecture, row.parameters,
            row.context_length, row.quantization, " ".join(row.capabilities), row.owned, row.added_ns, row.modified_ns,
            row.projector, row.overlay,
        )  # fmt: skip
        renewed = ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS.split(", "))
        with self._connection.write() as db:
            ((model,),) = db.execute(
                f"INSERT INTO models ({_COLUMNS}) VALUES ({', '.join('?' * len(values))}) "
                f"ON CONFLICT (name) DO UPDATE SET {renewed} RETURNING id",
                values,
            ).fetchall()
            db.execute("DELETE FROM model_files WHERE model_id = ?", (model,))
            db.executemany(
                "INSERT INTO model_files (model_id, position, path) VALUES (?, ?, ?)",
                [(model, position, path) for position, path in enumerate(row.files)],
            )

    def delete(self, name: str) -> bool:
        """Drop the row of this name and what was measured of it; says whether there was one."""
        with self._connection.write() as db:
            return db.execute("DELETE FROM models WHERE name = ?", (name,)).rowcount > 0

    def users_of(self, path: str) -> tuple[str, ...]:
        """Names of the models that this file belongs to."""
        rows = self._connection.read(
            "SELECT name FROM models JOIN model_files ON model_id = id WHERE path = ? "
            "UNION SELECT name FROM models WHERE projector = ?",
            (path, path),
        )
        return tuple(name for (name,) in rows)


def _row(values: tuple[Any, ...], files: tuple[str, ...]) -> ModelRow:
    facts = dict(zip(_COLUMNS.split(", "), values, strict=True))
    words, owned = facts.pop("capabilities"), facts.pop("owned")
    return ModelRow(**facts, files=files, capabilities=tuple(words.split()), owned=bool(owned))
