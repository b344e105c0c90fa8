"""Where models go on a machine with GPUs, and what their children are told of it. The GPUs are told to the fleet; the
children are real.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from blazar.config.schema import Config
from blazar.errors import InsufficientMemory
from blazar.hardware import Gpu
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.instance import Instance
from tests.support.fleets import GB, Fakes, SmallMachine, config, exists, fails, fleet_of


def card(name: str, gigabytes: int, capability: str = "9.0", *, unified: bool = False) -> Gpu:
    return Gpu(
        vendor="nvidia", index=0, name=name, id=name, total=gigabytes * GB, free=0, capability=capability,
        unified=unified,
    )  # fmt: skip


def watch(machine: SmallMachine, fleet: Fleet) -> None:
    """What a child was given is taken from when it is ready until it is gone."""

    def used(pool: str) -> int:
        there = [one for one in fleet.tenants() if one.state in {"ready", "stopping"} and exists(one.pid)]
        return sum(one.layout.need.get(pool, 0) for one in there)

    machine.used = used
    machine.held = lambda: used("")


def told(instance: Instance) -> tuple[str, str, str]:
    """How many layers its child was given, in which parts, and the GPUs that it may see."""
    words = Path(f"/proc/{instance.pid}/cmdline").read_text().split("\0")
    env = dict(pair.partition("=")[::2] for pair in Path(f"/proc/{instance.pid}/environ").read_text().split("\0"))
    options = dict(itertools.pairwise(words))
    return options["--n-gpu-layers"], options.get("--tensor-split", ""), env.get("CUDA_VISIBLE_DEVICES", "")


async def load(fleet: Fleet, fakes: Fakes, name: str, gigabytes: int) -> tuple[str, str, str]:
    lease = await fleet.ensure_ready(fakes(name, size=gigabytes * GB))
    try:
        return told(lease.instance)
    finally:
        lease.release()


async def test_one_gpu_where_it_fits_the_tightest_first_else_several(home: Path, fakes: Fakes, gpu: Config) -> None:
    machine = SmallMachine(64 * GB, card("large", 24), card("small", 12))
    async with fleet_of(home, gpu, machine) as (fleet, _):
        watch(machine, fleet)
        # Every model has a layer for each gigabyte, and its output.
        assert await load(fleet, fakes, "a", 10) == ("11", "", "small")
        assert await load(fleet, fakes, "b", 10) == ("11", "", "large")
        assert await load(fleet, fakes, "c", 10) == ("11", "", "large")
        views = {view.name: view for view in fleet.snapshot()}
        assert set(views) == {"a", "b", "c"}, "nobody had to go"
        assert (views["a"].vram_bytes, views["a"].gpus) == (10 * GB, ("small",))


async def test_a_model_larger_than_one_gpu_is_spread_and_what_was_used_last_goes_last(
    home: Path, fakes: Fakes, gpu: Config
) -> None:
    machine = SmallMachine(64 * GB, card("large", 24), card("small", 12))
    async with fleet_of(home, gpu, machine) as (fleet, events):
        watch(machine, fleet)
        layers, parts, seen = await load(fleet, fakes, "big", 30)
        first, second = map(int, parts.split(","))
        assert (layers, seen, first + second) == ("31", "large,small", 31)
        assert 19 <= first <= 22, "as full as each other"
        assert await load(fleet, fakes, "next", 20) == ("21", "", "large")
        assert [event.detail for event in events.of("instance.unload", "big")] == ["made room for next"]


async def test_as_many_layers_as_go_where_all_gpus_together_are_too_small(
    home: Path, fakes: Fakes, gpu: Config
) -> None:
    machine = SmallMachine(64 * GB, card("only", 24))
    async with fleet_of(home, gpu, machine) as (fleet, _):
        watch(machine, fleet)
        assert await load(fleet, fakes, "huge", 40) == ("25", "", "only")
        view = fleet.snapshot()[0]
        assert view.vram_bytes == 24 * GB
        assert (await load(fleet, fakes, "tiny", 1))[2] == "only"


async def test_main_memory_where_a_pinned_model_has_the_gpu(home: Path, fakes: Fakes, gpu: Config) -> None:
    machine = SmallMachine(64 * GB, card("only", 12))
    options = config(engine={"llamacpp_path": gpu.engine.llamacpp_path}, residency={"pinned": ("kept",)})
    async with fleet_of(home, options, machine) as (fleet, _):
        watch(machine, fleet)
        assert (await load(fleet, fakes, "kept", 12))[2] == "only"
        assert await load(fleet, fakes, "other", 10) == ("0", "", "-1"), "its child must not touch the GPU"
        assert {view.name for view in fleet.snapshot()} == {"kept", "other"}


async def test_a_gpu_in_use_is_waited_for(home: Path, fakes: Fakes, gpu: Config) -> None:
    machine = SmallMachine(64 * GB, card("only", 12))
    options = config(engine={"llamacpp_path": gpu.engine.llamacpp_path}, wait_s=0.5)
    async with fleet_of(home, options, machine) as (fleet, _):
        watch(machine, fleet)
        held = await fleet.ensure_ready(fakes("held", size=10 * GB))
        error = await fails(fleet.ensure_ready(fakes("other", size=10 * GB)), InsufficientMemory)
        assert "10.0 GB on a GPU and 2.0 GB is free" in str(error)
        assert "held holds" in str(error)
        held.release()
        assert (await load(fleet, fakes, "other", 10))[2] == "only"


async def test_two_loads_at_once_are_not_promised_the_same_gpu(home: Path, fakes: Fakes, gpu: Config) -> None:
    machine = SmallMachine(64 * GB, card("one", 12), card("two", 12))
    async with fleet_of(home, gpu, machine) as (fleet, _):
        watch(machine, fleet)
        both = await asyncio.gather(load(fleet, fakes, "a", 10), load(fleet, fakes, "b", 10))
        assert {seen for _, _, seen in both} == {"one", "two"}


async def test_a_gpu_in_main_memory_takes_everything_and_counts_there(home: Path, fakes: Fakes, gpu: Config) -> None:
    machine = SmallMachine(30 * GB, card("chip", 0, unified=True))
    async with fleet_of(home, gpu, machine) as (fleet, events):
        watch(machine, fleet)
        assert (await load(fleet, fakes, "a", 20))[0] == "21"
        assert (await load(fleet, fakes, "b", 20))[0] == "21"
        assert [event.detail for event in events.of("instance.unload", "a")] == ["made room for b"]


async def test_a_build_without_a_way_to_the_gpu_stays_in_main_memory(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = SmallMachine(64 * GB, card("only", 24))
    async with fleet_of(home, faked, machine) as (fleet, _):
        watch(machine, fleet)
        assert await load(fleet, fakes, "a", 10) == ("0", "", "")
        assert fleet.snapshot()[0].vram_bytes == 0
