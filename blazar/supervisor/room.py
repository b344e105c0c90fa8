"""Room in memory for one more model: look, decide, have others leave, look again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from blazar.errors import InsufficientMemory, ModelTooLarge
from blazar.supervisor.policy import Decision, Tenant, decide
from blazar.supervisor.state import State
from blazar.supervisor.wake import Wake

if TYPE_CHECKING:
    from blazar.supervisor.instance import Instance
    from blazar.supervisor.memory import Memory

_LOOK_S = 0.5
# Somebody who is to stay for good goes only when nobody else can.
_LAST = 1 << 62


class Room:
    """Who may load now. ``freed`` is to be fired whenever an instance becomes idle, ready, or goes."""

    def __init__(
        self,
        memory: Memory,
        budget: int,
        others: Callable[[], Iterable[Instance]],
        leave: Callable[[Instance, str], asyncio.Task[None]],
    ) -> None:
        self._memory = memory
        self._budget = budget
        self._others = others
        self._leave = leave
        self.freed = Wake()

    async def make(self, instance: Instance, wait_s: float) -> None:
        """Return when ``instance``, which needs ``instance.need`` bytes, may load; it is in state LOADING from that moment,
        and its need is taken into account for everybody else.

        Raises ModelTooLarge, or InsufficientMemory after ``wait_s`` seconds, or at once when nobody here could leave.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            decision = self._decide(instance)
            if decision.act == "load":
                instance.reason = ""
                instance.to(State.LOADING)
                return
            if decision.act == "never":
                raise ModelTooLarge(instance.name, instance.need, self._total())
            if decision.act == "evict":
                leaving = [
                    self._leave(other, f"made room for {instance.name}") for other in self._named(decision.victims)
                ]
                await asyncio.wait(leaving)
                continue
            left = deadline - loop.time()
            if decision.act == "refuse" or left <= 0:
                holders = [other.name for other in self._tenants(instance)]
                raise InsufficientMemory(instance.name, instance.need, decision.free, holders)
            instance.reason = f"waits for {instance.need - decision.free} bytes of memory"
            await self.freed.wait(min(_LOOK_S, left))

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
                )
            )
        # The kernel counts mapped weights as available, but whoever takes them makes a loaded model crawl.
        available = self._memory.available() - mapped
        if self._budget:
            available = min(available, self._budget - held + promised)
        return decide(instance.need, available, self._total(), tenants)

    def _tenants(self, instance: Instance) -> list[Instance]:
        return [other for other in self._others() if other is not instance and other.state is not State.WAITING]

    def _named(self, names: tuple[str, ...]) -> list[Instance]:
        return [other for other in self._others() if other.name in names]

    def _total(self) -> int:
        total = self._memory.total()
        return min(total, self._budget) if self._budget else total
