"""What an instance tells of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from blazar.engines.base import Build, Settings
from blazar.engines.llamacpp import LlamaCpp
from blazar.supervisor.instance import Instance
from blazar.supervisor.state import State
from tests.support.fleets import model


def test_how_long_a_load_still_takes() -> None:
    build = Build(kind="llamacpp", tag="b1", channel="local", path="/bin/true")
    one = Instance(model("m", Path("/m.gguf")), LlamaCpp(), build, Settings(context=512, slots=1, threads=1), 1, "t")
    assert one.eta_s(10) is None, "it does not load"
    one.to(State.LOADING)
    one.began_at = 10
    assert one.eta_s(12) is None, "nobody knows"
    one.usual_s = 8
    assert one.eta_s(12) == 6
    assert one.eta_s(100) == 0
    one.progress = 0.04
    assert one.eta_s(12) == 6, "that little says nothing"
    one.progress = 0.25
    assert one.eta_s(12) == pytest.approx(6)
    one.progress = 0.5
    assert one.view(None, 12, None).eta_s == pytest.approx(2)
