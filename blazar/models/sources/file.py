"""Models in files that are here already: found with all their shards, then linked, copied or referred to."""

from __future__ import annotations

import os
from pathlib import Path

from blazar.errors import BadModelFile, NoModelInside, NotFound
from blazar.models import files, header, shards
from blazar.models.header import Header
from blazar.models.progress import Listener


def locate(path: Path) -> tuple[Path, ...]:
    """The file with all its shards in order. Raises ``NotFound`` naming what is not there."""
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir())[:8]
        raise NoModelInside(str(path), "is a folder; name the GGUF file in it", inside)
    found = tuple(path.with_name(name) for name in shards.siblings(path.name))
    for one in found:
        if not one.is_file():
            raise NotFound(f"file {one}" if len(found) == 1 else f"file {one}, one of {len(found)} shards")
    return found


def read_header(found: tuple[Path, ...]) -> Header:
    """The header of the first file; every further one must be a GGUF too. Raises ``BadModelFile``."""
    for further in found[1:]:
        header.read(further)
    return header.read(found[0])


def link(found: tuple[Path, ...], folder: Path, name: str = "") -> tuple[Path, ...] | None:
    """Give the files a second name in ``folder``, at no cost in space; ``None`` where the disk cannot do that. ``name``
    is for one whose own says nothing.
    """
    linked: list[Path] = []
    try:
        for path in found:
            target = folder / (name or path.name)
            os.link(path.resolve(), target)
            linked.append(target)
        files.sync_folder(folder)
    except OSError:
        # Another disk, a file system without links, or a file of somebody else that the kernel protects.
        for target in linked:
            target.unlink(missing_ok=True)
        return None
    return tuple(linked)


def copy(found: tuple[Path, ...], folder: Path, listener: Listener) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Copy the files into ``folder``; their new paths and digests. Nothing is left of a copy that failed."""
    made: list[Path] = []
    digests: list[str] = []
    try:
        for path in found:
            target = folder / path.name
            digests.append(files.copy(path, target, listener))
            made.append(target)
    except BaseException:
        for target in made:
            target.unlink(missing_ok=True)
        raise
    return tuple(made), tuple(digests)


__all__ = ["BadModelFile", "copy", "link", "locate", "read_header"]
