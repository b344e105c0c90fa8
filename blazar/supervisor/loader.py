"""What a load takes from outside the fleet: the build, the memory, the child, and what was measured at the end."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from blazar import hardware
from blazar.engines.base import Adapter, Build
from blazar.engines.install.builds import installed
from blazar.engines.routing import Explanation, choose, explain
from blazar.memory.layouts import Seen
from blazar.store.measures import MeasureRow
from blazar.supervisor import effects, ports, sweep
from blazar.supervisor.files import log_name
from blazar.supervisor.instance import Instance
from blazar.supervisor.loading import until_awake, until_ready
from blazar.supervisor.memory import held
from blazar.supervisor.process import Child
from blazar.supervisor.seats import Seats
from blazar.supervisor.settings import Need, settings_for
from blazar.supervisor.stay import LONGEST_S

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Config
    from blazar.models.catalogue import Model
    from blazar.store import Store
    from blazar.supervisor.bank import Bank
    from blazar.supervisor.memory import Memory

_log = logging.getLogger(__name__)
_GPU_SLEEP_S = 300.0


class Loader:
    """Gives the fleet what it needs to load; keeps no instance."""

    def __init__(
        self, config: Config, paths: Paths, store: Store, memory: Memory, adapters: Sequence[Adapter], bank: Bank
    ) -> None:
        self._options = config.engine
        self._residency = config.residency
        self._paths = paths
        self._store = store
        self._memory = memory
        self._adapters = adapters
        self._bank = bank
        self._cores = hardware.usable_cores()
        self._generations = itertools.count(1)

    async def builds(self) -> tuple[Build, ...]:
        """Those installed now. Raises ConfigError."""
        return await asyncio.to_thread(installed, self._options, self._paths, self._store.builds)

    async def route(self, model: Model) -> tuple[Adapter, Build]:
        """The build that runs ``model``, of those installed now. Raises ModelUnsupportedEngine, ConfigError."""
        return choose(model, await self.builds(), self._adapters, self._options.llamacpp_channel)

    async def explain(self, model: Model) -> Explanation:
        """Which build runs ``model`` and why, and what each other one lacks. Raises ConfigError."""
        return explain(model, await self.builds(), self._adapters, self._options.llamacpp_channel)

    def instance(self, model: Model, adapter: Adapter, build: Build, need: Need, *, modest: bool) -> Instance:
        """One that waits for its load."""
        gpu = bool(build.backends and self._options.gpu_layers)
        sleep_s = self._residency.sleep_s
        if sleep_s < 0:
            # On a CPU, reading a conversation again costs more than the memory is worth.
            sleep_s = _GPU_SLEEP_S if gpu else 0
        if model.name in self._residency.pinned:
            sleep_s = 0
        settings = settings_for(self._options, model, need, self._cores, gpu=gpu, sleep_s=sleep_s)
        settings = self._bank.given(model, build, settings)
        instance = Instance(model, adapter, build, settings, next(self._generations), secrets.token_hex(6))
        instance.keep_alive_s = min(self._residency.keep_alive_s, LONGEST_S)
        instance.modest = modest
        instance.pieces = self._memory.pieces(model, settings)
        row = self._store.measures.get(instance.name, instance.kind, build.tag)
        instance.usual_s = row.load_seconds if row is not None else 0.0
        if row is not None and (row.context, row.slots) == (settings.context, settings.slots):
            instance.seen = Seen(row.gpu_layers, row.resident_bytes + settings.prompt_cache, row.device_bytes)
        return instance

    async def bring(
        self, instance: Instance, ended: Callable[[], None], progressed: Callable[[float | None], None]
    ) -> None:
        """Return when ``instance`` answers with what it had when it left or slept, or when its child has ended.

        Raises OSError when the system cannot start one, ModelLoadTimeout when it does not move any more.
        """
        stall_s = self._residency.load_stall_s
        if instance.child is not None:
            await until_awake(instance, stall_s)
        else:
            await self._start(instance, ended)
            await until_ready(instance, stall_s, progressed)
        instance.seats = Seats(instance.slots)
        if instance.child is not None and instance.child.code is None:
            await self._bank.back(instance)

    async def _start(self, instance: Instance, ended: Callable[[], None]) -> None:
        """Start the child of ``instance`` and record it under ``run/``. ``ended`` is called when it is reaped.

        Raises OSError when the system cannot start one.
        """
        run = self._paths.run
        self._bank.open(instance)
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
                gpu_layers=instance.layout.layers,
                device_bytes=instance.on_gpus(held(self._memory, instance)),
            )
        )

    def clear(self, instance: Instance) -> None:
        """Remove what ``start`` left under ``run/``."""
        sweep.forget(self._paths.run, instance.token)
