"""What a load takes from outside the fleet: the build, the memory, the child, and what was measured at the end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from blazar.engines.base import Adapter, Build
from blazar.engines.install.builds import installed
from blazar.engines.routing import choose
from blazar.store.measures import MeasureRow
from blazar.supervisor import effects, ports, sweep
from blazar.supervisor.files import log_name
from blazar.supervisor.process import Child

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Engine
    from blazar.models.catalogue import Model
    from blazar.store import Store
    from blazar.supervisor.instance import Instance
    from blazar.supervisor.memory import Memory

_log = logging.getLogger(__name__)


class Loader:
    """Gives the fleet what it needs to load; keeps no instance."""

    def __init__(
        self, options: Engine, paths: Paths, store: Store, memory: Memory, adapters: Sequence[Adapter]
    ) -> None:
        self._options = options
        self._paths = paths
        self._store = store
        self._memory = memory
        self._adapters = adapters

    async def route(self, model: Model) -> tuple[Adapter, Build]:
        """The build that runs ``model``, of those installed now. Raises ModelUnsupportedEngine, ConfigError."""
        builds = await asyncio.to_thread(installed, self._options, self._paths, self._store.builds)
        return choose(model, builds, self._adapters, self._options.llamacpp_channel)

    def need(self, instance: Instance) -> int:
        """Bytes: what the planner says, or what it took the last time when it ran like this, if that was more."""
        settings = instance.settings
        planned = self._memory.need(instance.model, settings)
        row = self._store.measures.get(instance.name, instance.kind, instance.build.tag)
        if row is not None and (row.context, row.slots) == (settings.context, settings.slots):
            return max(planned, row.resident_bytes + settings.prompt_cache)
        return planned

    async def start(self, instance: Instance, ended: Callable[[], None]) -> None:
        """Start the child of ``instance`` and record it under ``run/``. ``ended`` is called when it is reaped.

        Raises OSError when the system cannot start one.
        """
        run = self._paths.run
        instance.secret = secrets.token_urlsafe(24)
        plan = instance.adapter.launch(
            instance.model,
            instance.build,
            instance.settings,
            address=ports.address(run, instance.token),
            secret=instance.secret,
            scratch=effects.private_folder(run / "home"),
        )
        if plan.dropped:
            _log.warning("%s does not know %s", instance.build.path, ", ".join(plan.dropped))
        instance.alias, instance.address = plan.alias, plan.address
        log = self._paths.log / log_name(instance.name)
        instance.child = child = await Child.start(plan, log=log, owner=self._paths.data, ended=ended)
        stat = effects.Stat.read(child.pid)
        sweep.Pidfile(
            pid=child.pid,
            start=stat.start if stat is not None else 0,
            model=instance.name,
            secret=instance.secret,
            unix=plan.address.unix,
        ).write(run, instance.token)

    def measure(self, instance: Instance) -> None:
        """Keep what the load took, for the next one."""
        self._store.measures.put(
            MeasureRow(
                model=instance.name,
                kind=instance.kind,
                tag=instance.build.tag,
                context=instance.settings.context,
                slots=instance.settings.slots,
                resident_bytes=instance.resident_bytes,
                load_seconds=instance.load_duration_ns / 1e9,
                measured_ns=instance.loaded_ns,
            )
        )

    def clear(self, instance: Instance) -> None:
        """Remove what ``start`` left under ``run/``."""
        sweep.forget(self._paths.run, instance.token)
