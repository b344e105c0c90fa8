"""One model in memory: what others may read of it, and the lease that holds it there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from blazar.engines.base import Adapter, Address, Build, Failure, Settings
from blazar.errors import BlazarError, EngineCrashed
from blazar.memory.footprint import Pieces
from blazar.memory.layouts import HOST, Layout, Seen
from blazar.supervisor import effects
from blazar.supervisor.effects import Stat
from blazar.supervisor.process import Child
from blazar.supervisor.seats import Seats
from blazar.supervisor.state import OVER, State, move
from blazar.supervisor.wake import Wake

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

_LAST_WORDS = 3
# Less of a load than this says nothing of the rest.
_TELLING = 0.05


class InstanceView(msgspec.Struct, frozen=True, kw_only=True):
    """An instance at one moment. Times are civil nanoseconds; ``expires_at_ns`` is ``None`` for "never"; ``progress``
    is 0 to 1 while loading, and ``eta_s`` the seconds that are left of that, where they are known; ``reason`` says why
    it waits or leaves; ``gpus`` are the ids of those that have ``gpu_layers`` of it, -1 for all.
    """

    name: str
    model: Model
    generation: int
    state: str
    kind: str
    build: str
    pid: int
    host: str
    port: int
    unix: str
    slots: int
    context: int
    in_flight: int
    resident_bytes: int
    total_bytes: int
    vram_bytes: int
    gpu_layers: int
    gpus: tuple[str, ...]
    loaded_ns: int
    load_duration_ns: int
    last_used_ns: int
    expires_at_ns: int | None
    progress: float | None
    eta_s: float | None
    reason: str


class Instance:
    """One life of one model in memory. Only the fleet changes it; everybody else reads.

    ``gone`` is set when it can serve no longer, ``changed`` fires whenever ``state`` or ``draining``
    does.
    """

    def __init__(
        self, model: Model, adapter: Adapter, build: Build, settings: Settings, generation: int, token: str
    ) -> None:
        self.name = model.name
        self.model = model
        self.adapter = adapter
        self.build = build
        self.settings = settings
        self.generation = generation
        self.token = token
        self.state = State.WAITING
        self.secret = ""
        self.alias = model.name
        self.address = Address()
        self.context = settings.context
        self.slots = settings.slots
        self.child: Child | None = None
        # What it takes, what was seen of that before, and where it was given room.
        self.pieces = Pieces(host=0)
        self.seen: Seen | None = None
        self.layout = Layout(need={})
        self.began_bytes = 0
        # Nobody is sent away for it.
        self.modest = False
        self.in_flight = 0
        self.waiters = 0
        self.seats = Seats(settings.slots)
        # When what its slots hold was saved, or read back: monotonic seconds.
        self.banked_s = 0.0
        self.draining = ""
        self.reason = ""
        # Why its child was killed, and how often in a row it failed at an answer.
        self.fault = ""
        self.failures = 0
        self.progress: float | None = None
        # Seconds that a load took before, and when this one began (monotonic); 0 where nobody knows.
        self.usual_s = 0.0
        self.began_at = 0.0
        self.keep_alive_s = 0.0
        self.loaded_ns = 0
        self.load_duration_ns = 0
        self.last_used_ns = 0
        self.last_used_tick = 0
        # Monotonic seconds: when it became ready, and when somebody last began or ended to use it.
        self.ready_at = 0.0
        self.used_at = 0.0
        self.idle_until = 0.0
        self.timer_at = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.failure: BlazarError | None = None
        self.gone = asyncio.Event()
        self.changed = Wake()

    @property
    def kind(self) -> str:
        """The engine kind."""
        return self.build.kind

    @property
    def family(self) -> str:
        """What the child speaks."""
        return self.adapter.family

    @property
    def pid(self) -> int:
        """The child's, or 0."""
        return self.child.pid if self.child is not None else 0

    @property
    def host(self) -> str:
        """Where it listens, when on TCP."""
        return self.address.host

    @property
    def port(self) -> int:
        """The TCP port; 0 when it listens on a Unix socket."""
        return self.address.port

    @property
    def unix(self) -> str:
        """The path of its Unix socket, or nothing."""
        return self.address.unix

    @property
    def resident_bytes(self) -> int:
        """RAM that the child holds now, mapped weights included."""
        stat = Stat.read(self.pid) if self.pid else None
        return stat.resident if stat is not None else 0

    @property
    def idle(self) -> bool:
        """There, awake or not, and nobody holds it or is about to."""
        return self.state in {State.READY, State.SLEEPING} and not self.in_flight and not self.waiters

    def last_lines(self) -> tuple[str, ...]:
        """The child's newest output, oldest first."""
        return self.child.last_lines() if self.child is not None else ()

    def death(self) -> EngineCrashed:
        """Why it can serve no longer, for whoever was being served."""
        if isinstance(self.failure, EngineCrashed):
            return self.failure
        return EngineCrashed(self.name, f"was stopped ({self.reason})" if self.reason else "was stopped")

    # For the fleet.

    def to(self, state: State) -> None:
        """Move, by the table."""
        self.state = move(self.state, state)
        if self.state in OVER or self.state is State.STOPPING:
            self.disarm()
        if self.state in OVER:
            self.gone.set()
        self.changed.fire()

    def disarm(self) -> None:
        """No idle timer any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def crash(self) -> tuple[Failure, EngineCrashed]:
        """Why a child ended by itself, from its code and its words."""
        assert self.child is not None
        lines = self.child.last_lines()
        failure = self.adapter.classify(lines, self.child.code)
        return failure, EngineCrashed(self.name, self.fault or failure.how, self.adapter.telling(lines, _LAST_WORDS))

    def tenancy(self, held: Mapping[str, int] | None) -> tuple[dict[str, int], dict[str, int]]:
        """``(room, growth)`` by pool: bytes that come free when it goes, and promised bytes that it has not taken yet.
        ``held`` is what it has of each GPU now, where that is known.
        """
        taken = {HOST: self.resident_bytes, **(held or {})}
        if self.state is State.SLEEPING:
            return taken, {}
        room = {pool: max(taken.get(pool, 0), need) for pool, need in self.layout.need.items()}
        if self.state is not State.LOADING:
            return taken | room, {}
        return taken | room, {pool: need - taken.get(pool, 0) for pool, need in room.items()}

    def mapped_bytes(self) -> int:
        """Bytes of its weights that are file pages, which the kernel counts as available though they are in use."""
        return effects.mapped_file_bytes(self.pid) if self.pid else 0

    def eta_s(self, now_s: float) -> float | None:
        """Seconds that its load will still take: by how far it is, else by what it took before."""
        if self.state is not State.LOADING or not self.began_at:
            return None
        took_s = now_s - self.began_at
        if self.progress and self.progress > _TELLING:
            return took_s * (1 - self.progress) / self.progress
        return max(0.0, self.usual_s - took_s) if self.usual_s else None

    @property
    def unified(self) -> bool:
        """It is on a GPU that works in main memory."""
        return bool(self.layout.devices) and self.layout.host == self.layout.total

    def on_gpus(self, held: Mapping[str, int] | None) -> int:
        """Bytes that it has of all GPUs: as ``held`` says, else what it was planned to take once it has loaded."""
        if held is not None:
            return sum(held.values())
        there = self.state in {State.READY, State.STOPPING}
        if there and self.unified:
            return self.resident_bytes
        return self.layout.total - self.layout.host if there else 0

    def place(self, layout: Layout) -> None:
        """It loads, and there."""
        self.layout = layout
        self.settings = msgspec.structs.replace(
            self.settings, gpu_layers=layout.layers, devices=layout.devices, parts=layout.parts
        )
        self.reason = ""
        self.to(State.LOADING)

    def view(self, expires_at_ns: int | None, now_s: float, held: Mapping[str, int] | None) -> InstanceView:
        """A snapshot."""
        resident, vram = self.resident_bytes, self.on_gpus(held)
        return InstanceView(
            name=self.name,
            model=self.model,
            generation=self.generation,
            state=str(self.state),
            kind=self.kind,
            build=self.build.tag,
            pid=self.pid,
            host=self.host,
            port=self.port,
            unix=self.unix,
            slots=self.slots,
            context=self.context,
            in_flight=self.in_flight,
            resident_bytes=resident,
            total_bytes=resident + (0 if self.unified else vram),
            vram_bytes=vram,
            gpu_layers=self.layout.layers,
            gpus=self.layout.devices,
            loaded_ns=self.loaded_ns,
            load_duration_ns=self.load_duration_ns,
            last_used_ns=self.last_used_ns,
            expires_at_ns=expires_at_ns,
            progress=self.progress,
            eta_s=self.eta_s(now_s),
            reason=self.draining or self.reason,
        )


class Lease:
    """Holds an instance in memory until it is released."""

    __slots__ = ("_give_back", "instance")

    def __init__(self, instance: Instance, give_back: Callable[[Instance, float | None], None]) -> None:
        self.instance = instance
        self._give_back: Callable[[Instance, float | None], None] | None = give_back

    def release(self, keep_alive_s: float | None = None) -> None:
        """Let go; a second call does nothing.

        ``keep_alive_s`` is how long the model then stays: ``None`` as before, 0 leaves when idle, negative stays for
        good.
        """
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back(self.instance, keep_alive_s)
