"""Adapters (LoRA): small files put over a model's weights. A model with one on is a variant, ``model+name``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.errors import BadModelFile, BadRequest
from blazar.models import header
from blazar.models.overlay import Lora
from blazar.models.sources import file

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

_LABEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.IGNORECASE)
# Of the engine's own list of files and scales.
_SIGNS = frozenset(',:"')


def name_of(base: Model, label: str) -> str:
    """The variant of ``base`` with the adapter ``label``. Raises BadRequest."""
    if _LABEL.fullmatch(label) is None:
        raise BadRequest(
            f"'{label}' cannot be an adapter's name: it may hold letters, digits, '.', '_' and '-'. "
            "Give it another: --name"
        )
    return f"{base.name.removesuffix(':latest')}+{label.lower()}"


def fitted(base: Model, architecture: str, path: Path, scale: float) -> Lora:
    """The adapter in ``path``, linked to where ``base`` is, to be put on it. Raises BadModelFile, BadRequest."""
    ensure_fits(architecture, path)
    place = str(_linked(path, Path(base.files[0]).parent) if base.owned else path.absolute())
    if not _SIGNS.isdisjoint(place):
        raise BadRequest(f"The engine takes no path with a comma, a colon or a quote: {place}", param="adapters")
    return Lora(place, scale)


def ensure_fits(architecture: str, path: Path) -> None:
    """Raises BadModelFile when ``path`` holds no adapter for models of this architecture."""
    facts = header.read(path)
    if facts.kind != "adapter":
        raise BadModelFile(str(path), "it is no adapter (a LoRA in GGUF, as convert_lora_to_gguf.py makes it)")
    if facts.architecture != architecture:
        raise BadModelFile(str(path), f"it is for {facts.architecture} models, and this one is of {architecture}")


def _linked(path: Path, folder: Path) -> Path:
    """The file under a name of its own in ``folder``, or where it is if that cannot be."""
    for number in range(1, 1000):
        name = path.name if number == 1 else f"{path.stem}-{number}{path.suffix}"
        if not (folder / name).exists():
            linked = file.link((path,), folder, name)
            return path.absolute() if linked is None else linked[0]
        if path.samefile(folder / name):
            return folder / name
    return path.absolute()
