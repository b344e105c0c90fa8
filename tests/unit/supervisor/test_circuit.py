"""The circuit of crashes."""

from __future__ import annotations

import pytest

from blazar.errors import EngineCircuitOpen
from blazar.supervisor.circuit import Circuits

KEY = ("m", "build")


def test_three_in_a_minute_open_it_until_the_oldest_is_a_minute_old() -> None:
    circuits = Circuits()
    for at in (0.0, 10.0, 20.0):
        circuits.check(KEY, "m", at)
        circuits.crashed(KEY, at, ("word",))
    with pytest.raises(EngineCircuitOpen, match="word") as raised:
        circuits.check(KEY, "m", 25.0)
    assert raised.value.retry_after == 35.0
    circuits.check(("m", "other build"), "m", 25.0)
    circuits.check(KEY, "m", 60.0)
    circuits.crashed(KEY, 60.0, ())
    with pytest.raises(EngineCircuitOpen):
        circuits.check(KEY, "m", 61.0)
    circuits.reset("m")
    circuits.check(KEY, "m", 61.0)


def test_slow_crashes_do_not() -> None:
    circuits = Circuits()
    for at in range(0, 400, 40):
        circuits.check(KEY, "m", at)
        circuits.crashed(KEY, at, ())
