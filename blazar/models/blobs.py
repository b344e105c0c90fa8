"""Files that clients upload before they make a model of them, by their hash."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blazar.errors import BadRequest, NotFound
from blazar.models.files import HashingWriter, ensure_room, full_disk_told, place

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_STALE_S = 86400.0


class Blobs:
    """A folder of uploads. Whole ones have their hash for a name; a day after it came, an unused one leaves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Where a blob of that digest lies, or would. Raises BadRequest for what is no digest."""
        found = _DIGEST.fullmatch(digest)
        if found is None:
            raise BadRequest("invalid digest format: expected sha256: and 64 hex digits.", param="digest")
        return self._folder / f"sha256-{found[1]}"

    def has(self, digest: str) -> bool:
        """It is here, and whole."""
        return self.path(digest).is_file()

    def find(self, digest: str) -> Path:
        """The file. Raises NotFound."""
        path = self.path(digest)
        if not path.is_file():
            raise NotFound(f'blob "{digest[:80]}"')
        return path

    @contextmanager
    def receiving(self, digest: str, size: int) -> Iterator[HashingWriter]:
        """Write an upload of ``size`` bytes (0: unknown); it has its name once it is whole and its hash is right.

        Raises BadRequest for another hash, InsufficientStorage.
        """
        path = self.path(digest)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        ensure_room(self._folder, size, path.name)
        partial = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.partial")
        try:
            with partial.open("wb") as file:
                writer = HashingWriter(file)
                with full_disk_told(self._folder, path.name, lambda: max(size - writer.count, 0)):
                    yield writer
                    writer.sync()
            wanted = digest.replace("-", ":", 1)
            if writer.digest != wanted:
                raise BadRequest(f'digest mismatch, expected "{wanted}", got "{writer.digest}"', param="digest")
            place(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def _sweep(self) -> None:
        oldest = time.time() - _STALE_S
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
