"""Large files on disk: room for them, their hash, and how they come to their name whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from blazar.errors import InsufficientStorage
from blazar.models.progress import Listener, Meter

BLOCK = 1 << 20
_SYNC_EVERY = 64 << 20
_SPARE = 32 << 20
"""Bytes that a transfer leaves free: the database and the logs live on the same disk."""


def ensure_room(folder: Path, needs: int, what: str) -> None:
    """Raise ``InsufficientStorage`` when the disk of ``folder`` has no room for so many more bytes."""
    free = shutil.disk_usage(folder).free
    if needs + _SPARE > free:
        raise InsufficientStorage(what, needs, free, str(folder))


@contextmanager
def full_disk_told(folder: Path, what: str, needs: Callable[[], int]) -> Iterator[None]:
    """A disk that runs full in the middle becomes ``InsufficientStorage``; ``needs`` says what is still to come."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InsufficientStorage(what, needs(), shutil.disk_usage(folder).free, str(folder)) from error


class HashingWriter:
    """Writes to an open file, hashes what it writes, and makes it durable now and then."""

    def __init__(self, file: BinaryIO, synced: Callable[[int], None] | None = None) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._synced = synced
        self._unsynced = 0
        self.count = 0

    @property
    def digest(self) -> str:
        """Of all that went through: ``sha256:`` and 64 hex digits."""
        return f"sha256:{self._digest.hexdigest()}"

    def hash_only(self, piece: bytes) -> None:
        """Take a piece that lies in the file already."""
        self._digest.update(piece)
        self.count += len(piece)

    def write(self, piece: bytes) -> None:
        """Append a piece."""
        self._file.write(piece)
        self.hash_only(piece)
        self._unsynced += len(piece)
        if self._unsynced >= _SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Everything so far is on the disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0
        if self._synced is not None:
            self._synced(self.count)


def sha256_of(path: Path, listener: Listener) -> str:
    """``sha256:`` and the hash of the file, with progress of the phase ``verify``."""
    digest = hashlib.sha256()
    meter = Meter(listener, "verify", path.name, path.stat().st_size)
    with path.open("rb") as file:
        while piece := file.read(BLOCK):
            digest.update(piece)
            meter.add(len(piece))
    return f"sha256:{digest.hexdigest()}"


def copy(source: Path, target: Path, listener: Listener) -> str:
    """Copy to ``target``, which appears whole or not at all; its digest."""
    size = source.stat().st_size
    ensure_room(target.parent, size, source.name)
    partial = target.with_name(target.name + ".partial")
    meter = Meter(listener, "copy", source.name, size)
    try:
        with source.open("rb") as src, partial.open("wb") as dst:
            writer = HashingWriter(dst)
            with full_disk_told(target.parent, source.name, lambda: size - writer.count):
                while piece := src.read(BLOCK):
                    writer.write(piece)
                    meter.add(len(piece))
                writer.sync()
        place(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return writer.digest


def place(source: Path, target: Path) -> None:
    """Give a finished file its name, durably. Both lie on one file system."""
    source.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """The names in the folder survive a power cut after this."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
