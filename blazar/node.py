"""The composition root: builds every part from a config, wires them, starts and stops them in order."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from blazar import store
from blazar.admission.flight import Flights
from blazar.admission.gate import Gate
from blazar.admission.keys import Keys
from blazar.admission.semantic import Answers
from blazar.clock import Clock, SystemClock
from blazar.errors import BlazarError, EngineCrashed, ShuttingDown
from blazar.models.catalogue import Catalogue
from blazar.observe.events import Event, Events
from blazar.observe.pulse import Pulse
from blazar.relay.delivery import Reason
from blazar.relay.relay import Relay
from blazar.supervisor.fleet import Fleet

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Config
    from blazar.engines.install.keeper import Keeper
    from blazar.models.catalogue import Model
    from blazar.models.library import Library

_log = logging.getLogger("blazar")


class Node:
    """One running Blazar. Parts are public: the gateway reads them, nobody replaces them."""

    def __init__(self, config: Config, paths: Paths, owner: str = "") -> None:
        """``owner`` is a secret that opens everything, for whoever may read this machine's files."""
        self.config = config
        self.paths = paths
        self.clock: Clock = SystemClock()
        self.events = Events(self.clock.time_ns)
        self.store = store.open(paths.database)
        self.catalogue = Catalogue(self.store)
        self.fleet = Fleet(config, paths, self.catalogue, self.store, self.events, self.clock)
        self.keys = Keys(paths.config_file, config.keys, self.store.usage, self.clock, owner)
        self.gate = Gate(config.admission, self.clock)
        self.flights = Flights()
        self.answers = Answers(config.semantic_cache.max_entries, config.semantic_cache.max_bytes, self.clock)
        self.relay = Relay(config.relay, self.fleet.health)
        self.pulse = Pulse()
        self._warming: set[asyncio.Task[None]] = set()
        # What is to hear that Blazar stops, before its parts do.
        self.leaving: set[Callable[[], None]] = set()
        # What is to begin when they have started.
        self.ready: list[Callable[[], None]] = []
        self._deaf = self.events.listen(self._heard)

    @cached_property
    def library(self) -> Library:
        """What gets and keeps models. It works in threads, and so has a view of the catalogue of its own."""
        from blazar.models.library import Library  # noqa: PLC0415  (most days nothing is fetched)

        return Library(self.paths, self.config, Catalogue(self.store))

    @cached_property
    def builds(self) -> Keeper:
        """What installs engines and lets them go. It blocks, and so works in threads."""
        from blazar.engines.install.keeper import Keeper  # noqa: PLC0415  (most days nothing is installed)

        return Keeper(self.config, self.paths, self.store.builds)

    async def start(self) -> None:
        """Sweep what an earlier life left, then be ready for requests."""
        await self.fleet.start()
        # What an earlier life was killed over will not go on.
        self.store.responses.abandoned(json.dumps({"code": "server_error", "message": "Blazar was stopped."}))
        self.relay.start()
        self.keys.start()
        self.pulse.start()
        if self.config.residency.preload:
            preload = asyncio.ensure_future(self._preload())
            self._warming.add(preload)
            preload.add_done_callback(self._warming.discard)
        # What exists now stays for good: the collector need not look at it again, nor often at what a request makes,
        # which is freed by its reference counts.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)

    def warm(self, model: Model, context: int | None = None) -> None:
        """Have a model loaded when there is time; a failure is logged."""
        task = asyncio.ensure_future(self._warm(model, context))
        self._warming.add(task)
        task.add_done_callback(self._warming.discard)

    async def _warm(self, model: Model, context: int | None) -> None:
        try:
            (await self.fleet.ensure_ready(model, context=context)).release()
        except BlazarError as error:
            _log.warning("'%s' could not be loaded beforehand: %s", model.name, error)

    async def _preload(self) -> None:
        """One after the other, so that what does not fit is told and not swapped for."""
        for name in self.config.residency.preload:
            try:
                model = self.catalogue.find(name)
            except BlazarError as error:
                _log.warning("'%s' could not be loaded beforehand: %s", name, error)
            else:
                await self._warm(model, None)

    async def stop(self) -> None:
        """End every answer with a word, then every child."""
        for tell in tuple(self.leaving):
            tell()
        for task in tuple(self._warming):
            task.cancel()
        leaving = ShuttingDown()
        self.relay.stop(Reason("unavailable", leaving.code, leaving.message))
        self.gate.close(leaving)
        await self.fleet.stop()
        self._deaf()
        self.pulse.stop()
        self.keys.stop()
        self.store.close()

    def _heard(self, event: Event) -> None:
        """A child that is gone takes its connections and its waiting list along."""
        if event.kind == "instance.exit":
            generation = int(event.data["generation"] or 0)
            self.relay.child_left(event.subject, generation)
            self.gate.drop(generation, EngineCrashed(event.subject, event.detail or "ended"))
