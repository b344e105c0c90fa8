"""What the judgement of health does to those whom it looks at."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from blazar.clock import SystemClock
from blazar.config.schema import Health as Settings
from blazar.engines.base import Address
from blazar.supervisor.health import Health
from blazar.supervisor.state import State


class House:
    """One instance, and what was done to it. ``willing`` says whether it can be drained."""

    def __init__(self, unix: str) -> None:
        self.instance = cast(
            "Any",
            SimpleNamespace(
                name="m", generation=1, state=State.READY, pid=0, failures=0, address=Address(unix=unix),
                gone=asyncio.Event(), draining="",
            ),
        )  # fmt: skip
        self.willing = True
        self.replaced: list[str] = []

    def tenants(self) -> tuple[Any, ...]:
        return (self.instance,)

    def drain(self, instance: Any, reason: str) -> bool:
        if not self.willing or instance.draining:
            return False
        instance.draining = reason
        return True

    def resume(self, instance: Any) -> None:
        instance.draining = ""

    def replace(self, instance: Any, how: str) -> None:
        self.replaced.append(how)


async def test_one_that_listens_after_all_is_let_go_however_often_it_was_told_of(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), path)
    house = House(path)
    health = Health(Settings(), SystemClock(), house)
    health.silent("m", 1)
    health.refused("m", 1)
    assert not house.instance.draining, "it is being looked at already"
    await asyncio.sleep(0.05)
    for _ in range(3):
        health.refused("m", 1)
    assert house.instance.draining, "nobody is sent there meanwhile"
    await asyncio.sleep(0.05)
    assert not house.instance.draining
    assert house.replaced == []
    await health.stop()
    health.refused("m", 1)
    server.close()


async def test_one_that_takes_nobody_is_replaced_when_its_time_is_over(tmp_path: Path) -> None:
    house = House(str(tmp_path / "nobody"))
    health = Health(Settings(finish_s=0.2), SystemClock(), house)
    health.refused("m", 1)
    await asyncio.sleep(0.5)
    assert house.replaced == []
    await asyncio.sleep(0.4)
    assert house.replaced == ["took no connection any more"]
    await health.stop()


async def test_one_that_could_not_be_replaced_yet_is_not_forgiven(tmp_path: Path) -> None:
    house = House(str(tmp_path / "s"))
    health = Health(Settings(errors=2), SystemClock(), house)
    house.willing = False
    for _ in range(3):
        health.answered(house.instance, well=False)
    house.willing = True
    health.answered(house.instance, well=False)
    assert house.instance.draining == "failed 4 times in a row"
