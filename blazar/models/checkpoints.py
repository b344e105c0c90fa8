"""What engines have read of a model's conversations, as files: one folder for each shape that may read them.

``sessions/<model>-<shape>/`` holds manifests (JSON) and the files of slots that they name. Folders are open to this
user alone: what is in them was said to a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from blazar.models.reference import fold

AUTO = ""
"""The name of what was saved without being asked."""
_LONGEST_NAME = 80


class Saved(msgspec.Struct, frozen=True):
    """One slot: its ``file`` beside the manifest, the ``tokens`` in it, what it began with (see the supervisor's seats)
    and the session that used it.
    """

    slot: int
    file: str
    tokens: int
    seating: tuple[int, int, int, int]
    session: str = ""


class Checkpoint(msgspec.Struct, frozen=True):
    """Slots of one model that were saved together; ``size`` in bytes."""

    name: str
    model: str
    context: int
    cache_type: str
    build: str
    saved_ns: int
    size: int
    slots: tuple[Saved, ...]


def folder_of(root: Path, model: str, shape: str) -> Path:
    """Where checkpoints of ``model`` lie that only ``shape`` may read."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", model)[:_LONGEST_NAME]
    return root / f"{safe}-{blake2b(f'{model}/{shape}'.encode(), digest_size=8).hexdigest()}"


def stem(name: str) -> str:
    """What the files of a checkpoint begin with; names come from people."""
    return f"named-{blake2b(name.encode(), digest_size=8).hexdigest()}" if name else "auto"


def manifest(folder: Path, name: str) -> Path:
    """The file that names the others."""
    return folder / f"{stem(name)}.json"


def read(path: Path) -> Checkpoint | None:
    """The checkpoint of a manifest; ``None`` where there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Checkpoint)
    except (OSError, msgspec.DecodeError):
        return None


def everything(root: Path) -> Iterator[tuple[Path, Checkpoint]]:
    """Every checkpoint with its folder."""
    for path in sorted(root.glob("*/*.json")):
        if (checkpoint := read(path)) is not None:
            yield path.parent, checkpoint


def tidy(folder: Path, name: str) -> None:
    """Remove files of a checkpoint that its manifest does not name: older ones, and those that were not finished."""
    kept = read(manifest(folder, name))
    names = {one.file for one in kept.slots} if kept is not None else set()
    for path in folder.glob(f"{stem(name)}-*.bin"):
        if path.name not in names:
            path.unlink(missing_ok=True)


def discard(folder: Path, checkpoint: Checkpoint) -> None:
    """Remove one."""
    manifest(folder, checkpoint.name).unlink(missing_ok=True)
    for one in checkpoint.slots:
        (folder / one.file).unlink(missing_ok=True)


def forget(root: Path, model: str) -> None:
    """Remove all of a model."""
    for folder, checkpoint in list(everything(root)):
        if fold(checkpoint.model) == fold(model):
            discard(folder, checkpoint)
