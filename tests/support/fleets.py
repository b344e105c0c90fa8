"""Fleets for tests, with the real engine or with one that misbehaves on request."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from blazar import store
from blazar.clock import SystemClock
from blazar.config.paths import Paths
from blazar.config.schema import Admission, Config, Engine, Residency
from blazar.memory.footprint import Pieces
from blazar.models import header
from blazar.observe.events import Event, Events
from blazar.supervisor.fleet import Fleet

if TYPE_CHECKING:
    from blazar.engines.base import Settings
    from blazar.hardware import Gpu
    from blazar.models.catalogue import Model
    from blazar.models.header import Header

FAKE = Path(__file__).with_name("fake_engine.py")
GB = 10**9


class Facts(msgspec.Struct, frozen=True):
    """The facts of a model that the supervisor reads."""

    name: str
    files: tuple[str, ...]
    size: int = 1000
    format: str = "gguf"
    context_length: int = 4096
    capabilities: tuple[str, ...] = ("completion",)
    projector: str = ""
    digest: str = ""
    overlay: str = ""


def model(name: str, path: Path, **facts: Any) -> Model:
    return cast("Model", Facts(name, (str(path),), **facts))


def program(folder: Path, *argv: str, name: str = "llama-server") -> Path:
    """An executable that is called like the official one and runs ``argv``."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
    path.chmod(0o755)
    return path


def fake_program(folder: Path, *words: str) -> Path:
    return program(folder, sys.executable, "-I", "-S", str(FAKE), *words)


class Fakes:
    """Models whose engine behaves as told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, *, size: int = 1000, **conduct: Any) -> Model:
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(conduct))
        return model(name, path, size=size)


class Files:
    """As much of a catalogue as the fleet asks for."""

    def header(self, model: Model) -> Header:
        return header.read(model.files[0])

    def lost(self, model: Model) -> str:
        return next((file for file in model.files if not Path(file).exists()), "")


class SmallMachine:
    """A machine of ``total`` bytes in which a model takes its size, from load to unload as the fleet tells; of as many
    layers as there are gigabytes, where it has GPUs. ``cards`` are these, and ``used`` what is taken of them by id.
    """

    def __init__(self, total: int, *cards: Gpu) -> None:
        self._total = total
        self._cards = cards
        self.held: Callable[[], int] = lambda: 0
        self.used: Callable[[str], int] = lambda gpu: 0
        self.asked: list[int] = []

    def total(self) -> int:
        return self._total

    def available(self) -> int:
        self.asked.append(self._total - self.held())
        return self.asked[-1]

    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(msgspec.structs.replace(gpu, free=gpu.total - self.used(gpu.id)) for gpu in self._cards)

    def of(self, pid: int) -> None:
        """A driver that does not know whose the memory is."""

    def pieces(self, model: Model, settings: Settings) -> Pieces:
        layers = (GB,) * (model.size // GB) if self._cards else ()
        return Pieces(host=model.size, layers=layers, each=0, whole=not layers)


class Told:
    """The events of a fleet."""

    def __init__(self, events: Events) -> None:
        self.events: list[Event] = []
        events.listen(self.events.append)

    def of(self, kind: str, subject: str | None = None) -> list[Event]:
        return [event for event in self.events if event.kind == kind and subject in {None, event.subject}]

    def states(self, subject: str) -> list[str]:
        return [event.detail for event in self.of("instance.state", subject)]


def config(
    *, engine: dict[str, Any] | None = None, residency: dict[str, Any] | None = None, wait_s: float = 10
) -> Config:
    return Config(
        engine=Engine(**{"context": 512, "threads": 2, **(engine or {})}),
        residency=Residency(**{"stop_grace_s": 1, **(residency or {})}),
        admission=Admission(wait_s=wait_s),
    )


@asynccontextmanager
async def fleet_of(home: Path, options: Config, memory: Any = None) -> AsyncIterator[tuple[Fleet, Told]]:
    """A started fleet; at the end it is stopped and nothing may be left of it."""
    paths = Paths(config=home / "config", data=home / "data")
    paths.data.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    events = Events(clock.time_ns)
    told = Told(events)
    with store.open(paths.database) as rows:
        fleet = Fleet(options, paths, cast("Any", Files()), rows, events, clock, memory=memory)
        await fleet.start()
        try:
            yield fleet, told
        finally:
            await fleet.stop()
    assert fleet.snapshot() == ()
    assert [path.name for path in paths.run.iterdir() if path.suffix in {".child", ".sock"}] == []


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def exists(pid: int) -> bool:
    """Whether there is such a process, zombies included."""
    return Path(f"/proc/{pid}").exists()


async def eventually(what: Callable[[], bool], within_s: float = 5.0) -> None:
    """Wait until ``what`` holds; fail when it never does."""
    async with asyncio.timeout(within_s):
        while not what():  # noqa: ASYNC110  (what is awaited is told by the system, not by this loop)
            await asyncio.sleep(0.01)


async def fails(work: Awaitable[Any], kind: type[BaseException]) -> BaseException:
    """The error that ``work`` ends with, which must be of ``kind``."""
    try:
        result = await work
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")
