"""Whether a model fits: verdicts on machines that are told."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar.memory import fit
from blazar.memory.fit import Machine, judge
from blazar.memory.footprint import footprint
from blazar.memory.layouts import HOST, Device
from blazar.models import header
from blazar.models.header import Header
from tests.support import tiny_model

GIB = 1 << 30


def _tiny() -> Header:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        tiny_model.write(path, layers=7, width=64)
        return header.read(path)


TINY = _tiny()
# Eight billion weights of four bits and a half in 31 layers, a usual shape.
LARGE = msgspec.structs.replace(
    TINY,
    block_count=31,
    head_count=(32,) * 31,
    head_count_kv=(8,) * 31,
    embedding_length=4096,
    key_length=128,
    value_length=128,
    feed_forward_length=14336,
    context_length=131072,
    vocab_size=128256,
    layer_bytes=(140 * 10**6,) * 31,
    tensor_bytes=31 * 140 * 10**6 + 700 * 10**6,
    embedding_bytes=300 * 10**6,
)


def card(id_: str, gib: float) -> Device:
    return Device(id=id_, reach=int(gib * GIB))


def test_on_one_card_over_two_partly_in_memory_or_not_at_all() -> None:
    verdict = judge(LARGE, Machine(host=32 * GIB, devices=(card("a", 24),)))
    assert (verdict.fits, verdict.layers, verdict.of) == ("gpu", 32, 32)
    assert judge(LARGE, Machine(host=32 * GIB, devices=(card("a", 4), card("b", 4)))).fits == "gpus"
    partly = judge(LARGE, Machine(host=32 * GIB, devices=(card("a", 3),)))
    assert partly.fits == "partly"
    assert 0 < partly.layers < 32
    assert judge(LARGE, Machine(host=32 * GIB)).fits == "memory"
    lost = judge(LARGE, Machine(host=4 * GIB))
    assert (lost.fits, lost.slots, lost.speed) == ("no", 0, None)
    assert lost.need > 4 * GIB


def test_a_context_that_is_wanted_counts() -> None:
    small = Machine(host=7 * GIB)
    assert judge(LARGE, small).fits == "memory"
    assert judge(LARGE, small, context=100_000).fits == "no"
    assert judge(LARGE, small, context=12_000, cache_type="q8_0").fits == "memory"


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.lists(st.integers(1, 30), max_size=3))
def test_what_is_said_to_fit_does_and_no_more_would(host: int, cards: list[int]) -> None:
    machine = Machine(host=host * GIB, devices=tuple(card(str(place), gib) for place, gib in enumerate(cards)))
    verdict = judge(LARGE, machine)
    if verdict.fits == "memory":
        assert verdict.need == footprint(LARGE, verdict.context).total <= machine.host
        assert footprint(LARGE, verdict.each, verdict.slots).total <= machine.host
        if verdict.context < LARGE.context_length:
            assert footprint(LARGE, verdict.context + 256).total > machine.host
    if verdict.fits == "no":
        assert footprint(LARGE, fit.LEAST).total > machine.host
    assert verdict.context <= LARGE.context_length


def test_a_token_reads_what_takes_part_in_it_where_it_lies() -> None:
    host = Machine(host=64 * GIB, rates={HOST: 50 * 10**9})
    dense = judge(LARGE, host).speed
    read = 31 * 140 * 10**6 + 400 * 10**6
    assert dense == pytest.approx(1 / (read / 50e9 / fit.EFFICIENCY + fit.PER_TOKEN_S), rel=0.01)
    sparse = msgspec.structs.replace(
        LARGE, expert_bytes=31 * 120 * 10**6, numbers={**LARGE.numbers, "expert_count": 8, "expert_used_count": 2}
    )
    faster = judge(sparse, host).speed
    assert faster is not None
    assert dense is not None
    assert faster > 2 * dense
    gpu = Machine(host=64 * GIB, devices=(card("a", 24),), rates={HOST: 50 * 10**9, "a": 10**12})
    assert (judge(LARGE, gpu).speed or 0) > 10 * dense
    unknown = Machine(host=64 * GIB, devices=(card("a", 24),), rates={HOST: 50 * 10**9})
    assert judge(LARGE, unknown).speed is None


def test_the_largest_that_is_quick_and_roomy_is_the_best() -> None:
    def sized(factor: float) -> Header:
        return msgspec.structs.replace(
            LARGE,
            layer_bytes=tuple(int(one * factor) for one in LARGE.layer_bytes),
            tensor_bytes=int(LARGE.tensor_bytes * factor),
            embedding_bytes=int(LARGE.embedding_bytes * factor),
        )

    models = [sized(factor) for factor in (0.6, 1.0, 1.9, 3.6)]
    sizes = [model.tensor_bytes for model in models]

    def best(machine: Machine) -> int | None:
        return fit.best([judge(model, machine) for model in models], sizes, [3])

    assert best(Machine(host=100 * GIB, devices=(card("a", 80),))) == 2, "16 bits are more than anybody hears"
    assert best(Machine(host=100 * GIB, devices=(card("a", 8),))) == 1, "wholly on the card before half beside it"
    assert best(Machine(host=8 * GIB)) == 1
    assert best(Machine(host=100 * GIB, rates={HOST: 60 * 10**9})) == 0, "the others are slower than people read"
    assert best(Machine(host=GIB)) is None
