"""Who gets a place, who waits, and that every place comes back."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar.admission.gate import HIGH, LOW, NORMAL, Gate, Share
from blazar.clock import SystemClock
from blazar.config.schema import Admission
from blazar.errors import AllSlotsBusy, EngineCrashed, ShuttingDown


def gate(**options: float) -> Gate:
    return Gate(Admission(**options), SystemClock())  # type: ignore[arg-type]


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_free_place_is_given_at_once() -> None:
    lines = gate()
    async with lines.place(1, "m", 2) as place:
        assert place.ahead is None
        assert lines.counts(1) == (1, 0)
    assert lines.counts(1) == (0, 0)


async def test_priority_decides_who_is_next() -> None:
    lines = gate()
    order: list[str] = []

    async def visit(name: str, priority: int) -> None:
        async with lines.place(1, "m", 1, priority=priority):
            order.append(name)

    first = lines.place(1, "m", 1)
    await first.enter()
    visits = [asyncio.create_task(visit(n, p)) for n, p in [("low", LOW), ("normal", NORMAL), ("high", HIGH)]]
    await settle()
    assert lines.counts(1) == (1, 3)
    first.leave()
    first.leave()
    await asyncio.gather(*visits)
    assert order == ["high", "normal", "low"]
    assert lines.counts(1) == (0, 0)


async def test_a_full_list_refuses_at_once_with_the_numbers() -> None:
    lines = gate(queue_per_model=1)
    first = lines.place(1, "m", 1)
    await first.enter()
    waiting = asyncio.create_task(lines.place(1, "m", 1).enter())
    await settle()
    with pytest.raises(AllSlotsBusy, match="All 1 slots of 'm' are busy and 1 requests wait") as busy:
        await lines.place(1, "m", 1).enter()
    assert busy.value.retry_after is not None
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert lines.counts(1) == (1, 0)


async def test_who_weighs_more_takes_the_place_of_who_has_more_than_a_share_of_a_full_list() -> None:
    lines = gate(queue_per_model=4)
    told: list[str] = []

    async def visit(name: str, share: Share, priority: int = NORMAL) -> None:
        try:
            async with lines.place(1, "m", 1, priority=priority, share=share):
                await asyncio.sleep(3600)
        except AllSlotsBusy:
            told.append(name)

    light, heavy = Share(1, 1), Share(2, 3)
    tasks = [asyncio.ensure_future(visit(f"light {number}", light)) for number in range(5)]
    await settle()
    for number in range(4):
        tasks.append(asyncio.ensure_future(visit(f"heavy {number}", heavy)))
        await settle()
    assert told == ["light 4", "light 3", "light 2", "heavy 3"]
    tasks.append(asyncio.ensure_future(visit("high", light, HIGH)))
    await settle()
    assert told[-1].startswith("heavy"), "whatever it weighs, it is of a lower class"
    assert lines.counts(1) == (1, 4)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert lines.counts(1) == (0, 0)


async def test_a_wait_past_its_bound_is_refused_and_leaves_nothing() -> None:
    lines = gate(wait_s=0.02)
    first = lines.place(1, "m", 1)
    await first.enter()
    with pytest.raises(AllSlotsBusy):
        await lines.place(1, "m", 1).enter()
    assert lines.counts(1) == (1, 0)


async def test_an_explicit_deadline_is_strict() -> None:
    lines = gate(wait_s=60)
    first = lines.place(1, "m", 1)
    await first.enter()
    deadline = SystemClock().monotonic_ns() + 10_000_000
    with pytest.raises(AllSlotsBusy):
        async with asyncio.timeout(5):
            await lines.place(1, "m", 1, deadline_ns=deadline).enter()


async def test_waiters_learn_that_their_engine_is_gone() -> None:
    lines = gate()
    first = lines.place(1, "m", 1)
    await first.enter()
    waiting = asyncio.create_task(lines.place(1, "m", 1).enter())
    await settle()
    lines.drop(1, EngineCrashed("m", "was killed"))
    with pytest.raises(EngineCrashed, match="was killed"):
        await waiting
    first.leave()
    assert lines.counts(1) == (0, 0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["stay", "cancel"])), max_size=40), st.integers(1, 4))
def test_every_place_comes_back(visits: list[tuple[int, str]], slots: int) -> None:
    async def run() -> None:
        lines = gate()
        inside = 0

        async def visit(priority: int) -> None:
            nonlocal inside
            async with lines.place(1, "m", slots, priority=priority):
                inside += 1
                assert inside <= slots
                await asyncio.sleep(0)
                inside -= 1

        tasks = [(asyncio.create_task(visit(priority)), what) for priority, what in visits]
        await asyncio.sleep(0)
        for task, what in tasks:
            if what == "cancel" and not task.done():
                # A task that is inside is let out by its own end; only those that wait are cancelled.
                if inside and lines.counts(1)[1] == 0:
                    continue
                task.cancel()
                inside_after = lines.counts(1)[0]
                assert inside_after <= slots
        await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        assert lines.counts(1) == (0, 0)

    asyncio.run(run())


async def test_a_closed_gate_tells_everybody_who_waits() -> None:
    every = gate()
    held = every.place("one", "m", 1)
    await held.enter()
    waiting = [asyncio.create_task(every.place("one", "m", 1).enter()) for _ in range(3)]
    await asyncio.sleep(0)
    every.close(ShuttingDown())
    for task in waiting:
        with pytest.raises(ShuttingDown):
            await task
    held.leave()
    assert every.counts("one") == (0, 0)


async def test_who_waits_knows_his_place_and_about_how_long() -> None:
    lines = gate(queue_per_model=2)
    first = lines.place(1, "m", 2)
    await first.enter()
    await asyncio.sleep(0.02)
    first.leave()
    held = [lines.place(1, "m", 2) for _ in range(2)]
    for place in held:
        await place.enter()
        assert place.ahead is None
    waiting = [lines.place(1, "m", 2) for _ in range(2)]
    tasks = [asyncio.create_task(place.enter()) for place in waiting]
    await settle()
    (before, soon), (between, later) = waiting[0].ahead or (9, 9.0), waiting[1].ahead or (9, 9.0)
    assert (before, between) == (0, 1)
    assert 0.01 <= soon < later
    assert later == 2 * soon
    with pytest.raises(AllSlotsBusy) as busy:
        await lines.place(1, "m", 2).enter()
    assert busy.value.retry_after == 1, "never less than a second"
    for place in held:
        place.leave()
    await asyncio.gather(*tasks)
    assert waiting[0].ahead is None
