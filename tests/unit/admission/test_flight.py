"""Single flight: one makes it, all have it, and nobody hangs on somebody who left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from blazar.admission.flight import Flights
from blazar.errors import AllSlotsBusy, BlazarError, EngineCrashed, RequestCancelled


class Flyer:
    def __init__(self, trace: str) -> None:
        self.trace = trace
        self.shares = ""
        self.refusal: BlazarError | None = None


class Work:
    """Something that takes until it is told to end, and is counted."""

    def __init__(self) -> None:
        self.begun = 0
        self.end = asyncio.Event()
        self.error: BlazarError | None = None

    async def __call__(self) -> int:
        self.begun += 1
        mine = self.begun
        await self.end.wait()
        error, self.error = self.error, None
        if error is not None:
            raise error
        return mine


async def begin(work: Callable[[], Awaitable[int]], flights: Flights, count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.ensure_future(flights.share(Flyer(str(number)), "key", work)) for number in range(count)]
    await asyncio.sleep(0.01)
    return tasks


async def test_one_makes_it_and_all_have_it() -> None:
    work, flights = Work(), Flights()
    tasks = await begin(work, flights, 5)
    work.end.set()
    assert await asyncio.gather(*tasks) == [1] * 5
    assert await flights.share(Flyer("late"), "key", work) == 2, "what is over is not kept"


async def test_others_are_not_mixed_up() -> None:
    work, flights = Work(), Flights()
    work.end.set()
    flyers = [Flyer(name) for name in "abc"]
    assert await asyncio.gather(*(flights.share(flyer, flyer.trace, work) for flyer in flyers)) == [1, 2, 3]
    assert [flyer.shares for flyer in flyers] == ["", "", ""]


async def test_a_failure_is_everybodys() -> None:
    work, flights = Work(), Flights()
    work.error = EngineCrashed("m", "died")
    tasks = await begin(work, flights, 3)
    work.end.set()
    assert {type(outcome) for outcome in await asyncio.gather(*tasks, return_exceptions=True)} == {EngineCrashed}
    assert work.begun == 1


async def test_when_the_first_leaves_the_next_one_makes_it() -> None:
    work, flights = Work(), Flights()
    tasks = await begin(work, flights, 4)
    tasks[0].cancel()
    await asyncio.sleep(0.01)
    assert work.begun == 2
    tasks[2].cancel()
    await asyncio.sleep(0.01)
    assert work.begun == 2, "who only waits leaves nobody behind"
    work.end.set()
    assert [await tasks[number] for number in (1, 3)] == [2, 2]


async def test_who_was_ended_by_hand_was_ended_alone() -> None:
    work, flights = Work(), Flights()
    first = Flyer("first")
    leading = asyncio.ensure_future(flights.share(first, "key", work))
    await asyncio.sleep(0)
    (waiting,) = await begin(work, flights, 1)
    first.refusal = work.error = RequestCancelled()
    work.end.set()
    with pytest.raises(RequestCancelled):
        await leading
    assert await waiting == 2


async def test_who_waited_its_bound_waited_alone() -> None:
    work, flights = Work(), Flights()
    work.error = AllSlotsBusy("m", 4, 9, 1.0)
    leading, waiting = await begin(work, flights, 2)
    work.end.set()
    with pytest.raises(AllSlotsBusy):
        await leading
    assert await waiting == 2


async def test_a_fault_of_ours_is_not_handed_on() -> None:
    work, flights = Work(), Flights()

    async def broken() -> int:
        await asyncio.sleep(0.02)
        raise ZeroDivisionError

    (leading,) = await begin(broken, flights, 1)
    (waiting,) = await begin(work, flights, 1)
    with pytest.raises(ZeroDivisionError):
        await leading
    work.end.set()
    assert await waiting == 1
