"""Models whose engines let go of them while idle: what that frees, and how they come back."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from blazar.config.schema import Config
from blazar.errors import EngineCrashed, InsufficientMemory
from blazar.supervisor.fleet import Fleet
from tests.support.fleets import GB, Fakes, SmallMachine, config, eventually, exists, fails, fleet_of, model


@pytest.fixture
def sleepy(faked: Config) -> Config:
    """Everybody sleeps after a second."""
    return msgspec.structs.replace(
        faked, residency=msgspec.structs.replace(faked.residency, sleep_s=1, swap_s=0.2, session_keep_s=30)
    )


def state(fleet: Fleet, name: str) -> str:
    return next((view.state for view in fleet.snapshot() if view.name == name), "")


async def asleep(fleet: Fleet, *names: str) -> None:
    await eventually(lambda: all(state(fleet, name) == "sleeping" for name in names), 15)


def watch(machine: SmallMachine, fleet: Fleet) -> None:
    """Who sleeps holds nothing."""
    machine.held = lambda: sum(
        view.model.size for view in fleet.snapshot() if view.state in {"ready", "stopping"} and exists(view.pid)
    )


async def test_an_idle_model_sleeps_and_is_woken_by_the_next_request(home: Path, fakes: Fakes, sleepy: Config) -> None:
    async with fleet_of(home, sleepy) as (fleet, told):
        one = fakes("a")
        lease = await fleet.ensure_ready(one)
        pid = lease.instance.pid
        lease.release()
        await asleep(fleet, "a")
        assert fleet.loaded("a") is None
        leases = await asyncio.gather(*(fleet.ensure_ready(one) for _ in range(20)))
        assert {lease.instance.pid for lease in leases} == {pid}
        assert told.states("a") == ["waiting", "loading", "ready", "sleeping", "waiting", "loading", "ready"]
        for lease in leases:
            lease.release()
        await asleep(fleet, "a")


async def test_nobody_sleeps_who_is_used(home: Path, fakes: Fakes, sleepy: Config) -> None:
    async with fleet_of(home, sleepy) as (fleet, told):
        lease = await fleet.ensure_ready(fakes("a"))
        await asyncio.sleep(2.5)
        assert told.states("a")[-1] == "ready"
        lease.release()


async def test_those_who_are_kept_are_kept_awake(home: Path, fakes: Fakes, sleepy: Config) -> None:
    pinned = msgspec.structs.replace(sleepy, residency=msgspec.structs.replace(sleepy.residency, pinned=("pinned",)))
    async with fleet_of(home, pinned) as (fleet, told):
        (await fleet.ensure_ready(fakes("pinned"))).release()
        (await fleet.ensure_ready(fakes("forever"))).release(-1)
        (await fleet.ensure_ready(fakes("session"), session="one")).release()
        (await fleet.ensure_ready(fakes("plain"))).release()
        await asleep(fleet, "plain")
        await asyncio.sleep(2)
        assert {name: told.states(name)[-1] for name in ("pinned", "forever", "session")} == dict.fromkeys(
            ("pinned", "forever", "session"), "ready"
        )


async def test_the_room_of_a_sleeper_is_for_others_and_it_waits_for_room_to_wake(
    home: Path, fakes: Fakes, sleepy: Config
) -> None:
    machine = SmallMachine(15 * GB)
    async with fleet_of(home, sleepy, machine) as (fleet, told):
        watch(machine, fleet)
        a, b = (fakes(name, size=10 * GB) for name in "ab")
        (await fleet.ensure_ready(a)).release()
        await asleep(fleet, "a")
        held = await fleet.ensure_ready(b)
        assert told.of("instance.unload") == [], "nobody had to leave for it"
        waking = asyncio.create_task(fleet.ensure_ready(a))
        await asyncio.sleep(0.4)
        assert state(fleet, "a") == "waiting", "two are not to end in the memory of one"
        held.release()
        lease = await waking
        assert [event.detail for event in told.of("instance.unload", "b")] == ["made room for a"]
        lease.release()


async def test_one_that_finds_no_room_to_wake_says_so(home: Path, fakes: Fakes, sleepy: Config) -> None:
    brief = msgspec.structs.replace(sleepy, admission=msgspec.structs.replace(sleepy.admission, wait_s=0.5))
    machine = SmallMachine(15 * GB)
    async with fleet_of(home, brief, machine) as (fleet, _):
        watch(machine, fleet)
        a, b = (fakes(name, size=10 * GB) for name in "ab")
        (await fleet.ensure_ready(a)).release()
        await asleep(fleet, "a")
        held = await fleet.ensure_ready(b)
        error = await fails(fleet.ensure_ready(a), InsufficientMemory)
        assert "b holds" in str(error)
        held.release()
        (await fleet.ensure_ready(a)).release()


async def test_one_that_does_not_wake_is_a_crash_and_the_next_one_loads_anew(
    home: Path, fakes: Fakes, sleepy: Config
) -> None:
    async with fleet_of(home, sleepy) as (fleet, _):
        one = fakes("a", wake="fails")
        lease = await fleet.ensure_ready(one)
        pid = lease.instance.pid
        lease.release()
        await asleep(fleet, "a")
        error = await fails(fleet.ensure_ready(one), EngineCrashed)
        assert "SIGABRT" in str(error)
        lease = await fleet.ensure_ready(one)
        assert lease.instance.pid != pid
        lease.release()


async def test_one_that_dies_asleep_is_gone_and_one_whose_time_is_over_leaves(
    home: Path, fakes: Fakes, sleepy: Config
) -> None:
    async with fleet_of(home, sleepy) as (fleet, told):
        a, b = fakes("a"), fakes("b")
        lease = await fleet.ensure_ready(a)
        pid = lease.instance.pid
        lease.release()
        (await fleet.ensure_ready(b)).release(6)
        await asleep(fleet, "a", "b")
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: state(fleet, "a") == "")
        assert told.states("a")[-1] == "crashed"
        await eventually(lambda: state(fleet, "b") == "", 15)
        assert [event.detail for event in told.of("instance.unload", "b")] == ["idle for 6 s"]


async def test_the_real_engine_sleeps_and_wakes(home: Path, tiny: Path, real_sleepy: Config) -> None:

    async with fleet_of(home, real_sleepy) as (fleet, _):
        lease = await fleet.ensure_ready(model("tiny", tiny))
        awake = lease.instance.resident_bytes
        lease.release()
        await asleep(fleet, "tiny")
        (view,) = fleet.snapshot()
        assert view.resident_bytes < awake
        lease = await fleet.ensure_ready(model("tiny", tiny))
        assert (lease.instance.pid, lease.instance.state) == (view.pid, "ready")
        lease.release()


@pytest.fixture
def real_sleepy(sleepy: Config) -> Config:

    return msgspec.structs.replace(config(), residency=sleepy.residency)
