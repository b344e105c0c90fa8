"""One connection to a child: feeds what arrives to the native object of whichever answer it carries."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from blazar.relay.delivery import Delivery


class Keeper(Protocol):
    """Who takes a connection back."""

    def give_back(self, wire: Wire) -> None:
        """The answer is complete and the connection can carry another."""

    def forget(self, wire: Wire) -> None:
        """The connection is gone."""


class Wire(asyncio.Protocol):
    """A connection to a child. It carries one answer at a time; between answers it lies in its pool."""

    __slots__ = ("_delivery", "_keeper", "fresh", "open", "transport")

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._delivery: Delivery | None = None
        self.transport: asyncio.Transport | None = None
        self.open = False
        self.fresh = True

    def carry(self, delivery: Delivery, request: bytes | memoryview) -> None:
        """Send ``request``; what comes back goes to ``delivery``."""
        assert self.transport is not None
        self._delivery = delivery
        self.transport.write(request)

    def drop(self) -> None:
        """Close at once, so that the engine stops working for nobody."""
        self._delivery = None
        if self.transport is not None and self.open:
            self.open = False
            self.transport.abort()

    def pause(self) -> None:
        """Read no more: the client is slower than the engine."""
        if self.transport is not None and self.open:
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self.transport is not None and self.open:
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        self.transport = transport  # type: ignore[assignment]
        self.open = True

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it; this runs once for each piece that an engine sends."""
        delivery = self._delivery
        if delivery is None:
            # An engine that speaks unasked has lost the thread; nothing after it could be trusted.
            self.drop()
            return
        if delivery.arrived(data, monotonic_ns()):
            self._delivery = None
            if delivery.reusable:
                self.fresh = False
                self._keeper.give_back(self)
            else:
                self.drop()

    def eof_received(self) -> bool:
        """As asyncio calls it. False closes our side too."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """As asyncio calls it."""
        self.open = False
        self._keeper.forget(self)
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            delivery.lost(monotonic_ns())
