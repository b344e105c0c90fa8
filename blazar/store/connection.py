"""The one connection of this process to the database: how it is opened, brought up to date, read and written."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blazar.errors import StoreUnusable
from blazar.store.migrations import MIGRATIONS

BUSY_S = 10.0
"""How long a write waits for another process to finish its own, in seconds."""


class Connection:
    """One SQLite connection behind one lock, so that any thread may use it. Other processes wait at SQLite's lock."""

    def __init__(self, path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._depth = 0
        self._writes = 0
        with self._explained():
            _refuse_newer(path, _peek_version(path), len(migrations))
            _make_private(path)
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(migrations)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, migrations: Sequence[Sequence[str]]) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        self._enter_wal()
        self._db.execute("PRAGMA synchronous = NORMAL")
        for number, statements in enumerate(migrations, start=1):
            if self._version() >= number:
                continue
            # The step is taken under the write lock and only if nobody took it meanwhile: another process may be
            # opening the same file at this moment.
            with self.write() as db:
                if self._version() >= number:
                    continue
                for statement in statements:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {number}")
        _refuse_newer(self._path, self._version(), len(migrations))

    def _enter_wal(self) -> None:
        # SQLite does not wait its busy timeout when two connections change the journal mode at once.
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                mode = self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
                continue
            if mode != "wal":
                raise StoreUnusable(self._path, f"its file system cannot hold a write-ahead log (journal mode {mode})")
            return

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its first moment. Nested, it joins the outer one."""
        with self._lock, self._explained():
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield self._db
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                try:
                    self._db.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
                    raise
                self._writes += 1

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one state of the database, whatever other processes write meanwhile."""
        with self._lock, self._explained():
            if self._depth:  # inside a transaction of our own, reads see one state already
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    def read(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query."""
        with self._lock, self._explained():
            return self._db.execute(sql, arguments).fetchall()

    def copy_to(self, path: Path) -> None:
        """SQLite's own way to a copy: a plain copy of the files may hold half of a write."""
        with self._lock, self._explained():
            self._db.execute("VACUUM INTO ?", (str(path),))
            path.chmod(0o600)

    def data_version(self) -> tuple[int, int]:
        """Changes with every write: the first number by other processes, the second by this one."""
        with self._lock, self._explained():
            return int(self._db.execute("PRAGMA data_version").fetchone()[0]), self._writes

    def close(self) -> None:
        """Close; further calls fail."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreUnusable(self._path, _reason(error)) from error
        except sqlite3.IntegrityError:
            raise  # a rule of the tables was broken: the table's own module knows what that means
        except sqlite3.DatabaseError as error:
            raise StoreUnusable(
                self._path,
                f"the file is damaged ({error}). Move it away and Blazar makes a new one; the model files stay, and "
                f"'blazar import' lists them again",
            ) from error
        except OSError as error:
            raise StoreUnusable(self._path, error.strerror or str(error)) from error


def _reason(error: sqlite3.OperationalError) -> str:
    code = error.sqlite_errorcode & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return f"another process has held its write lock for {BUSY_S:.0f} s"
    if code == sqlite3.SQLITE_READONLY:
        return "it may not be written to"
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full"
    return str(error)


def _refuse_newer(path: Path, version: int, known: int) -> None:
    if version > known:
        raise StoreUnusable(
            path,
            f"a newer Blazar wrote it (version {version}, this one knows {known}). It was not touched. Upgrade with "
            f"'pip install -U blazar', or point BLAZAR_HOME elsewhere",
        )


def _make_private(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _peek_version(path: Path) -> int:
    """``user_version`` as it stands in the file and its write-ahead log, without a byte of either being changed.

    A read-only connection would make a ``-shm`` file beside the database, and an ordinary one would fold the log into
    it. ``immutable`` leaves the log unread, so that is read here. (The main file is never opened by hand: closing it
    would drop the locks that SQLite holds on it elsewhere in this process.)
    """
    if not path.exists():
        return 0
    log = path.with_name(path.name + "-wal")
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        # On a full disk, the log is folded in by half; it is still there then, and holds what the file lacks.
        if not log.exists():
            raise
        version = 0
    finally:
        db.close()
    return max(version, _version_in_log(log)) if log.exists() else version


def _version_in_log(log: Path) -> int:
    """``user_version`` in the newest committed copy of the first page that the write-ahead log holds, else 0."""
    committed = pending = 0
    with log.open("rb") as file:
        head = file.read(32)
        if len(head) < 32 or head[:4] not in (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"):
            return 0
        page_size, salts = int.from_bytes(head[8:12], "big"), head[16:24]
        # Frames of an older round of the log carry other salts: what follows the first of them is stale.
        while len(frame := file.read(24)) == 24 and frame[8:16] == salts:
            page = file.read(page_size)
            if len(page) < page_size:
                break
            if int.from_bytes(frame[:4], "big") == 1:
                pending = int.from_bytes(page[60:64], "big")
            if int.from_bytes(frame[4:8], "big"):  # the size after a commit: everything up to here counts
                committed = pending
    return committed
