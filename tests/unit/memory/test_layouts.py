"""Where a model can go."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar.memory.footprint import Pieces, footprint, pieces
from blazar.memory.layouts import HOST, Device, Layout, Seen, layouts
from blazar.models import header
from tests.support import tiny_model

PIECES = Pieces(host=120, layers=(10,) * 10, output=8, moved=0, each=2, projector=0, whole=False)


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """These models are so small that what a process takes would hide all else."""
    monkeypatch.setattr("blazar.memory.layouts.PROCESS", 1)


def on(**reach: int) -> list[Device]:
    return [Device(id=name, reach=bytes_) for name, bytes_ in reach.items()]


def test_one_gpu_in_the_order_of_speed_then_of_fit_and_several_after_them() -> None:
    found = layouts(PIECES, on(a=300, b=200, c=50))
    assert [(one.devices, one.parts) for one in found] == [
        (("b",), ()), (("a",), ()), (("a", "b"), (7, 4)), (("a", "b", "c"), (6, 4, 1)),
    ]  # fmt: skip
    assert found[0].need == {HOST: 20, "b": 110}
    fast = [Device(id="slow", reach=200, rank=-7), Device(id="fast", reach=300, rank=-9)]
    assert layouts(PIECES, fast)[0].devices == ("fast",)


def test_what_does_not_fit_wholly_is_split_with_main_memory_and_never_by_the_output_alone() -> None:
    (found,) = layouts(PIECES, on(a=60))
    assert (found.layers, found.need) == (6, {HOST: 120 - 50, "a": 60})
    (found,) = layouts(PIECES, on(a=32, b=31))
    assert (found.layers, found.parts) == (6, (3, 3))
    for reach in (0, 10, 19):
        assert layouts(PIECES, on(a=reach)) == [Layout(need={HOST: 120})]


def test_a_number_of_layers_that_was_asked_for_is_kept_to() -> None:
    assert layouts(PIECES, on(a=500), 0) == [Layout(need={HOST: 120})]
    (found,) = layouts(PIECES, on(a=500), 4)
    assert (found.layers, found.need) == (4, {HOST: 90, "a": 40})
    assert layouts(PIECES, on(a=500), 99)[0].layers == 11
    (found,) = layouts(PIECES, on(a=5), 4)
    assert found.need["a"] == 40, "and refused where it does not fit"


def test_a_model_whose_layers_nobody_knows_goes_somewhere_in_one() -> None:
    whole = Pieces(host=100, each=2)
    assert [one.layers for one in layouts(whole, on(a=200))] == [-1]
    assert layouts(whole, on(a=90, b=90)) == [Layout(need={HOST: 100})]


def test_an_engine_that_cannot_be_told_which_gpus_gets_all_of_them() -> None:
    found = layouts(PIECES, on(a=300, b=200), apart=False)
    assert [(one.devices, one.parts) for one in found] == [(("a", "b"), ())]
    assert layouts(PIECES, on(a=300), apart=False)[0].devices == ("a",)


def test_what_was_seen_counts_where_it_was_more() -> None:
    (found,) = layouts(PIECES, on(a=500), seen=Seen(layers=11, host=40, device=200))
    assert found.need == {HOST: 40, "a": 200}
    (found,) = layouts(PIECES, on(a=500), seen=Seen(layers=0, host=900, device=0))
    assert found.need == {HOST: 20, "a": 110}, "that was somewhere else"
    assert layouts(PIECES, [], seen=Seen(layers=0, host=900, device=0)) == [Layout(need={HOST: 900})]


def test_what_was_seen_in_memory_that_is_shared_counts_once() -> None:
    chip = [Device(id="chip", reach=0, unified=True)]
    planned = layouts(PIECES, chip)[0].need[HOST]
    assert layouts(PIECES, chip, seen=Seen(layers=11, host=planned + 5, device=planned + 5))[0].need == {
        HOST: planned + 5
    }
    assert layouts(PIECES, chip, seen=Seen(layers=0, host=900, device=0))[0].need == {HOST: planned}


@settings(deadline=None)
@given(st.lists(st.integers(0, 250), max_size=5), st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_no_gpu_gets_more_than_it_has_and_all_layers_are_somewhere(reach: list[int], sizes: list[int]) -> None:
    model = Pieces(host=sum(sizes) + 20, layers=tuple(sizes), output=8, each=2, projector=3, whole=False)
    devices = [Device(id=str(number), reach=most) for number, most in enumerate(reach)]
    for found in layouts(model, devices):
        assert all(found.need[device.id] <= device.reach for device in devices if device.id in found.need)
        on_gpus = found.total - found.host
        moved = sum(sizes[len(sizes) + 1 - found.layers :]) if found.layers else 0
        overhead = 8 + 3 + 2 * len(found.devices) if found.layers else 0
        assert on_gpus == moved + overhead
        assert found.host == max(1, model.host - (moved + 3 if found.layers else 0))
        assert not found.parts or sum(found.parts) == found.layers


def test_on_one_gpu_the_bytes_are_those_of_the_footprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_model.write(path)
    facts = header.read(path)
    cut = pieces(facts, 2048, 2, "q8_0", projector=1000)
    for layers in range(len(cut.layers) + 2):
        one = footprint(facts, 2048, 2, "q8_0", gpu_layers=layers, projector=1000)
        (found,) = layouts(cut, on(a=1 << 40), layers)
        assert found.need.get("a", 0) == one.device
        assert found.host == one.total - one.device
