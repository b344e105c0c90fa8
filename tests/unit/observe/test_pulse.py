"""Whether the loop moves, and what holds it."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from blazar.observe.pulse import Pulse


def hold_everybody_up(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_loop_that_was_held_says_how_late_it_woke() -> None:
    pulse = Pulse(beat_s=0.02)
    pulse.start()
    await asyncio.sleep(0.05)
    hold_everybody_up(0.3)
    await asyncio.sleep(0.05)
    pulse.stop()
    assert 0.2 < pulse.worst_s < 2
    assert pulse.lag_s < pulse.worst_s


async def test_what_holds_a_loop_is_logged_while_it_does(caplog: pytest.LogCaptureFixture) -> None:
    pulse = Pulse(beat_s=0.02, stuck_s=0.2)
    pulse.start()
    await asyncio.sleep(0.05)

    with caplog.at_level(logging.ERROR, "blazar"):
        hold_everybody_up(0.5)
        told = [record for record in caplog.records if "has not moved" in record.getMessage()]
    pulse.stop()
    assert len(told) == 1, "once for each time"
    assert "hold_everybody_up" in told[0].getMessage()
