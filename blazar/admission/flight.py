"""Single flight: who asks what is being answered already waits for that answer, instead of having it made again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol, TypeVar

from blazar.errors import AllSlotsBusy, BlazarError

T = TypeVar("T")


class Flyer(Protocol):
    """Who asks."""

    trace: str
    shares: str
    """The trace of the request whose answer it waits for or has, or nothing."""

    @property
    def refusal(self) -> BlazarError | None:
        """Why somebody ended it."""


class _Flight:
    """An answer that is being made for the first who asked. ``landed`` says whether there is one for the others."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        self.over = asyncio.Event()
        self.landed = False
        self.outcome: Any = None
        self.error: BlazarError | None = None


class Flights:
    """All that are under way. A key must say everything that the answer depends on, and whose it is."""

    def __init__(self) -> None:
        self._flying: dict[Hashable, _Flight] = {}

    async def share(self, flyer: Flyer, key: Hashable, run: Callable[[], Awaitable[T]]) -> T:
        """What ``run`` makes, run for the first who asks; the others get the same, or the error that it ends with.

        When the first one leaves, is ended, or has waited its bound before there is an answer, the next one makes it.
        """
        while (flight := self._flying.get(key)) is not None:
            flyer.shares = flight.trace
            await flight.over.wait()
            if flight.landed:
                outcome: T = flight.outcome
                return outcome
            if flight.error is not None:
                raise flight.error.with_traceback(None)
        flyer.shares = ""
        flight = self._flying[key] = _Flight(flyer.trace)
        try:
            flight.outcome = made = await run()
            flight.landed = True
        except BlazarError as error:
            # Who was ended by hand was ended alone, and the others have not waited as long.
            if flyer.refusal is None and not isinstance(error, AllSlotsBusy):
                flight.error = error
            raise
        else:
            return made
        finally:
            del self._flying[key]
            flight.over.set()
