"""Children that do not want to go, daemons that are killed, and what a start finds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.errors import Conflict, ShuttingDown
from blazar.supervisor import effects, sweep
from blazar.supervisor.effects import Stat
from blazar.supervisor.lock import Lock
from tests.support.fleets import Fakes, alive, config, eventually, exists, fails, fleet_of, model

ROOT = Path(__file__).parents[2]


async def test_a_child_that_ignores_sigterm_is_killed_and_reaped(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        lease = await fleet.ensure_ready(fakes("deaf", term="ignore"))
        pid = lease.instance.pid
        lease.release()
        before = time.monotonic()
        assert await fleet.unload("deaf", "enough")
        # The grace of these settings is 1 s, the second one 2 s.
        assert 2.9 < time.monotonic() - before < 6
        assert not exists(pid)
        assert told.of("instance.exit", "deaf")[0].data["code"] == -signal.SIGKILL


@pytest.mark.parametrize("end", ["unload", "crash"])
async def test_helpers_of_a_child_go_with_it(home: Path, tmp_path: Path, fakes: Fakes, faked: Config, end: str) -> None:
    note = tmp_path / "helper"
    async with fleet_of(home, faked) as (fleet, _):
        lease = await fleet.ensure_ready(fakes("boss", helper=str(note)))
        helper = int(note.read_text())
        assert alive(helper)
        lease.release()
        if end == "unload":
            await fleet.unload("boss", "enough")
        else:
            os.kill(lease.instance.pid, signal.SIGKILL)
            await lease.instance.gone.wait()
        await eventually(lambda: not alive(helper))


async def test_stop_ends_what_is_loaded_loading_and_waiting(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        held = await fleet.ensure_ready(fakes("held"))
        loading = asyncio.create_task(fleet.ensure_ready(fakes("loading", load=60)))
        await eventually(lambda: "loading" in told.states("loading"))
        child = next(view.pid for view in fleet.snapshot() if view.name == "loading")
        await fleet.stop()
        assert await fails(loading, ShuttingDown)
        assert held.instance.gone.is_set()
        assert not exists(held.instance.pid)
        assert not exists(child)
        held.release()
        await fails(fleet.ensure_ready(fakes("late")), ShuttingDown)


DAEMON = """
import asyncio, sys, uvloop
from pathlib import Path
from tests.support.fleets import config, fleet_of, model
async def main():
    async with fleet_of(Path(sys.argv[1]), config()) as (fleet, told):
        for name in ("one", "two"):
            lease = await fleet.ensure_ready(model(name, Path(sys.argv[2])))
            print(lease.instance.pid, flush=True)
        await asyncio.sleep(600)
uvloop.run(main())
"""


def daemon(home: Path, tiny: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(home), str(tiny)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


async def test_a_killed_daemon_leaves_no_child_and_a_restart_works(home: Path, tiny: Path) -> None:
    process = daemon(home, tiny)
    assert process.stdout is not None
    children = [int(process.stdout.readline()) for _ in range(2)]
    assert all(alive(child) for child in children)
    process.kill()
    process.wait()
    process.stdout.close()
    await eventually(lambda: not any(alive(child) for child in children), 2)
    async with fleet_of(home, config()) as (fleet, _):
        (await fleet.ensure_ready(model("one", tiny))).release()


async def test_one_fleet_for_one_home(home: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blazar.supervisor.fleet._LOCK_S", 0.1)
    process = daemon(home, tiny)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        with pytest.raises(Conflict, match=str(process.pid)):
            async with fleet_of(home, config()):
                pass
        assert alive(child)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_a_start_ends_orphans_and_spares_others_with_their_number(home: Path) -> None:
    paths = Paths(config=home / "config", data=home / "data")
    run = effects.private_folder(paths.run)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    marked = {**os.environ, effects.MARK: str(paths.data)}
    orphan, stranger = (
        subprocess.Popen(  # noqa: ASYNC220  (a test has nothing else to do)
            [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, env=env
        )
        for env in (marked, None)
    )
    try:
        for process, shift in ((orphan, 0), (stranger, 1)):
            assert process.stdout is not None
            process.stdout.readline()
            stat = Stat.read(process.pid)
            assert stat is not None
            # The orphan's record is its own; the other is of an earlier process that had the stranger's number.
            record = sweep.Pidfile(pid=process.pid, start=stat.start - shift, model="m", secret="")
            record.write(run, f"t{process.pid}")
        (run / "broken.child").write_text("{")
        async with fleet_of(home, config()):
            assert orphan.poll() == -signal.SIGKILL
            assert stranger.poll() is None
            assert list(run.glob("*.child")) == []
    finally:
        for process in (orphan, stranger):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


async def test_a_start_ends_helpers_whose_leader_is_gone(home: Path) -> None:
    paths = Paths(config=home / "config", data=home / "data")
    run = effects.private_folder(paths.run)
    leader = subprocess.Popen(  # noqa: ASYNC220  (a test has nothing else to do)
        ["/bin/sh", "-c", "sleep 600 & echo $!"],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, effects.MARK: str(paths.data)},
    )
    assert leader.stdout is not None
    helper = int(leader.stdout.readline())
    leader.stdout.close()
    leader.wait()
    assert alive(helper)
    sweep.Pidfile(pid=leader.pid, start=1, model="m", secret="").write(run, "t")
    async with fleet_of(home, config()):
        await eventually(lambda: not alive(helper))


def test_a_lock_is_dropped_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from blazar.supervisor.lock import Lock\n"
        "Lock(Path(sys.argv[1])).take(); print(1, flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(Conflict, match=str(holder.pid)):
        Lock(path).take()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    lock = Lock(path)
    lock.take()
    lock.give()


@pytest.mark.timeout(400)
async def test_three_hundred_cycles_leave_nothing_behind(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, _):
        cycled = fakes("cycled")

        async def cycle(times: int) -> None:
            for _ in range(times):
                (await fleet.ensure_ready(cycled)).release(0)
                await eventually(lambda: not fleet.snapshot())

        def resident() -> int:
            stat = Stat.read(os.getpid())
            assert stat is not None
            return stat.resident

        await cycle(30)
        fds, tasks, memory = len(list(Path("/proc/self/fd").iterdir())), len(asyncio.all_tasks()), resident()
        await cycle(270)
        assert len(list(Path("/proc/self/fd").iterdir())) <= fds
        assert len(asyncio.all_tasks()) <= tasks
        assert resident() - memory < 8 * 1024 * 1024
