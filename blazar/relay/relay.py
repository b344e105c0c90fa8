"""All connections to all children: pooled, watched, and closed with the child they lead to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import TYPE_CHECKING

from blazar.errors import GatewayTimeout, NoConnection
from blazar.relay.delivery import Answer, Delivery, Reason
from blazar.relay.wire import Wire

if TYPE_CHECKING:
    from blazar.config.schema import Relay as Settings
    from blazar.relay.endpoint import Endpoint, Watcher

_IDLE_PER_CHILD = 64
_TICK_S = 0.5
_SILENT_NS = 5 * 10**9


class Pool:
    """The connections to one child that carry nothing now."""

    __slots__ = ("_idle", "asked_ns", "closed", "endpoint", "heard_ns")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        # When the child last said something, and when it was first asked for more after that.
        self.heard_ns = self.asked_ns = 0
        self.closed = False
        self._idle: list[Wire] = []

    def take(self) -> Wire | None:
        """The one that was used last: it is the least likely to have been closed by the engine."""
        while self._idle:
            wire = self._idle.pop()
            if wire.open:
                return wire
        return None

    def give_back(self, wire: Wire) -> None:
        """Keep it for the next request, unless there are enough."""
        if self.closed or len(self._idle) >= _IDLE_PER_CHILD:
            wire.drop()
        else:
            self._idle.append(wire)

    def forget(self, wire: Wire) -> None:
        """The engine closed it."""
        if wire in self._idle:
            self._idle.remove(wire)

    def asked(self, now_ns: int) -> None:
        """Somebody waits for the child now."""
        if self.asked_ns <= self.heard_ns:
            self.asked_ns = now_ns

    def close(self) -> None:
        """The child is gone or about to go."""
        self.closed = True
        for wire in self._idle:
            wire.drop()
        self._idle.clear()


class Relay:
    """Opens answers. One coarse ticker watches every deadline, so that an answer costs no timer."""

    def __init__(self, settings: Settings, watcher: Watcher) -> None:
        self._settings = settings
        self._watcher = watcher
        self._pools: dict[tuple[str, int], Pool] = {}
        self._live: dict[Delivery, Pool] = {}
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch deadlines; needs a running loop."""
        self._ticker = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def stop(self, reason: Reason) -> None:
        """End every answer with ``reason`` and close every connection."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        now = monotonic_ns()
        for delivery in tuple(self._live):
            delivery.end_with(reason, now)
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    @property
    def live(self) -> int:
        """Answers that are on their way."""
        return len(self._live)

    async def open(self, endpoint: Endpoint, answer: Answer, explain: Callable[[], Awaitable[Reason]]) -> Delivery:
        """Send ``answer.request`` to the child. Close the delivery with :meth:`close`.

        Raises NoConnection where the child takes no connection, GatewayTimeout where it does not do so in time.
        """
        pool = self._pools.get((endpoint.name, endpoint.generation))
        if pool is None:
            pool = self._pools[endpoint.name, endpoint.generation] = Pool(endpoint)

        async def again(delivery: Delivery) -> None:
            delivery.ride(await self._connect(pool), monotonic_ns())

        delivery = Delivery(answer, high=self._settings.buffer_bytes, explain=explain, again=again)
        wire = pool.take() or await self._connect(pool)
        self._live[delivery] = pool
        now = monotonic_ns()
        pool.asked(now)
        delivery.ride(wire, now)
        return delivery

    def close(self, delivery: Delivery) -> None:
        """The client has all of it, or has left."""
        pool = self._live.pop(delivery, None)
        if pool is not None and delivery.heard:
            pool.heard_ns = max(pool.heard_ns, delivery.last_ns)
        delivery.abandon()

    def child_left(self, name: str, generation: int) -> None:
        """Close what leads to a child that is gone."""
        pool = self._pools.pop((name, generation), None)
        if pool is not None:
            pool.close()

    async def _connect(self, pool: Pool) -> Wire:
        loop = asyncio.get_running_loop()
        endpoint = pool.endpoint
        try:
            async with asyncio.timeout(self._settings.connect_s):
                if endpoint.unix:
                    _, wire = await loop.create_unix_connection(lambda: Wire(pool), endpoint.unix)
                else:
                    _, wire = await loop.create_connection(lambda: Wire(pool), endpoint.host, endpoint.port)
        except TimeoutError:
            raise GatewayTimeout(endpoint.name, self._settings.connect_s, "sign of taking the connection") from None
        except OSError as error:
            # What is kept from better days leads to the same child.
            self.child_left(endpoint.name, endpoint.generation)
            self._watcher.refused(endpoint.name, endpoint.generation)
            why = error.strerror or str(error)
            raise NoConnection(f"The engine that runs '{endpoint.name}' takes no connection: {why}.") from error
        return wire

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        now = monotonic_ns()
        waited_for: set[Pool] = set()
        for delivery, pool in tuple(self._live.items()):
            if delivery.heard:
                pool.heard_ns = max(pool.heard_ns, delivery.last_ns)
            if delivery.ended or delivery.held_back:
                continue
            waited_for.add(pool)
            limit = self._settings.idle_s if delivery.heard else self._settings.head_s
            if now - delivery.last_ns > limit * 1e9:
                what = "further byte" if delivery.heard else "answer"
                late = GatewayTimeout(pool.endpoint.name, limit, what)
                delivery.end_with(Reason("timeout", late.code, late.message), now)
        for pool in waited_for:
            pool.asked(now)
            if now - max(pool.asked_ns, pool.heard_ns) > _SILENT_NS:
                self._watcher.silent(pool.endpoint.name, pool.endpoint.generation)
