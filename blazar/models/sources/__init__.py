"""Where models come from: one file per source. Each brings finished files into a staging folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from blazar.errors import NoModelInside

MAGIC = b"GGUF"


class Fetched(msgspec.Struct, frozen=True):
    """Finished files in order (the first is what an engine is given), with the ``sha256:…`` of each."""

    files: tuple[Path, ...]
    digests: tuple[str, ...]


def look_for_gguf(what: str, first: bytes, kind: str) -> None:
    """Raise ``NoModelInside`` when these first bytes of a file are not those of a GGUF."""
    if not first.startswith(MAGIC[: len(first)]):
        told = f" but {kind.split(';', maxsplit=1)[0]}" if kind.startswith("text/") else ""
        raise NoModelInside(what, f"is not a GGUF file{told}: it begins with {first[:4]!r}")
