"""How much memory there is, how much a model will take: what the fleet asks before it loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from blazar.engines.base import Settings
    from blazar.models.catalogue import Model


class Memory(Protocol):
    """The view of memory that the fleet plans with. Bytes; read anew at each call."""

    def available(self) -> int:
        """What can be taken without taking it from anyone."""

    def total(self) -> int:
        """What there is in all."""

    def need(self, model: Model, settings: Settings) -> int:
        """What ``model`` will take with ``settings``."""


class HostMemory:
    """The machine's RAM by the kernel's account, and a model's size with a tenth on top."""

    def available(self) -> int:
        """``MemAvailable``."""
        return _meminfo("MemAvailable")

    def total(self) -> int:
        """``MemTotal``."""
        return _meminfo("MemTotal")

    def need(self, model: Model, settings: Settings) -> int:  # noqa: ARG002  (the size is all that is known here)
        """Weights and a tenth."""
        return model.size * 11 // 10


def _meminfo(key: str) -> int:
    text = Path("/proc/meminfo").read_text()
    return int(text.split(f"{key}:", 1)[1].split(None, 1)[0]) * 1024
