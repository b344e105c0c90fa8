"""What would be, if a model were loaded; nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.supervisor.settings import Need

if TYPE_CHECKING:
    from blazar.models.catalogue import Model
    from blazar.supervisor.loader import Loader
    from blazar.supervisor.room import Room


class Outlook:
    """Asks those who would load."""

    def __init__(self, loader: Loader, room: Room) -> None:
        self._loader = loader
        self._room = room

    def budget(self) -> int:
        """Bytes that models may hold together."""
        return self._room.budget()

    async def estimate(self, model: Model) -> tuple[int, bool]:
        """Bytes that ``model`` would take with its usual settings, and whether they were measured before. Raises what
        routing raises.
        """
        adapter, build = await self._loader.route(model)
        instance = self._loader.instance(model, adapter, build, Need(), modest=False)
        return instance.need, instance.measured
