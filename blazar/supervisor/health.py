"""Whether those who are ready still serve: judged by what they answer and what they do, since a busy one is not dead.

A child that takes nobody any more may end what it has begun and is then replaced; one that is silent, uses no processor
and does not answer is replaced at once; one that only fails, or has grown, when nobody uses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from blazar.supervisor import probe
from blazar.supervisor.effects import Stat
from blazar.supervisor.state import State

if TYPE_CHECKING:
    from blazar.clock import Clock
    from blazar.config.schema import Health as Settings
    from blazar.supervisor.instance import Instance

_log = logging.getLogger(__name__)
_LOOK_S = 5.0
_ANSWER_S = 10.0
# A full backlog, or a moment of a busy machine, is no refusal.
_TRIES, _PAUSE_S = 3, 0.2
# A thread that naps and polls is no work; one that works a twentieth of the time is.
_LEAST_CPU = 0.05
# One that works all the while and says nothing for this many times the usual bound is asked too.
_SPINS = 20


class House(Protocol):
    """Whose instances they are."""

    def tenants(self) -> tuple[Instance, ...]:
        """All of them."""

    def drain(self, instance: Instance, reason: str) -> bool:
        """Have it go when its last lease ends; nobody gets another meanwhile."""

    def resume(self, instance: Instance) -> None:
        """It need not go after all."""

    def replace(self, instance: Instance, how: str) -> None:
        """Kill its child; whoever it owed something hears that the engine ``how``."""


class _Watch(msgspec.Struct):
    """A silence: monotonic seconds of its begin, of the last look, and of the last work that was seen."""

    since: float
    looked: float
    worked: float
    cpu_s: float


class Health:
    """``refused``, ``silent`` and ``answered`` tell it what happened; it may be told as often as one likes."""

    def __init__(self, settings: Settings, clock: Clock, house: House) -> None:
        self._settings = settings
        self._clock = clock
        self._house = house
        self._watches: dict[int, _Watch] = {}
        self._looks: dict[int, asyncio.Task[None]] = {}
        # Models that failed until they were replaced, and have not answered well since.
        self._blamed: set[str] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to look at sizes; needs a running loop."""
        self._ticker = asyncio.get_running_loop().call_later(_LOOK_S, self._tick)

    async def stop(self) -> None:
        """Look no more."""
        self._closed = True
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def refused(self, name: str, generation: int) -> None:
        """A child took no connection, or closed one in the middle. Nobody else is sent there while it is looked at."""
        instance = self._ready(name, generation)
        # Whoever looks already knocks by himself; a second one that is held back would be let go by nobody.
        if instance is not None and generation not in self._looks:
            held = self._house.drain(instance, "takes no connection")
            self._look(instance, self._knock(instance, held=held))

    def silent(self, name: str, generation: int) -> None:
        """Somebody waits for a child's answer and nobody has had a byte from it for some seconds."""
        instance = self._ready(name, generation)
        if instance is None or generation in self._looks:
            return
        now = self._now()
        watch = self._watches.get(generation)
        if watch is None or now - watch.looked > 3 * _LOOK_S:
            watch = self._watches[generation] = _Watch(now, now, now, _cpu_s(instance))
        elif now - watch.looked < _LOOK_S:
            return
        self._look(instance, self._listen(instance, watch))

    def answered(self, instance: Instance, *, well: bool) -> None:
        """An answer is complete, or the engine failed at it by a fault of its own."""
        if well:
            instance.failures = 0
            self._blamed.discard(instance.name)
            return
        instance.failures += 1
        if instance.failures < self._settings.errors or not self._settings.errors or instance.name in self._blamed:
            return
        if self._house.drain(instance, f"failed {instance.failures} times in a row"):
            # If the next one fails as well, it is not the process that is at fault, and replacing it would help nobody.
            self._blamed.add(instance.name)
            _log.warning("the engine that runs '%s' failed %d times in a row", instance.name, instance.failures)

    def forget(self, instance: Instance) -> None:
        """It is gone."""
        self._watches.pop(instance.generation, None)

    async def _knock(self, instance: Instance, *, held: bool) -> None:
        """Whether it takes connections after all; if not, it has some time to end what it has begun."""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_S)
            if await probe.listens(instance.address, _ANSWER_S):
                if held:
                    self._house.resume(instance)
                return
        _log.warning("the engine that runs '%s' takes no connection any more", instance.name)
        self._house.drain(instance, "takes no connection any more")
        try:
            async with asyncio.timeout(self._settings.finish_s):
                await instance.gone.wait()
        except TimeoutError:
            self._house.replace(instance, "took no connection any more")

    async def _listen(self, instance: Instance, watch: _Watch) -> None:
        """Whether a silent one is at work."""
        now, cpu_s = self._now(), _cpu_s(instance)
        if cpu_s - watch.cpu_s > _LEAST_CPU * (now - watch.looked):
            watch.worked = now
        watch.looked, watch.cpu_s = now, cpu_s
        bound_s = self._settings.silent_s
        if not await probe.listens(instance.address, _ANSWER_S):
            await self._knock(instance, held=False)
            return
        if now - watch.worked < bound_s and now - watch.since < _SPINS * bound_s:
            return
        if await probe.get(instance.address, instance.adapter.vital, instance.secret, _ANSWER_S) is None:
            how = f"said nothing for {now - watch.since + _LOOK_S:.0f} s and does not answer"
            _log.warning("the engine that runs '%s' %s", instance.name, how)
            self._house.replace(instance, how)

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(_LOOK_S, self._tick)
        most = self._settings.growth_bytes
        for instance in self._house.tenants():
            if instance.state is not State.READY or not most:
                continue
            grown = instance.resident_bytes - max(instance.layout.host, instance.began_bytes)
            if grown > most and self._house.drain(instance, f"has grown by {grown / 1e9:.1f} GB"):
                _log.warning("the engine that runs '%s' has grown by %.1f GB", instance.name, grown / 1e9)

    def _ready(self, name: str, generation: int) -> Instance | None:
        for instance in self._house.tenants():
            if instance.name == name and instance.generation == generation and instance.state is State.READY:
                return instance
        return None

    def _look(self, instance: Instance, how: Coroutine[Any, Any, None]) -> None:
        """One look at a time at each."""
        if self._closed or instance.generation in self._looks:
            how.close()
            return
        look = self._looks[instance.generation] = asyncio.get_running_loop().create_task(how)
        look.add_done_callback(lambda _: self._looks.pop(instance.generation, None))

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9


def _cpu_s(instance: Instance) -> float:
    stat = Stat.read(instance.pid)
    return stat.cpu_s if stat is not None else 0.0
