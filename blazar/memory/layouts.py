"""Where a model can go: which of its layers on which GPUs, and what that takes of each pool of memory. Pure.

Layers are given to GPUs as llama.cpp gives them: counted from the end with the output as the first of them, in
consecutive runs, so that a number for each GPU says exactly what lies where (``n_gpu_layers`` and ``tensor_split``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from blazar.memory.footprint import PROCESS, Pieces

# The pool of main memory; the others are named by their GPUs' ids.
HOST = ""
# How finely the fill of several GPUs is made equal.
_STEPS = 256


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that a model may have ``reach`` bytes of, once others have left. ``unified``: it works in main memory;
    ``rank`` orders the GPUs, the fastest first.
    """

    id: str
    reach: int
    unified: bool = False
    rank: float = 0


class Seen(msgspec.Struct, frozen=True):
    """What a model really took with so many layers on GPUs: bytes of main memory, and of all GPUs together."""

    layers: int
    host: int
    device: int


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """``need``: bytes by pool. ``layers`` on GPUs, the output being one of them, -1 for all there are; ``parts`` says
    how many of them each of ``devices`` has.
    """

    need: Mapping[str, int]
    layers: int = 0
    devices: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()

    @property
    def host(self) -> int:
        """Bytes of main memory."""
        return self.need.get(HOST, 0)

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return sum(self.need.values())


def layouts(
    pieces: Pieces, devices: Sequence[Device], layers: int = -1, *, apart: bool = True, seen: Seen | None = None
) -> list[Layout]:
    """The best kind of place there is for a model, and of that kind every one, the best first: wholly on one GPU, on as
    few as will do, as many of its layers as go on all of them, main memory.

    ``layers`` fixes how many go on GPUs. Without ``apart`` an engine cannot be told which of several GPUs to take.
    """
    every = len(pieces.layers) + 1
    wanted = every if layers < 0 else min(layers, every)
    maker = _Maker(pieces, apart=apart, seen=seen)
    if not wanted or not devices:
        return [maker.host()]
    if any(device.unified for device in devices):
        return [maker.unified(wanted, devices[0])]
    found = maker.on(wanted, devices)
    if layers > 0:
        # Who fixes the number hears what is missing for it.
        roomy = sorted(devices, key=lambda device: -device.reach)
        return found or [maker.layout(wanted, roomy[:1], [1 if pieces.whole else wanted])]
    least, most = 0, wanted - 1
    while not found and least < most and not pieces.whole:
        middle = (least + most + 1) // 2
        if maker.on(middle, devices):
            least = middle
        else:
            most = middle - 1
    return found or (maker.on(least, devices) if least > 1 else []) or [maker.host()]


class _Maker:
    """Makes layouts of one model."""

    def __init__(self, pieces: Pieces, *, apart: bool, seen: Seen | None) -> None:
        self._pieces = pieces
        self._apart = apart
        self._seen = seen

    def host(self) -> Layout:
        """All in main memory."""
        host = self._pieces.host
        if self._seen is not None and self._seen.layers == 0:
            host = max(host, self._seen.host)
        return Layout(need={HOST: host})

    def unified(self, layers: int, device: Device) -> Layout:
        """On a GPU that works in main memory: nothing is saved by leaving a part away."""
        seen, plain = self._seen, _Maker(self._pieces, apart=self._apart, seen=None)
        layout = plain.layout(layers, [device], [1 if self._pieces.whole else layers])
        # What was seen there is all of it, counted once: its process and its GPU share the memory.
        total = layout.total
        if seen is not None and seen.layers == layout.layers:
            total = max(total, seen.host)
        return Layout(need={HOST: total}, layers=layout.layers, devices=layout.devices)

    def on(self, layers: int, devices: Sequence[Device]) -> list[Layout]:
        """With so many layers on one GPU, or if that cannot be also on several."""
        items = 1 if self._pieces.whole else layers
        found = list[Layout]()
        if self._apart or len(devices) == 1:
            for device in sorted(devices, key=lambda one: (one.rank, one.reach)):
                layout = self.layout(layers, [device], [items])
                if layout.need[device.id] <= device.reach:
                    found.append(layout)
        roomy = sorted(devices, key=lambda one: -one.reach)
        for count in range(2 if self._apart else max(2, len(devices)), len(devices) + 1):
            chosen = roomy[:count]
            parts = [] if self._pieces.whole else self._spread(layers, chosen)
            if parts and all(parts):
                found.append(self.layout(layers, chosen, parts))
        return found

    def layout(self, layers: int, devices: Sequence[Device], parts: Sequence[int]) -> Layout:
        """Its bytes, and no less than were seen."""
        pieces, items = self._pieces, self._items(layers)
        stays = pieces.host - pieces.projector - pieces.moved - (sum(items) - pieces.output)
        need, start = {HOST: max(stays, PROCESS)}, 0
        for place, (device, count) in enumerate(zip(devices, parts, strict=True)):
            held = sum(items[start : start + count]) + pieces.each + (0 if place else pieces.projector)
            need[device.id], start = held, start + count
        seen = self._seen
        if seen is not None and seen.layers == (-1 if pieces.whole else layers):
            planned = sum(need.values()) - need[HOST]
            more = max(0, seen.device - planned)
            need = {pool: held + (held * more // planned if pool else 0) for pool, held in need.items()}
            need[HOST] = max(need[HOST], seen.host)
        named = tuple(device.id for device in devices)
        told = tuple(parts) if len(devices) > 1 and self._apart else ()
        return Layout(need=need, layers=-1 if pieces.whole else layers, devices=named, parts=told)

    def _items(self, layers: int) -> tuple[int, ...]:
        """Bytes of each of the last ``layers``, the output included."""
        pieces = self._pieces
        if pieces.whole:
            return (max(0, pieces.host - pieces.projector),)
        return (*pieces.layers[len(pieces.layers) + 1 - layers :], pieces.output)

    def _spread(self, layers: int, devices: Sequence[Device]) -> list[int]:
        """How many go on each, so that the fullest is as empty as can be; nothing where they do not go on."""
        low, high = 0, _STEPS + 1
        found: list[int] = []
        while low < high:
            middle = (low + high) // 2
            parts = self._fill(layers, devices, middle) if middle <= _STEPS else []
            if parts:
                found, high = parts, middle
            else:
                low = middle + 1
        return found

    def _fill(self, layers: int, devices: Sequence[Device], step: int) -> list[int]:
        """One after the other up to ``step`` of ``_STEPS`` of its reach."""
        items, start, parts = self._items(layers), 0, list[int]()
        for place, device in enumerate(devices):
            left = device.reach * step // _STEPS - self._pieces.each - (0 if place else self._pieces.projector)
            count = 0
            while start < len(items) and items[start] <= left:
                left -= items[start]
                start, count = start + 1, count + 1
            parts.append(count)
        return parts if start == len(items) else []
