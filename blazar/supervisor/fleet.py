"""All children, and the one owner of them. Others ask for a lease, or for a snapshot."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from blazar.engines.base import Adapter
from blazar.engines.llamacpp import LlamaCpp
from blazar.errors import (
    AllSlotsBusy,
    BadRequest,
    BlazarError,
    Conflict,
    EngineCrashed,
    InsufficientMemory,
    NotFound,
    ShuttingDown,
)
from blazar.supervisor import effects, sweep
from blazar.supervisor.bank import Bank
from blazar.supervisor.circuit import Circuits
from blazar.supervisor.health import Health
from blazar.supervisor.instance import Instance, InstanceView, Lease
from blazar.supervisor.loader import Loader
from blazar.supervisor.lock import Lock
from blazar.supervisor.memory import HostMemory, Memory, held
from blazar.supervisor.outlook import Outlook
from blazar.supervisor.room import Room
from blazar.supervisor.seats import Seats
from blazar.supervisor.sessions import Sessions
from blazar.supervisor.settings import Need, context_asked
from blazar.supervisor.slumber import Slumber
from blazar.supervisor.state import OVER, State
from blazar.supervisor.stay import Stay

if TYPE_CHECKING:
    from blazar.clock import Clock
    from blazar.config.paths import Paths
    from blazar.config.schema import Config
    from blazar.models.catalogue import Catalogue, Model
    from blazar.observe.events import Events
    from blazar.store import Store

_log = logging.getLogger(__name__)
_LOCK_S = 5.0
_HASTE_S = 2.0  # who stops Blazar waits


class Fleet:
    """Loads models, holds them while they are leased, and lets them go. Belongs to one event loop."""

    def __init__(
        self,
        config: Config,
        paths: Paths,
        catalogue: Catalogue,
        store: Store,
        events: Events,
        clock: Clock,
        *,
        memory: Memory | None = None,
        adapters: Sequence[Adapter] = (LlamaCpp(),),
    ) -> None:
        self._config = config
        self._catalogue = catalogue
        self._paths = paths
        self._events = events
        self._clock = clock
        self._memory = memory if memory is not None else HostMemory(catalogue.header)
        self.bank = Bank(paths.sessions, config.residency.session_bank_bytes, clock)
        self._loader = Loader(config, paths, store, self._memory, adapters, self.bank)
        self._instances: dict[str, Instance] = {}
        self._ticks = itertools.count(1)
        self._circuits = Circuits()
        self._room = Room(self._memory, config.residency, clock, self)
        self.outlook = Outlook(self._loader, self._room)
        self._stay = Stay(self._leave, self._room.freed.fire)
        self._slumber = Slumber(clock, self, self.bank)
        self.health = Health(config.health, clock, self)
        self.sessions = Sessions(config.residency.session_keep_s, clock, self._room.freed.fire)
        self._routing = asyncio.Lock()
        self._wishes: dict[str, Need] = {}
        self._pinned = frozenset(config.residency.pinned)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loads: dict[Instance, asyncio.Task[None]] = {}
        self._departures: dict[Instance, asyncio.Task[None]] = {}
        self._lock = Lock(paths.run / "lock")
        self._closing = False

    async def start(self) -> None:
        """Take this home and end what an earlier life left. Raises Conflict when another daemon has it."""
        effects.private_folder(self._paths.run)
        await asyncio.to_thread(self._lock.take, _LOCK_S)
        for orphan in await sweep.sweep(self._paths.run, self._paths.data):
            _log.warning("ended process %d, which an earlier Blazar left with '%s'", orphan.pid, orphan.model)
        self.health.start()

    async def stop(self) -> None:
        """End every child; nobody gets a lease any more."""
        self._closing = True
        await self.health.stop()
        loads = list(self._loads.values())
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        for instance in tuple(self._instances.values()):
            self._leave(instance, "Blazar stops")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lock.give()

    async def ensure_ready(
        self,
        model: Model,
        *,
        context: int | None = None,
        embeds: bool = False,
        sees: bool = False,
        session: str | None = None,
        modest: bool = False,
    ) -> Lease:
        """A lease on the instance of ``model``, which is loaded first if need be, once for all who ask together.

        ``context`` (tokens) is the least that will do; ``embeds`` wants vectors of a model that generates, ``sees`` its
        projector. An instance with less is replaced when nobody uses it. ``session`` keeps it there for a while. For
        who is ``modest`` nobody is sent away and nothing loaded anew. Cancelling leaves the load to others, or itself.

        Raises EngineCrashed, ModelLoadTimeout, InsufficientMemory, ModelTooLarge, EngineCircuitOpen,
        ModelUnsupportedEngine, AllSlotsBusy, BadRequest, Conflict, NotFound, ShuttingDown.
        """
        need = Need(context_asked(model, context), embeds, sees)
        while True:
            if self._closing:
                raise ShuttingDown
            instance = self._instances.get(model.name)
            if instance is not None and not modest:
                instance.modest = False
            if instance is None:
                await self._begin(model, need, modest=modest)
            elif instance.draining or instance.state not in {State.READY, State.SLEEPING}:
                await self._moved(instance)
            elif modest and not need.met_by(instance.settings):
                raise Conflict(f"'{model.name}' is in memory for another use, and is not loaded anew for this.")
            elif not need.met_by(instance.settings):
                await self._drain(instance, need)
            elif need.context > instance.context:
                raise BadRequest(
                    f"The engine gives '{model.name}' a context of {instance.context} tokens; "
                    f"{need.context} were asked for.",
                    param="num_ctx",
                )
            elif instance.state is State.SLEEPING:
                instance.modest = modest
                instance.to(State.WAITING)
                self._start(instance)
            else:
                if session is not None:
                    self.sessions.name(session, instance.name)
                return self._lend(instance)

    def loaded(self, name: str) -> Instance | None:
        """The instance of a model that answers now. Looking holds nothing."""
        instance = self._instances.get(name)
        return instance if instance is not None and instance.state is State.READY else None

    def snapshot(self) -> tuple[InstanceView, ...]:
        """Every instance now, the oldest first."""
        now_ns, now_s = self._clock.time_ns(), self._now()
        return tuple(
            instance.view(self._stay.expires_ns(instance, now_ns), now_s, held(self._memory, instance))
            for instance in self._instances.values()
        )

    async def unload(self, name: str, reason: str) -> bool:
        """Have a model leave: at once when it is idle, else after its last lease. Returns when it is gone; ``False``
        when it was not loaded or is still held.
        """
        instance = self._instances.get(name)
        if instance is None:
            return False
        if instance.idle or instance.state is State.STOPPING:
            await asyncio.shield(self._leave(instance, reason))
            return True
        instance.keep_alive_s = 0.0
        return False

    async def gone(self, name: str) -> None:
        """Return when the instance of a model that is here now has left."""
        instance = self._instances.get(name)
        if instance is not None:
            await instance.gone.wait()
            if (departure := self._departures.get(instance)) is not None:
                await asyncio.shield(departure)

    def touch(self, name: str, keep_alive_s: float) -> bool:
        """Let a loaded model stay this long from now (seconds; negative: for good); ``False`` when it is not loaded."""
        instance = self._instances.get(name)
        if instance is None:
            return False
        self._stay.rest(instance, keep_alive_s)
        return True

    def reset(self, name: str) -> None:
        """Forget the crashes of a model, so that it may be started at once."""
        self._circuits.reset(name)

    def tenants(self) -> tuple[Instance, ...]:
        """Everybody who has, or is about to have, memory."""
        return tuple(self._instances.values())

    def is_kept(self, instance: Instance) -> bool:
        """It is not sent away for another: the settings or a session say so."""
        return instance.name in self._pinned or self.sessions.hold(instance.name)

    def fell_asleep(self, instance: Instance) -> None:
        """Its engine has let go of the model, and of all that it had read."""
        instance.seats = Seats(instance.slots)
        instance.to(State.SLEEPING)
        self._tell(instance)
        self._room.freed.fire()

    def leave(self, instance: Instance, reason: str) -> asyncio.Task[None]:
        """Have an idle instance go."""
        return self._leave(instance, reason)

    def drain(self, instance: Instance, reason: str) -> bool:
        """Have it go when its last lease ends; nobody gets another meanwhile. ``False`` where it was to go anyway."""
        if instance.state is not State.READY or instance.draining:
            return False
        instance.draining = reason
        instance.changed.fire()
        self._stay.rest(instance)
        return True

    def resume(self, instance: Instance) -> None:
        """It need not go after all."""
        if instance.state is State.READY and instance.draining:
            instance.draining = ""
            instance.changed.fire()

    def replace(self, instance: Instance, how: str) -> None:
        """Kill a child that serves no longer; whoever it owed something hears that the engine ``how``."""
        if instance.state is State.READY and instance.child is not None:
            instance.fault = how
            self._task(instance.child.kill())

    # Leases.

    def _lend(self, instance: Instance) -> Lease:
        instance.in_flight += 1
        self._used(instance)
        return Lease(instance, self._take_back)

    def _take_back(self, instance: Instance, keep_alive_s: float | None) -> None:
        instance.in_flight -= 1
        if instance.state in OVER:
            return
        self._used(instance)
        self._stay.rest(instance, keep_alive_s)

    def _used(self, instance: Instance) -> None:
        instance.last_used_ns = self._clock.time_ns()
        instance.last_used_tick = next(self._ticks)
        instance.used_at = self._now()

    async def _moved(self, instance: Instance) -> None:
        """Until something about ``instance`` changes. Raises the error of a load that failed."""
        # Who waits for a load has a claim to it before any timer; who waits for a departure has none.
        claim = instance.state in {State.WAITING, State.LOADING}
        instance.waiters += claim
        try:
            await instance.changed.wait()
        except BaseException:
            instance.waiters -= claim
            self._stay.rest(instance)
            raise
        instance.waiters -= claim
        if instance.state is State.FAILED and instance.failure is not None:
            raise instance.failure.with_traceback(None)

    async def _drain(self, instance: Instance, need: Need) -> None:
        """Have ``instance`` replaced when its last lease ends. Raises AllSlotsBusy when that takes too long."""
        words = instance.draining = need.words(instance.settings)
        # Whoever makes the next instance, maybe for somebody who does not care, makes it do for all who asked so far.
        self._wishes[instance.name] = need.joined(self._wishes.get(instance.name, Need.of(instance.settings)))
        self._stay.rest(instance)
        wait_s = self._config.admission.wait_s
        try:
            async with asyncio.timeout(wait_s):
                await instance.gone.wait()
        except TimeoutError:
            raise AllSlotsBusy(instance.name, instance.slots, 1, min(wait_s, 30.0)) from None
        finally:
            if instance.draining == words and instance.state in {State.READY, State.SLEEPING}:
                instance.draining = ""
                self._wishes.pop(instance.name, None)
                instance.changed.fire()

    # Coming.

    async def _begin(self, model: Model, need: Need, *, modest: bool) -> None:
        """Make the instance and start its load, unless somebody else just did."""
        async with self._routing:
            if model.name in self._instances:
                return
            if lost := self._catalogue.lost(model):
                raise NotFound(f"file {lost}, which '{model.name}' needs,")
            adapter, build = await self._loader.route(model)
            if self._closing:
                return
            self._circuits.check((model.name, build.tag), model.name, self._now())
            need = need.joined(self._wishes.pop(model.name, Need()))
            instance = self._loader.instance(model, adapter, build, need, modest=modest)
            self._instances[model.name] = instance
            self._start(instance)

    def _start(self, instance: Instance) -> None:
        """Have a waiting one loaded, or woken."""
        self._tell(instance)
        load = self._loads[instance] = self._task(self._load(instance))
        load.add_done_callback(lambda _: self._loads.pop(instance, None))

    async def _load(self, instance: Instance) -> None:
        """From nothing or from sleep to ready, or to an error that everybody who waits gets."""
        began = self._clock.monotonic_ns()
        slept = instance.child is not None
        try:
            await self._room.make(instance, self._config.admission.wait_s)
            instance.began_at = self._now()
            self._tell(instance)
            await self._loader.bring(
                instance, lambda: self._ended(instance), lambda fraction: self._progressed(instance, fraction)
            )
            if instance.child is None or instance.child.code is not None:
                raise self._died(instance)
        except BlazarError as error:
            await self._fail(instance, error)
        except OSError as error:
            await self._fail(instance, EngineCrashed(instance.name, f"could not be started ({error})"))
        except BaseException:
            # Whoever waits must hear of it, also of a fault of ours.
            stopped = EngineCrashed(instance.name, "could not be started")
            await self._fail(instance, ShuttingDown() if self._closing else stopped)
            raise
        else:
            self._became_ready(instance, self._clock.monotonic_ns() - began)
            if not slept:
                self._loader.measure(instance)

    def _progressed(self, instance: Instance, fraction: float | None) -> None:
        instance.progress = fraction
        self._events.tell("instance.load_progress", instance.name, generation=instance.generation, fraction=fraction)

    def _became_ready(self, instance: Instance, took_ns: int) -> None:
        instance.progress = None
        instance.load_duration_ns = took_ns
        instance.loaded_ns = self._clock.time_ns()
        self._used(instance)
        instance.ready_at = self._now()
        instance.began_bytes = instance.resident_bytes
        instance.to(State.READY)
        self._tell(instance)
        self._room.freed.fire()
        self._slumber.begin(instance)
        self._stay.rest(instance)

    async def _fail(self, instance: Instance, error: BlazarError) -> None:
        """Give up a load: its child is gone before anybody hears of it, so that its room is free."""
        if instance.child is not None:
            await instance.child.kill()
        instance.failure = error
        instance.reason = error.message
        instance.to(State.FAILED)
        self._forget(instance)

    def _died(self, instance: Instance) -> BlazarError:
        """The error of a child that ended by itself. Want of memory is no fault of the model or the build."""
        failure, error = instance.crash()
        if failure.cause == "memory" and instance.state is State.LOADING:
            holders = [other.name for other in self._instances.values() if other is not instance]
            return InsufficientMemory(instance.name, instance.layout.total, self._memory.available(), holders)
        self._circuits.crashed((instance.name, instance.build.tag), self._now(), error.last_lines)
        return error

    # Going.

    def _leave(self, instance: Instance, reason: str) -> asyncio.Task[None]:
        """Start the departure of an instance that has a child; a second call joins the first."""
        departure = self._departures.get(instance)
        if departure is None:
            instance.reason = reason
            instance.to(State.STOPPING)
            self._events.tell("instance.unload", instance.name, reason, generation=instance.generation)
            self._tell(instance)
            departure = self._departures[instance] = self._task(self._depart(instance))
        return departure

    async def _depart(self, instance: Instance) -> None:
        assert instance.child is not None
        await self.bank.leaving(instance, *([_HASTE_S] if self._closing else []))
        await instance.child.stop(self._config.residency.stop_grace_s)
        del self._departures[instance]
        instance.to(State.STOPPED)
        self._forget(instance)

    def _ended(self, instance: Instance) -> None:
        """Called when a child is reaped, whatever the reason."""
        if instance.state in {State.READY, State.SLEEPING}:
            instance.failure = self._died(instance)
            instance.reason = instance.failure.message
            instance.to(State.CRASHED)
            self._forget(instance)
        assert instance.child is not None
        self._events.tell(
            "instance.exit",
            instance.name,
            instance.reason or "ended",
            generation=instance.generation,
            pid=instance.child.pid,
            code=instance.child.code,
        )

    def _forget(self, instance: Instance) -> None:
        del self._instances[instance.name]
        self._loader.clear(instance)
        self.health.forget(instance)
        self._slumber.forget(instance)
        self._tell(instance)
        self._room.freed.fire()

    # Small things.

    def _tell(self, instance: Instance) -> None:
        self._events.tell(
            "instance.state", instance.name, str(instance.state), generation=instance.generation, reason=instance.reason
        )

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9
