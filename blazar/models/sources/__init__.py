"""Where models come from: one file per source. Each brings finished files into a staging folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from blazar.config.schema import Models
from blazar.errors import NoModelInside
from blazar.models import files
from blazar.models.overlay import Overlay

if TYPE_CHECKING:
    from blazar.models.lines import Look, Way
    from blazar.models.progress import Listener
    from blazar.models.transfer import Downloaded

MAGIC = b"GGUF"


class Fetched(msgspec.Struct, frozen=True):
    """Finished files in order (the first is what an engine is given), with the ``sha256:…`` of each.

    ``name`` is what the source calls it, or empty; ``projector`` lets it see; ``overlay`` is what it sets;
    ``adapters`` are put on it.
    """

    files: tuple[Path, ...]
    digests: tuple[str, ...]
    name: str = ""
    projector: Path | None = None
    overlay: Overlay = msgspec.field(default_factory=Overlay)
    adapters: tuple[Path, ...] = ()


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What a source may use: where to put files, whom to tell, how to fetch. ``held`` finds a file of that SHA-256 that
    is here already, ``room`` is the memory that a model may take, in bytes, 0 where nobody knows.
    """

    staging: Path
    listener: Listener
    way: Way
    settings: Models
    held: Callable[[str], Path | None]
    room: int = 0

    def bring(self, url: str, name: str, sha256: str, look: Look | None = None) -> Downloaded:
        """A file, linked where it is here already, else fetched."""
        from blazar.models.transfer import Downloaded, download  # noqa: PLC0415 (what speaks HTTP is slow to import)

        target = self.staging / name
        here = self.held(f"sha256:{sha256}") if sha256 and not target.exists() else None
        if here is not None:
            try:
                os.link(here, target)
            except OSError:  # another disk
                files.copy(here, target, self.listener)
            return Downloaded(target, target.stat().st_size, f"sha256:{sha256}")
        return download(url, self.staging, name, self.listener, sha256=sha256, look=look, way=self.way)


def look_for_gguf(what: str, first: bytes, kind: str) -> None:
    """Raise ``NoModelInside`` when these first bytes of a file are not those of a GGUF."""
    if not first.startswith(MAGIC[: len(first)]):
        told = f" but {kind.split(';', maxsplit=1)[0]}" if kind.startswith("text/") else ""
        raise NoModelInside(what, f"is not a GGUF file{told}: it begins with {first[:4]!r}")
