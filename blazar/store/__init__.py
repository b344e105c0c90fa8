"""SQLite: one writer, numbered migrations, one module per table family. SQL stays here.

``open`` gives the whole database as one value; each table family is an attribute of it. All calls are synchronous and
short. Any thread may make them; any number of processes may hold the same file open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blazar.store.batches import BatchRow, BatchRows
from blazar.store.benches import BenchRow, BenchRows
from blazar.store.builds import BuildRow, BuildRows
from blazar.store.connection import Connection
from blazar.store.files import FileRow, FileRows
from blazar.store.measures import MeasureRow, MeasureRows
from blazar.store.models import ModelRow, ModelRows
from blazar.store.responses import ResponseRow, ResponseRows
from blazar.store.usage import UsageRow, UsageRows

__all__ = [
    "BatchRow", "BatchRows", "BenchRow", "BenchRows", "BuildRow", "BuildRows", "FileRow", "FileRows", "MeasureRow",
    "MeasureRows", "ModelRow", "ModelRows", "ResponseRow", "ResponseRows", "Store", "UsageRow", "UsageRows", "open",
]  # fmt: skip


class Store:
    """The database; each table family is an attribute."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.models = ModelRows(connection)
        self.builds = BuildRows(connection)
        self.measures = MeasureRows(connection)
        self.responses = ResponseRows(connection)
        self.files = FileRows(connection)
        self.batches = BatchRows(connection)
        self.usage = UsageRows(connection)
        self.benches = BenchRows(connection)

    def data_version(self) -> tuple[int, int]:
        """A value that differs from an earlier one when this or another process wrote in between."""
        return self._connection.data_version()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Several writes as one: all of them are kept, or after an exception none. May be nested."""
        with self._connection.write():
            yield

    def copy_to(self, path: Path) -> None:
        """A whole copy at ``path``, where nothing may be yet, as of one moment, whoever else writes. Raises
        StoreUnusable.
        """
        self._connection.copy_to(path)

    def close(self) -> None:
        """Give the file back. The last one to leave folds the write-ahead log into it."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(path: Path) -> Store:  # noqa: A001  (store.open reads as what it does)
    """Open or make the database at ``path`` and bring it to this version.

    Raises ``StoreUnusable`` when the file is of a newer Blazar (it is left untouched), damaged, or not writable.
    """
    return Store(Connection(path))
