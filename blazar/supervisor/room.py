"""Room in memory for one more model: look, decide, have others leave, look again.

Two models that do not fit together and are both asked for would be swapped with every request. So a model in use has
its turn, for some seconds or twice as long as it takes to load, before another that waits may send it away; and those
who wait for room have it in the order in which they came.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec

from blazar.engines.base import TOLD
from blazar.errors import InsufficientMemory, ModelTooLarge
from blazar.memory.fit import Machine
from blazar.memory.layouts import HOST, Device, Layout, layouts
from blazar.supervisor.memory import held
from blazar.supervisor.policy import Decision, Tenant, choose
from blazar.supervisor.state import State
from blazar.supervisor.wake import Wake

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blazar.clock import Clock
    from blazar.config.schema import Residency
    from blazar.engines.base import Build
    from blazar.hardware import Gpu
    from blazar.supervisor.instance import Instance
    from blazar.supervisor.memory import Memory

_LOOK_S = 0.5
# Somebody who is to stay for good goes only when nobody else can.
_LAST = 1 << 62
# Between two requests of one client passes less.
_PAUSE_S = 0.5


class House(Protocol):
    """Whose instances they are."""

    def tenants(self) -> tuple[Instance, ...]:
        """All of them."""

    def is_kept(self, instance: Instance) -> bool:
        """It is not sent away for another."""

    def leave(self, instance: Instance, reason: str) -> asyncio.Task[None]:
        """Have an idle one go."""

    def drain(self, instance: Instance, reason: str) -> bool:
        """Have it go when its last lease ends; nobody gets another meanwhile. ``False`` where it was to go anyway."""

    def resume(self, instance: Instance) -> None:
        """It need not go after all."""


class Room:
    """Who may load now. ``freed`` is to be fired whenever an instance becomes idle, ready, or goes."""

    def __init__(self, memory: Memory, settings: Residency, clock: Clock, house: House) -> None:
        self._memory = memory
        self._settings = settings
        self._budget = settings.memory_bytes
        self._clock = clock
        self._house = house
        # Those who wait for room, with the time at which they came.
        self._line: dict[Instance, float] = {}
        self.freed = Wake()

    async def make(self, instance: Instance, wait_s: float) -> None:
        """Return when ``instance`` may load, in ``instance.layout``; it is in state LOADING from that moment, and what
        it needs counts for everybody else.

        Raises ModelTooLarge, or InsufficientMemory after ``wait_s`` seconds, or at once when nobody here could leave.
        """
        self._line[instance] = self._now()
        drained: list[Instance] = []
        try:
            await self._wait(instance, self._now() + wait_s, drained)
        finally:
            del self._line[instance]
            if instance.state is not State.LOADING:
                for other in drained:
                    self._house.resume(other)
            self.freed.fire()

    async def _wait(self, instance: Instance, deadline: float, drained: list[Instance]) -> None:
        reason = f"made room for {instance.name}"
        while True:
            decision, layout = self._decide(instance)
            if decision.act == "never":
                raise ModelTooLarge(instance.name, decision.need, self._total(decision.pool), _where(decision))
            if instance.modest and decision.act != "load":
                decision = msgspec.structs.replace(decision, act="refuse", victims=())
            if self._is_turn(instance, decision):
                if decision.act == "load":
                    instance.place(layout)
                    return
                if decision.act == "evict":
                    await asyncio.wait([self._house.leave(other, reason) for other in self._named(decision.victims)])
                    continue
                if decision.act == "drain":
                    busy = [other for other in self._named(decision.victims) if not other.idle]
                    drained += [other for other in busy if self._house.drain(other, reason)]
            left = deadline - self._now()
            if decision.act == "refuse" or left <= 0:
                others = [(other.name, self._tenancy(other)[0]) for other in self._tenants(instance)]
                holders = [name for name, room in others if room.get(decision.pool)]
                raise InsufficientMemory(instance.name, decision.need, decision.free, holders, _where(decision))
            lack = max(0, decision.need - decision.free)
            instance.reason = f"waits for {lack} bytes of {'a GPU' if decision.pool else 'memory'}"
            await self.freed.wait(min(_LOOK_S, left))

    def _is_turn(self, instance: Instance, decision: Decision) -> bool:
        """Only the first in line may send others away. What fits beside all may load before it, but not for ever."""
        first, came = next(iter(self._line.items()))
        return first is instance or (decision.act == "load" and self._now() - came < self._settings.swap_s)

    def _decide(self, instance: Instance) -> tuple[Decision, Layout]:
        tenants = []
        held = promised = mapped = 0
        for other in self._tenants(instance):
            room, growth = self._tenancy(other)
            mapped += other.mapped_bytes()
            held, promised = held + room.get(HOST, 0), promised + growth.get(HOST, 0)
            tenants.append(
                Tenant(
                    name=other.name,
                    idle=other.idle and not other.draining,
                    stopping=other.state is State.STOPPING,
                    room=room,
                    growth=growth,
                    used=other.last_used_tick + (_LAST if other.keep_alive_s < 0 else 0),
                    kept=self._house.is_kept(other),
                    turn=other.state is State.LOADING or self._has_turn(other),
                )
            )
        # The kernel counts mapped weights as available, but whoever takes them makes a loaded model crawl.
        available = {HOST: self._memory.available() - mapped}
        if self._budget:
            available[HOST] = min(available[HOST], self._budget - held + promised)
        total = {HOST: self._total()}
        for gpu in self._memory.gpus():
            if not gpu.unified:
                available[gpu.id], total[gpu.id] = gpu.free, gpu.total
        if instance.child is not None:
            # It only slept: where it lies is settled.
            return choose([instance.layout], available, total, tenants)
        reach = {pool: _reach(pool, free, tenants) for pool, free in available.items()}
        return choose(self.layouts(instance, reach), available, total, tenants)

    def layouts(self, instance: Instance, reach: Mapping[str, int]) -> list[Layout]:
        """Where ``instance`` could go, if it could have ``reach`` of each pool."""
        wanted, build = instance.settings.gpu_layers, instance.build
        gpus = [gpu for gpu in self._memory.gpus() if wanted and build.reaches(gpu.vendor)]
        devices = _devices(gpus, reach)
        apart = not TOLD.keys().isdisjoint(build.backends)
        found = layouts(instance.pieces, devices, wanted, apart=apart, seen=instance.seen)
        if build.backends and not devices:
            # A GPU that only the engine knows: it puts there what it can, and the plan is for the worst case.
            found = [msgspec.structs.replace(layout, layers=wanted) for layout in found]
        return found

    def machine(self, builds: Sequence[Build], host_rate: int) -> Machine:
        """What a model that is not here yet would find, were all others to leave."""
        reach = self.budget()
        gpus = [gpu for gpu in self._memory.gpus() if not builds or any(build.reaches(gpu.vendor) for build in builds)]
        rates = {gpu.id: host_rate if gpu.unified and not gpu.bandwidth else gpu.bandwidth for gpu in gpus}
        return Machine(host=reach[HOST], devices=_devices(gpus, reach), rates={HOST: host_rate} | rates)

    def budget(self) -> dict[str, int]:
        """Bytes by pool that models may hold together: what is free and what they hold now, within the bound."""
        there = {HOST: self._memory.available()} | {gpu.id: gpu.free for gpu in self._memory.gpus() if not gpu.unified}
        for other in self._house.tenants():
            there[HOST] -= other.mapped_bytes()
            for pool, room in self._tenancy(other)[0].items():
                there[pool] = there.get(pool, 0) + room
        if self._budget:
            there[HOST] = min(there[HOST], self._budget)
        return there

    def _tenancy(self, other: Instance) -> tuple[dict[str, int], dict[str, int]]:
        return other.tenancy(held(self._memory, other))

    def _has_turn(self, other: Instance) -> bool:
        """It is in use and has not been for long."""
        now = self._now()
        if other.idle and now - other.used_at >= min(_PAUSE_S, self._settings.swap_s):
            return False
        turn_s = max(self._settings.swap_s, 2 * other.load_duration_ns / 1e9) if self._settings.swap_s else 0.0
        return now - other.ready_at < turn_s

    def _tenants(self, instance: Instance) -> list[Instance]:
        return [other for other in self._house.tenants() if other is not instance and other.state is not State.WAITING]

    def _named(self, names: tuple[str, ...]) -> list[Instance]:
        return [other for other in self._house.tenants() if other.name in names]

    def _total(self, pool: str = HOST) -> int:
        if pool:
            return next((gpu.total for gpu in self._memory.gpus() if gpu.id == pool), 0)
        total = self._memory.total()
        return min(total, self._budget) if self._budget else total

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9


def _reach(pool: str, free: int, tenants: list[Tenant]) -> int:
    """What could be had of a pool if all left who may be sent away."""
    promised = sum(tenant.growth.get(pool, 0) for tenant in tenants)
    return free - promised + sum(tenant.room.get(pool, 0) for tenant in tenants if not tenant.kept)


def _where(decision: Decision) -> str:
    return " on a GPU" if decision.pool else ""


def _devices(gpus: Sequence[Gpu], reach: Mapping[str, int]) -> tuple[Device, ...]:
    """The newer are ranked before the older."""
    return tuple(
        Device(id=gpu.id, reach=reach.get(gpu.id, 0), unified=gpu.unified, rank=-float(gpu.capability or 0))
        for gpu in gpus
    )
