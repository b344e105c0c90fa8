"""How much memory there is, how much a model will take: what the fleet asks before it loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from blazar import hardware
from blazar.errors import BadModelFile
from blazar.memory.footprint import footprint

if TYPE_CHECKING:
    from blazar.engines.base import Settings
    from blazar.models.catalogue import Model
    from blazar.models.header import Header


class Memory(Protocol):
    """The view of memory that the fleet plans with. Bytes; read anew at each call."""

    def available(self) -> int:
        """What can be taken without taking it from anyone."""

    def total(self) -> int:
        """What there is in all."""

    def need(self, model: Model, settings: Settings) -> int:
        """What ``model`` will take with ``settings``."""


class HostMemory:
    """The RAM of the machine within its control groups, and models by what their headers say."""

    def __init__(self, header: Callable[[Model], Header]) -> None:
        self._header = header

    def available(self) -> int:
        """What can be taken now."""
        return hardware.available_memory()

    def total(self) -> int:
        """What there is, or what the control group grants."""
        return hardware.total_memory()

    def need(self, model: Model, settings: Settings) -> int:
        """Weights, cache of all slots, buffers and process; the size and a tenth where the header cannot be read."""
        try:
            return footprint(
                self._header(model), settings.context, settings.slots, cache_type=settings.cache_type
            ).total
        except BadModelFile:
            # The engine will say what is wrong with it, if anything is.
            return model.size * 11 // 10
