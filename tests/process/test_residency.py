"""Who stays in memory, who goes, and that nobody goes who is needed."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import msgspec

from blazar.config.schema import Config
from blazar.errors import Conflict, InsufficientMemory, ModelTooLarge
from blazar.supervisor.fleet import Fleet
from tests.support.fleets import GB, Fakes, SmallMachine, Told, eventually, exists, fails, fleet_of


def small_machine(gigabytes: float) -> SmallMachine:
    return SmallMachine(int(gigabytes * GB))


def watch(machine: SmallMachine, fleet: Fleet) -> None:
    """Memory is held by children that exist: a model that is on its way out still holds its share."""
    machine.held = lambda: sum(
        view.model.size for view in fleet.snapshot() if view.state in {"ready", "stopping"} and exists(view.pid)
    )


def reasons(told: Told, name: str) -> list[str]:
    return [event.detail for event in told.of("instance.unload", name)]


async def test_the_least_recently_used_idle_model_makes_room(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = small_machine(25)
    async with fleet_of(home, faked, machine) as (fleet, told):
        watch(machine, fleet)
        a, b, c = (fakes(name, size=10 * GB) for name in "abc")
        for one in (a, b, a):
            (await fleet.ensure_ready(one)).release()
        lease = await fleet.ensure_ready(c)
        assert {view.name for view in fleet.snapshot()} == {"a", "c"}
        assert reasons(told, "b") == ["made room for c"]
        # Memory was read again after the victim had gone.
        assert machine.asked[-1] == 15 * GB
        lease.release()


async def test_a_model_in_use_is_waited_for_and_the_wait_has_a_bound(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = small_machine(15)
    options = msgspec.structs.replace(faked, admission=msgspec.structs.replace(faked.admission, wait_s=0.6))
    async with fleet_of(home, options, machine) as (fleet, told):
        watch(machine, fleet)
        a, b = (fakes(name, size=10 * GB) for name in "ab")
        held = await fleet.ensure_ready(a)
        error = await fails(fleet.ensure_ready(b), InsufficientMemory)
        assert "10.0 GB" in str(error)
        assert "5.0 GB is free" in str(error)
        assert "a holds" in str(error)
        waiting = asyncio.create_task(fleet.ensure_ready(b))
        await asyncio.sleep(0.1)
        assert held.instance.state == "ready"
        held.release()
        (await waiting).release()
        assert reasons(told, "a") == ["made room for b"]


async def test_a_model_that_never_fits_is_refused_at_once(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = small_machine(8)
    async with fleet_of(home, faked, machine) as (fleet, told):
        watch(machine, fleet)
        held = await fleet.ensure_ready(fakes("small", size=GB))
        error = await fails(fleet.ensure_ready(fakes("huge", size=9 * GB)), ModelTooLarge)
        assert "9.0 GB" in str(error)
        assert reasons(told, "small") == []
        machine.held = lambda: 6 * GB
        held.release()
        await fleet.unload("small", "test")
        # Somebody else has the memory, and nothing here could leave.
        assert "2.0 GB is free" in str(await fails(fleet.ensure_ready(fakes("mid", size=4 * GB)), InsufficientMemory))


async def test_the_budget_of_the_settings_is_kept(home: Path, fakes: Fakes, faked: Config) -> None:
    options = msgspec.structs.replace(faked, residency=msgspec.structs.replace(faked.residency, memory_bytes=12 * GB))
    async with fleet_of(home, options, small_machine(100)) as (fleet, _):
        (await fleet.ensure_ready(fakes("a", size=10 * GB))).release()
        (await fleet.ensure_ready(fakes("b", size=10 * GB))).release()
        assert [view.name for view in fleet.snapshot()] == ["b"]


async def test_two_that_fit_one_by_one_do_not_load_together(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = small_machine(15)
    async with fleet_of(home, faked, machine) as (fleet, told):
        watch(machine, fleet)

        async def use(name: str) -> None:
            lease = await fleet.ensure_ready(fakes(name, size=10 * GB, load=0.3))
            assert len([view for view in fleet.snapshot() if view.state in {"loading", "ready"}]) == 1
            lease.release()

        await asyncio.gather(use("a"), use("b"))
        assert sum(len(reasons(told, name)) for name in "ab") == 1


async def test_three_models_in_turns_where_one_fits_and_no_lease_is_broken(
    home: Path, fakes: Fakes, faked: Config
) -> None:
    machine = small_machine(15)
    async with fleet_of(home, faked, machine) as (fleet, _):
        watch(machine, fleet)

        async def use(name: str) -> None:
            lease = await fleet.ensure_ready(fakes(name, size=10 * GB))
            await asyncio.sleep(0.3)
            assert lease.instance.state == "ready"
            assert exists(lease.instance.pid)
            lease.release()

        await asyncio.gather(*(use(name) for name in "abcabc"))


async def test_keep_alive(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        used = fakes("used")
        lease = await fleet.ensure_ready(used)
        lease.release(0.6)
        for _ in range(4):
            await asyncio.sleep(0.3)
            (await fleet.ensure_ready(used)).release()
        async with asyncio.timeout(5):
            await lease.instance.gone.wait()
        assert told.states("used").count("ready") == 1

        now, soon, never = (fakes(name) for name in ("now", "soon", "never"))
        first, second = await fleet.ensure_ready(now), await fleet.ensure_ready(now)
        first.release(0)
        await asyncio.sleep(0.05)
        assert second.instance.state == "ready"
        second.release()
        await second.instance.gone.wait()
        assert reasons(told, "now") == ["keep_alive is over"]

        lease = await fleet.ensure_ready(soon)
        released = time.time_ns()
        lease.release(0.3)
        expires = fleet.snapshot()[0].expires_at_ns
        assert expires is not None
        assert abs(expires - released - 300_000_000) < 100_000_000
        async with asyncio.timeout(5):
            await lease.instance.gone.wait()
        assert reasons(told, "soon") == ["idle for 0.3 s"]

        lease = await fleet.ensure_ready(never)
        lease.release(-1)
        assert fleet.snapshot()[0].expires_at_ns is None
        assert fleet.touch("never", 0)
        async with asyncio.timeout(5):
            await lease.instance.gone.wait()
        assert not fleet.touch("never", 5)


async def test_nobody_leaves_while_leased_however_short_the_keep_alive(home: Path, fakes: Fakes, faked: Config) -> None:
    options = msgspec.structs.replace(faked, residency=msgspec.structs.replace(faked.residency, keep_alive_s=0.05))
    async with fleet_of(home, options) as (fleet, told):
        lease = await fleet.ensure_ready(fakes("long"))
        assert not await fleet.unload("long", "asked")
        await asyncio.sleep(0.5)
        assert lease.instance.state == "ready"
        assert reasons(told, "long") == []
        lease.release()
        await lease.instance.gone.wait()


async def test_a_request_that_races_the_timer_is_served(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, _):
        racer = fakes("racer")
        for _ in range(40):
            async with asyncio.timeout(10):
                lease = await fleet.ensure_ready(racer)
            assert lease.instance.state == "ready"
            lease.release(0.01)
            await asyncio.sleep(random.uniform(0, 0.02))


async def test_unload_is_over_when_the_process_is(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        lease = await fleet.ensure_ready(fakes("a"))
        pid = lease.instance.pid
        lease.release()
        assert await fleet.unload("a", "asked for by a client")
        assert not exists(pid)
        assert lease.instance.gone.is_set()
        assert reasons(told, "a") == ["asked for by a client"]
        assert not await fleet.unload("a", "again")
        await eventually(lambda: told.states("a")[-1] == "stopped")


def residency(config: Config, **changes: object) -> Config:
    return msgspec.structs.replace(config, residency=msgspec.structs.replace(config.residency, **changes))


async def test_two_busy_models_take_turns_instead_of_being_swapped_for_each_request(
    home: Path, fakes: Fakes, faked: Config
) -> None:
    """Two clients, each of which asks again as soon as it is answered, for models of which one fits."""
    machine = small_machine(15)
    async with fleet_of(home, residency(faked, swap_s=1.0), machine) as (fleet, told):
        watch(machine, fleet)
        served = {"a": 0, "b": 0}
        longest = {"a": 0.0, "b": 0.0}
        ends = time.monotonic() + 8

        async def client(name: str) -> None:
            model = fakes(name, size=10 * GB)
            while time.monotonic() < ends:
                began = time.monotonic()
                lease = await fleet.ensure_ready(model)
                longest[name] = max(longest[name], time.monotonic() - began)
                await asyncio.sleep(0.02)
                lease.release()
                served[name] += 1

        await asyncio.gather(client("a"), client("b"))
        swaps = sum(len(reasons(told, name)) for name in "ab")
        assert 2 <= swaps <= 9, (swaps, served)
        assert min(served.values()) > 5 * swaps, (swaps, served)
        assert max(longest.values()) < 6, longest


async def test_one_that_is_never_idle_gives_way_when_its_turn_is_over(home: Path, fakes: Fakes, faked: Config) -> None:
    """Requests that overlap, so that there is no moment without one."""
    machine = small_machine(15)
    async with fleet_of(home, residency(faked, swap_s=0.5), machine) as (fleet, told):
        watch(machine, fleet)
        busy, other = fakes("busy", size=10 * GB), fakes("other", size=10 * GB)
        stop = asyncio.Event()

        async def client(delay: float) -> None:
            await asyncio.sleep(delay)
            while not stop.is_set():
                lease = await fleet.ensure_ready(busy)
                await asyncio.sleep(0.3)
                assert lease.instance.state == "ready", "nobody is cut off"
                lease.release()

        clients = [asyncio.create_task(client(0.1 * n)) for n in range(3)]
        await asyncio.sleep(0.8)
        async with asyncio.timeout(5):
            (await fleet.ensure_ready(other)).release()
        stop.set()
        async with asyncio.timeout(10):
            await asyncio.gather(*clients)
        assert reasons(told, "busy")[0] == "made room for other"


async def test_who_waits_and_gives_up_lets_the_other_stay(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = small_machine(15)
    options = residency(faked, swap_s=0.0)
    options = msgspec.structs.replace(options, admission=msgspec.structs.replace(options.admission, wait_s=0.4))
    async with fleet_of(home, options, machine) as (fleet, told):
        watch(machine, fleet)
        stays = fakes("stays", size=10 * GB)
        held = await fleet.ensure_ready(stays)
        waiting = asyncio.create_task(fleet.ensure_ready(fakes("other", size=10 * GB)))
        await eventually(lambda: any(view.reason == "made room for other" for view in fleet.snapshot()))
        second = asyncio.create_task(fleet.ensure_ready(stays))
        await fails(waiting, InsufficientMemory)
        async with asyncio.timeout(2):
            (await second).release()
        held.release()
        assert held.instance.state == "ready"
        assert reasons(told, "stays") == []


async def test_pinned_models_and_sessions_never_make_room(home: Path, fakes: Fakes, faked: Config) -> None:
    machine = small_machine(15)
    async with fleet_of(home, residency(faked, pinned=("pinned",), session_keep_s=0.6), machine) as (fleet, told):
        watch(machine, fleet)
        pinned, other = fakes("pinned", size=10 * GB), fakes("other", size=10 * GB)
        (await fleet.ensure_ready(pinned)).release()
        began = time.monotonic()
        assert "pinned holds" in str(await fails(fleet.ensure_ready(other), InsufficientMemory))
        assert time.monotonic() - began < 1, "it is not waited for in vain"
        assert await fleet.unload("pinned", "asked")
        (await fleet.ensure_ready(other, session="s1")).release()
        assert [view.id for view in fleet.sessions.views()] == ["s1"]
        await fails(fleet.ensure_ready(pinned), InsufficientMemory)
        assert fleet.sessions.close("s1")
        (await fleet.ensure_ready(pinned)).release()
        assert reasons(told, "other") == ["made room for pinned"]


async def test_who_waits_first_loads_first(home: Path, fakes: Fakes, faked: Config) -> None:
    """A large one waits; small ones that would fit beside keep coming."""
    machine = small_machine(20)
    async with fleet_of(home, residency(faked, swap_s=0.3), machine) as (fleet, _told):
        watch(machine, fleet)
        held = await fleet.ensure_ready(fakes("held", size=10 * GB))
        large = asyncio.create_task(fleet.ensure_ready(fakes("large", size=15 * GB)))
        await asyncio.sleep(0.5)
        small = asyncio.create_task(fleet.ensure_ready(fakes("small", size=8 * GB)))
        await asyncio.sleep(0.5)
        assert not small.done(), "it would take what the first one waits for"
        held.release()
        async with asyncio.timeout(5):
            lease = await large
        lease.release()
        async with asyncio.timeout(5):
            (await small).release()


async def test_for_who_is_modest_nobody_is_sent_away_and_nothing_loaded_anew(
    home: Path, fakes: Fakes, faked: Config
) -> None:
    machine = small_machine(15)
    async with fleet_of(home, faked, machine) as (fleet, told):
        watch(machine, fleet)
        a, b = (fakes(name, size=10 * GB) for name in "ab")
        (await fleet.ensure_ready(a)).release()
        await fails(fleet.ensure_ready(b, modest=True), InsufficientMemory)
        await fails(fleet.ensure_ready(a, embeds=True, modest=True), Conflict)
        assert told.of("instance.unload") == []
        (await fleet.ensure_ready(b)).release()
        assert reasons(told, "a") == ["made room for b"]
