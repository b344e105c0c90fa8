"""Who is spoken to, and when."""

from __future__ import annotations

import asyncio
from time import monotonic_ns

from blazar.gateway.silence import Silence


class Stream:
    """Stands for a request's stream."""

    def __init__(self) -> None:
        self.over = False
        self.heard_ns = monotonic_ns()
        self.broken = 0

    def quiet_ns(self, now_ns: int) -> int:
        return now_ns - self.heard_ns

    def break_silence(self, now_ns: int) -> None:
        self.broken += 1
        self.heard_ns = now_ns


async def test_silences_are_broken_and_talk_is_not() -> None:
    silence = Silence(0.04)
    quiet, talks, done = Stream(), Stream(), Stream()
    done.over = True
    for stream in (quiet, talks, done):
        silence.add(stream)
    for _ in range(20):
        await asyncio.sleep(0.01)
        talks.heard_ns = monotonic_ns()
    assert 2 <= quiet.broken <= 5
    assert (talks.broken, done.broken) == (0, 0)
    quiet.over = talks.over = True
    await asyncio.sleep(0.03)
    assert silence._timer is None, "nothing rings when there is nobody to look after"


async def test_zero_is_never() -> None:
    silence = Silence(0)
    silence.add(Stream())
    assert silence._timer is None
