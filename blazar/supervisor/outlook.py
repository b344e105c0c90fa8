"""What would be, if a model were loaded; nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from blazar.engines.routing import Explanation
from blazar.hardware import bandwidth
from blazar.memory.fit import Machine
from blazar.memory.layouts import Layout
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

    def budget(self) -> dict[str, int]:
        """Bytes by pool that models may hold together."""
        return self._room.budget()

    async def machine(self) -> Machine:
        """What a model that is not here yet would find: GPUs as far as a build that is installed reaches them, or all
        of them where there is no build yet.
        """
        builds = await self._loader.builds()
        host = await asyncio.to_thread(bandwidth.main_memory)
        return self._room.machine(builds, host)

    async def explain(self, model: Model) -> Explanation:
        """Which build would run it and why, and what each other one lacks."""
        return await self._loader.explain(model)

    async def estimate(self, model: Model, reach: Mapping[str, int]) -> tuple[list[Layout], bool]:
        """Where ``model`` would go with its usual settings if it could have ``reach``, the best first, and whether what
        it takes was measured before. Raises what routing raises.
        """
        adapter, build = await self._loader.route(model)
        instance = self._loader.instance(model, adapter, build, Need(), modest=False)
        return self._room.layouts(instance, reach), instance.seen is not None
