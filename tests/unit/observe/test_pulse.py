"""Whether the loop moves, and what holds it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from blazar.observe.pulse import Pulse


def hold_everybody_up(until: Callable[[], bool]) -> float:
    """Returns for how many seconds; gives up after 30."""
    began = time.monotonic()
    while not until() and time.monotonic() - began < 30:
        time.sleep(0.01)
    return time.monotonic() - began


async def test_a_loop_that_was_held_says_how_late_it_woke() -> None:
    pulse = Pulse(beat_s=0.02)
    pulse.start()
    await asyncio.sleep(0.05)
    began = time.monotonic()
    hold_everybody_up(lambda: time.monotonic() - began > 0.3)
    for _ in range(1000):
        if pulse.worst_s > 0.2:
            break
        await asyncio.sleep(0.01)
    pulse.stop()
    assert 0.2 < pulse.worst_s <= time.monotonic() - began


async def test_what_holds_a_loop_is_logged_while_it_does(caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "has not moved" in record.getMessage()]

    pulse = Pulse(beat_s=0.02, stuck_s=0.2)
    pulse.start()
    await asyncio.sleep(0.05)
    with caplog.at_level(logging.ERROR, "blazar"):
        hold_everybody_up(lambda: bool(told()))
        began = time.monotonic()
        hold_everybody_up(lambda: time.monotonic() - began > 0.1)
    pulse.stop()
    assert len(told()) == 1, "once for each time"
    assert "hold_everybody_up" in told()[0]
