"""The asynchronous face of the native queue: one future for each request that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from blazar import _native
from blazar.errors import AllSlotsBusy

if TYPE_CHECKING:
    from blazar.clock import Clock
    from blazar.config.schema import Admission

HIGH, NORMAL, LOW = 0, 1, 2
# The lane of what is neither an agent's turn nor long work; requests for text say theirs.
CHAT = 1


class Share(NamedTuple):
    """Whose a request is (0 where there are no keys), the key's weight, and what it may cost, in tokens."""

    key: int = 0
    weight: int = 1
    cost: int = 1


_ALONE = Share()


class Line:
    """The queue of one instance and the futures of those who wait in it."""

    __slots__ = ("name", "queue", "slots", "turn_s", "waiters")

    def __init__(self, name: str, slots: int, bound: int) -> None:
        self.name = name
        self.slots = slots
        self.queue = _native.Queue(slots, bound)
        # How long a turn lately took, in seconds; the newest tenth counts as much as all before.
        self.turn_s = 0.0
        self.waiters: dict[int, asyncio.Future[None]] = {}

    def took(self, seconds: float) -> None:
        """A turn is over."""
        self.turn_s = seconds if not self.turn_s else self.turn_s + (seconds - self.turn_s) / 10

    def wait_s(self, before: int) -> float:
        """Seconds until somebody with so many before him has a place, if turns stay as long as they are."""
        return (before + 1) * self.turn_s / self.slots

    def refuse(self, ticket: int, error: Exception) -> None:
        """Somebody with more of a claim came: tell who waited in his place."""
        waiter = self.waiters.pop(ticket, None)
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def leave(self, ticket: int, used: int | None) -> None:
        """Free the place, or give up waiting; wakes whoever is next."""
        self.waiters.pop(ticket, None)
        woken = self.queue.leave(ticket, used)
        if woken is not None:
            waiter = self.waiters.pop(woken, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


class Place:
    """A request's turn: ``async with``, or ``await enter()`` and then ``leave()``, which may be called twice."""

    __slots__ = ("_deadline_ns", "_gate", "_held_ns", "_lane", "_line", "_priority", "_share", "_ticket", "waited_ns")

    def __init__(self, gate: Gate, line: Line, priority: int, lane: int, deadline_ns: int | None, share: Share) -> None:
        self._gate = gate
        self._line = line
        self._priority = priority
        self._lane = lane
        self._deadline_ns = deadline_ns
        self._share = share
        self._ticket: int | None = None
        self._held_ns = 0
        self.waited_ns = 0

    @property
    def ahead(self) -> tuple[int, float] | None:
        """How many stand before it now, and the seconds that this is likely to take; ``None`` when it does not wait."""
        before = None if self._ticket is None else self._line.queue.position(self._ticket)
        return None if before is None else (before, self._line.wait_s(before))

    async def enter(self) -> None:
        """Wait for a place. Raises AllSlotsBusy at once when the list is full, or when the wait reaches its bound."""
        clock, line = self._gate.clock, self._line
        came = clock.monotonic_ns()
        entry = line.queue.enter(came, self._priority, self._lane, self._deadline_ns, *self._share)
        if entry is None:
            share = self._share
            gone = line.queue.crowd_out(self._priority, share.key, share.weight)
            if gone is not None:
                line.refuse(gone, self._busy())
                entry = line.queue.enter(came, self._priority, self._lane, self._deadline_ns, *share)
        if entry is None:
            raise self._busy()
        self._ticket, granted = entry
        if granted:
            self._held_ns = came
            return
        waiter = line.waiters[self._ticket] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._bound_s(came)):
                await waiter
        except TimeoutError:
            self.leave()
            raise self._busy() from None
        except BaseException:
            self.leave()
            raise
        self._held_ns = clock.monotonic_ns()
        self.waited_ns = self._held_ns - came

    def leave(self, used: int | None = None) -> None:
        """Give the place, or the hope for it, back; ``used`` are the tokens that it came to."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            if self._held_ns:
                self._line.took((self._gate.clock.monotonic_ns() - self._held_ns) / 1e9)
            self._line.leave(ticket, used)

    async def __aenter__(self) -> Place:
        await self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def _bound_s(self, came_ns: int) -> float:
        """An explicit deadline is strict; without one the configured bound holds."""
        bound = self._gate.settings.wait_s
        return bound if self._deadline_ns is None else max(0.0, min(bound, (self._deadline_ns - came_ns) / 1e9))

    def _busy(self) -> AllSlotsBusy:
        line = self._line
        retry_s = max(1.0, line.wait_s(line.queue.waiting))
        return AllSlotsBusy(line.name, line.slots, line.queue.waiting, retry_after=retry_s)


class Gate:
    """The lines of all instances."""

    def __init__(self, settings: Admission, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self._lines: dict[Hashable, Line] = {}

    def place(
        self,
        instance: Hashable,
        name: str,
        slots: int,
        *,
        priority: int = NORMAL,
        lane: int = CHAT,
        deadline_ns: int | None = None,
        share: Share = _ALONE,
    ) -> Place:
        """A turn at ``instance``, which decodes ``slots`` sequences at once. ``deadline_ns`` is monotonic."""
        line = self._lines.get(instance)
        if line is None:
            line = self._lines[instance] = Line(name, slots, self.settings.queue_per_model)
        return Place(self, line, priority, lane, deadline_ns, share)

    def counts(self, instance: Hashable) -> tuple[int, int]:
        """How many hold a place and how many wait."""
        line = self._lines.get(instance)
        return (line.queue.running, line.queue.waiting) if line else (0, 0)

    def close(self, error: Exception) -> None:
        """Nobody gets a turn any more; whoever waits learns why."""
        for instance in tuple(self._lines):
            self.drop(instance, error)

    def drop(self, instance: Hashable, error: Exception) -> None:
        """The instance is gone: whoever waits for it learns why."""
        line = self._lines.pop(instance, None)
        if line is not None:
            for waiter in line.waiters.values():
                if not waiter.done():
                    waiter.set_exception(error)
            line.waiters.clear()
