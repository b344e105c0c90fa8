"""How much memory there is, how much a model will take: what the fleet asks before it loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from blazar import hardware
from blazar.errors import BadModelFile
from blazar.memory.footprint import Pieces, pieces

if TYPE_CHECKING:
    from blazar.engines.base import Settings
    from blazar.hardware import Gpu
    from blazar.models.catalogue import Model
    from blazar.models.header import Header
    from blazar.supervisor.instance import Instance


class Memory(Protocol):
    """The view of memory that the fleet plans with. Bytes; read anew at each call."""

    def available(self) -> int:
        """What can be taken of main memory without taking it from anyone."""

    def total(self) -> int:
        """What there is of it in all."""

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs with what is free of each."""

    def of(self, pid: int) -> Mapping[str, int] | None:
        """What a process has of each GPU, by their ids; ``None`` where nobody says."""

    def pieces(self, model: Model, settings: Settings) -> Pieces:
        """What ``model`` will take with ``settings``, wherever it goes."""


def held(memory: Memory, instance: Instance) -> Mapping[str, int] | None:
    """What an instance has of each GPU, where that is known. Of one that uses none, nobody is asked."""
    return memory.of(instance.pid) if instance.layout.devices and instance.pid else None


class HostMemory:
    """The RAM of the machine within its control groups, its GPUs, and models by what their headers say."""

    def __init__(self, header: Callable[[Model], Header]) -> None:
        self._header = header

    def available(self) -> int:
        """What can be taken now."""
        return hardware.available_memory()

    def total(self) -> int:
        """What there is, or what the control group grants."""
        return hardware.total_memory()

    def gpus(self) -> tuple[Gpu, ...]:
        """Those that this process may see."""
        return hardware.gpus()

    def of(self, pid: int) -> Mapping[str, int] | None:
        """As the driver counts it. In a container it may know the process by another number: that is no answer."""
        found = hardware.gpu_memory_of(pid)
        return found if found and any(found.values()) else None

    def pieces(self, model: Model, settings: Settings) -> Pieces:
        """Weights, cache of all slots, buffers and process; the size and a tenth where the header cannot be read."""
        beside = [path for path in (settings.projector, *(path for path, _ in settings.adapters)) if path]
        try:
            projector = sum(Path(path).stat().st_size for path in beside)
        except OSError:
            projector = 0
        try:
            header = self._header(model)
            return pieces(header, settings.context, settings.slots, settings.cache_type, projector=projector)
        except BadModelFile:
            # The engine will say what is wrong with it, if anything is.
            return Pieces(host=model.size * 11 // 10 + projector, projector=projector)
