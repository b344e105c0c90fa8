"""Pulls that were not finished: what is here of them, and how they go."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from blazar.errors import Conflict
from blazar.models import lock
from blazar.models.ledger import brought

ORIGIN = "origin"
"""The file in a pull's folder that says where it comes from."""


class Partial(msgspec.Struct, frozen=True):
    """A pull that was not finished: where it comes from, and how many bytes are here."""

    name: str
    source: str
    size: int
    folder: Path


def found(staging: Path) -> tuple[Partial, ...]:
    """Those in the folder where pulls grow."""
    them = []
    for origin in sorted(staging.glob(f"*/{ORIGIN}")):
        try:
            source = origin.read_text()
        except FileNotFoundError:
            continue  # it was finished just now
        them.append(Partial(source, source, brought(origin.parent) - len(source.encode()), origin.parent))
    return tuple(them)


def discard(partial: Partial) -> None:
    """Let it go. Raises Conflict while another process is at it."""
    if (pid := lock.holder(partial.folder.with_suffix(".lock"))) is not None:
        raise Conflict(f"Process {pid} is pulling {partial.source}. Stop it first.")
    shutil.rmtree(partial.folder)
