"""Conversations that outlive the engine that had read them.

A slot's state belongs to one file of weights, one build, one context and one type of cache; each such shape has a
folder of its own, which the engine writes to and reads from, and nothing is ever read into another. What sessions said
is kept without being asked when a model leaves or sleeps, within a bound of bytes and of time; what a person saves
under a name stays until it is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import BadGateway, Conflict, InsufficientStorage, NotFound
from blazar.models import checkpoints
from blazar.models.checkpoints import AUTO, Checkpoint, Saved
from blazar.models.files import full_disk_told
from blazar.supervisor import effects, probe
from blazar.supervisor.seats import Seating

if TYPE_CHECKING:
    from blazar.clock import Clock
    from blazar.engines.base import Build, Settings
    from blazar.models.catalogue import Model
    from blazar.supervisor.instance import Instance
    from blazar.supervisor.seats import Seat

_log = logging.getLogger(__name__)
# By itself: for each slot, and in all. By hand, people wait longer.
_SLOT_S, _ALL_S, _HAND_S = 2.0, 8.0, 60.0


class Bank:
    """All of them, under ``folder``; ``bound`` bytes at most, 0 for nothing that was not asked for."""

    def __init__(self, folder: Path, bound: int, clock: Clock) -> None:
        self._folder = folder
        self._bound = bound
        self._clock = clock

    def given(self, model: Model, build: Build, settings: Settings) -> Settings:
        """``settings`` with the folder of that shape, where the model generates."""
        if "completion" not in model.capabilities:
            return settings
        weights = model.digest or (model.files, model.size)
        shape = (
            weights,
            build.kind,
            build.tag,
            build.version,
            build.fingerprint,
            settings.projector,
            settings.adapters,
        )
        sizes = (settings.context, settings.cache_type, settings.embeds)
        folder = checkpoints.folder_of(self._folder, model.name, repr((*shape, *sizes)))
        return msgspec.structs.replace(settings, saves=str(folder))

    def open(self, instance: Instance) -> None:
        """Make the folder that the engine is told of. Where that cannot be, it runs all the same, and keeps nothing."""
        if not instance.settings.saves:
            return
        try:
            effects.private_folder(self._folder)
            effects.private_folder(Path(instance.settings.saves))
        except OSError as error:
            _log.warning("the conversations of '%s' cannot be kept: %s", instance.name, error)
            instance.settings = msgspec.structs.replace(instance.settings, saves="")

    # Without being asked.

    async def leaving(self, instance: Instance, within_s: float = _ALL_S) -> None:
        """Save what sessions said to a model that is about to go, or to sleep, unless that is done already."""
        seats = [(number, seat) for number, seat in enumerate(instance.seats.seats) if seat.session and not seat.busy]
        if not self._bound or not instance.settings.saves or all(seat.used_s <= instance.banked_s for _, seat in seats):
            return
        instance.banked_s = self._clock.monotonic_ns() / 1e9
        try:
            await self._keep(instance, seats, within_s)
        except OSError as error:
            # Nobody stays for want of a disk.
            _log.warning("the conversations of '%s' could not be kept: %s", instance.name, error)

    async def _keep(self, instance: Instance, seats: list[tuple[int, Seat]], within_s: float) -> None:
        folder = effects.private_folder(Path(instance.settings.saves))
        if shutil.disk_usage(folder).free < 2 * self._bound:
            _log.info("the conversations of '%s' are not kept: the disk is nearly full", instance.name)
            return
        checkpoint = await self._save(instance, AUTO, seats, _SLOT_S, within_s)
        if checkpoint.slots:
            await asyncio.to_thread(self._fit, folder, checkpoint)

    async def back(self, instance: Instance) -> None:
        """Give a model that is ready what it had when it left."""
        if not self._bound or not instance.settings.saves:
            return
        checkpoint = checkpoints.read(checkpoints.manifest(Path(instance.settings.saves), AUTO))
        if checkpoint is None:
            return
        try:
            async with asyncio.timeout(_ALL_S):
                await self._restore(instance, checkpoint, _SLOT_S)
        except (BadGateway, TimeoutError) as error:
            _log.warning("the conversations of '%s' could not be read back: %s", instance.name, error)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(checkpoints.discard, Path(instance.settings.saves), checkpoint)

    # By hand.

    async def save(self, instance: Instance, name: str) -> Checkpoint:
        """Save all that ``instance`` holds under ``name``, in place of what had that name. Raises Conflict where it
        holds nothing or has no folder, BadGateway, InsufficientStorage.
        """
        self._check(instance)
        folder = effects.private_folder(Path(instance.settings.saves))
        seats = [(number, seat) for number, seat in enumerate(instance.seats.seats) if seat.last is not None]
        if not seats:
            raise Conflict(f"'{instance.name}' holds no conversation that could be saved.")
        if (free := shutil.disk_usage(folder).free) < 2 * self._bound:
            raise InsufficientStorage(f"The checkpoint '{name}'", 2 * self._bound, free, str(folder))
        with full_disk_told(folder, f"The checkpoint '{name}'", lambda: 0):
            checkpoint = await self._save(instance, name, seats, _HAND_S, _HAND_S)
        if not checkpoint.slots:
            raise BadGateway(f"The engine that runs '{instance.name}' saved nothing.")
        return checkpoint

    async def restore(self, instance: Instance, name: str) -> Checkpoint:
        """Read ``name`` back into ``instance``. Raises NotFound, Conflict where it was saved from another shape,
        BadGateway.
        """
        self._check(instance)
        checkpoint = checkpoints.read(checkpoints.manifest(Path(instance.settings.saves), name))
        if checkpoint is None:
            others = [other for other in self.of(instance.name) if other.name == name]
            if not others:
                raise NotFound(f"checkpoint '{name}' of '{instance.name}'")
            raise Conflict(
                f"The checkpoint '{name}' was saved with a context of {others[0].context}, the cache type "
                f"{others[0].cache_type} and the build {others[0].build}; '{instance.name}' runs with "
                f"{instance.settings.context}, {instance.settings.cache_type} and {instance.build.tag}."
            )
        await self._restore(instance, checkpoint, _HAND_S)
        return checkpoint

    def _check(self, instance: Instance) -> None:
        if not instance.settings.saves:
            raise Conflict(f"What '{instance.name}' has read cannot be kept: {self._folder} cannot be written to.")

    def of(self, model: str) -> list[Checkpoint]:
        """Those of a model, the oldest first, whatever they were saved from."""
        return sorted(
            (checkpoint for _, checkpoint in checkpoints.everything(self._folder) if checkpoint.model == model),
            key=lambda one: one.saved_ns,
        )

    def remove(self, model: str, name: str) -> None:
        """Remove a checkpoint, of whatever shape. Raises NotFound."""
        found = [
            (folder, one)
            for folder, one in checkpoints.everything(self._folder)
            if (one.model, one.name) == (model, name)
        ]
        if not found:
            raise NotFound(f"checkpoint '{name}' of '{model}'")
        for folder, checkpoint in found:
            checkpoints.discard(folder, checkpoint)

    # How.

    async def _save(
        self, instance: Instance, name: str, seats: list[tuple[int, Seat]], slot_s: float, all_s: float
    ) -> Checkpoint:
        """As many slots as there is time for. What had the name before is replaced when the new files are there."""
        folder, now_ns = Path(instance.settings.saves), self._clock.time_ns()
        stem, until = checkpoints.stem(name), self._clock.monotonic_ns() / 1e9 + all_s
        saved: list[Saved] = []
        try:
            for number, seat in seats:
                left_s = until - self._clock.monotonic_ns() / 1e9
                if seat.last is None or left_s <= 0:
                    continue
                file = f"{stem}-{number}-{now_ns:x}.bin"
                done = await _act(instance, number, "save", file, min(slot_s, left_s))
                if done is not None and (tokens := done.get("n_saved")):
                    saved.append(Saved(number, file, int(tokens), (*seat.last,), seat.session))
            checkpoint = Checkpoint(
                name=name,
                model=instance.name,
                context=instance.settings.context,
                cache_type=instance.settings.cache_type,
                build=instance.build.tag,
                saved_ns=now_ns,
                size=sum((folder / one.file).stat().st_size for one in saved),
                slots=tuple(saved),
            )
            if saved:
                effects.write_private(checkpoints.manifest(folder, name), msgspec.json.encode(checkpoint))
        finally:
            checkpoints.tidy(folder, name)
        return checkpoint

    async def _restore(self, instance: Instance, checkpoint: Checkpoint, within_s: float) -> None:
        for one in checkpoint.slots:
            if one.slot >= instance.slots:
                continue
            done = await _act(instance, one.slot, "restore", one.file, within_s)
            if done is None or done.get("n_restored") != one.tokens:
                raise BadGateway(f"The engine that runs '{instance.name}' could not read the checkpoint's {one.file}.")
            seat = instance.seats.seats[one.slot]
            seat.last, seat.session = Seating(*one.seating), one.session
            seat.used_s = instance.banked_s = self._clock.monotonic_ns() / 1e9

    def _fit(self, folder: Path, kept: Checkpoint) -> None:
        """The oldest that nobody asked for leave until all are within the bound; the newest too, if it is too large."""
        rows = [(where, one) for where, one in checkpoints.everything(self._folder) if one.name == AUTO and one != kept]
        rows.sort(key=lambda row: row[1].saved_ns)
        size = sum(one.size for _, one in checkpoints.everything(self._folder))
        for where, one in (*rows, (folder, kept)):
            if size <= self._bound:
                return
            checkpoints.discard(where, one)
            size -= one.size


async def _act(instance: Instance, slot: int, action: str, file: str, within_s: float) -> dict[str, Any] | None:
    """Have the engine save or restore a slot; what it tells, or ``None``. A busy slot is waited for."""
    answer = await probe.post(
        instance.address, f"/slots/{slot}?action={action}", instance.secret, {"filename": file}, within_s
    )
    if answer is None or answer[0] != 200:
        return None
    try:
        return msgspec.json.decode(answer[1], type=dict[str, Any])
    except msgspec.DecodeError:
        return None
