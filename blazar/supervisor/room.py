"""Room in memory for one more model: look, decide, have others leave, look again.

Two models that do not fit together and are both asked for would be swapped with every request. So a model in use has
its turn, for some seconds or twice as long as it takes to load, before another that waits may send it away; and those
who wait for room have it in the order in which they came.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from blazar.errors import InsufficientMemory, ModelTooLarge
from blazar.supervisor.policy import Decision, Tenant, decide
from blazar.supervisor.state import State
from blazar.supervisor.wake import Wake

if TYPE_CHECKING:
    from blazar.clock import Clock
    from blazar.config.schema import Residency
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
        """Return when ``instance``, which needs ``instance.need`` bytes, may load; it is in state LOADING from that
        moment, and its need counts for everybody else.

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
            decision = self._decide(instance)
            if decision.act == "never":
                raise ModelTooLarge(instance.name, instance.need, self._total())
            if instance.modest and decision.act != "load":
                decision = Decision("refuse", free=decision.free)
            if self._is_turn(instance, decision):
                if decision.act == "load":
                    instance.reason = ""
                    instance.to(State.LOADING)
                    return
                if decision.act == "evict":
                    await asyncio.wait([self._house.leave(other, reason) for other in self._named(decision.victims)])
                    continue
                if decision.act == "drain":
                    busy = [other for other in self._named(decision.victims) if not other.idle]
                    drained += [other for other in busy if self._house.drain(other, reason)]
            left = deadline - self._now()
            if decision.act == "refuse" or left <= 0:
                holders = [other.name for other in self._tenants(instance)]
                raise InsufficientMemory(instance.name, instance.need, decision.free, holders)
            instance.reason = f"waits for {max(0, instance.need - decision.free)} bytes of memory"
            await self.freed.wait(min(_LOOK_S, left))

    def _is_turn(self, instance: Instance, decision: Decision) -> bool:
        """Only the first in line may send others away. What fits beside all may load before it, but not for ever."""
        first, came = next(iter(self._line.items()))
        return first is instance or (decision.act == "load" and self._now() - came < self._settings.swap_s)

    def _decide(self, instance: Instance) -> Decision:
        tenants = []
        held = promised = mapped = 0
        for other in self._tenants(instance):
            room, growth = other.tenancy()
            held, promised, mapped = held + room, promised + growth, mapped + other.mapped_bytes()
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
        available = self._memory.available() - mapped
        if self._budget:
            available = min(available, self._budget - held + promised)
        return decide(instance.need, available, self._total(), tenants)

    def budget(self) -> int:
        """Bytes that models may hold together: what is free and what they hold now, within the bound."""
        held = [(other.tenancy()[0], other.mapped_bytes()) for other in self._house.tenants()]
        there = self._memory.available() + sum(room - mapped for room, mapped in held)
        return min(there, self._budget) if self._budget else there

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

    def _total(self) -> int:
        total = self._memory.total()
        return min(total, self._budget) if self._budget else total

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9
