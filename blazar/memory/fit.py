"""Whether a model fits a machine, how, and how fast it is there. Pure: a header and a machine in, a verdict out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from blazar.memory import footprint
from blazar.memory.layers import layers
from blazar.memory.layouts import HOST, Device, Layout, layouts

if TYPE_CHECKING:
    from blazar.models.header import Header

Fits = Literal["gpu", "gpus", "partly", "memory", "no"]
_ORDER: tuple[Fits, ...] = ("gpu", "gpus", "partly", "memory", "no")
# What a conversation has at least, and what most have.
LEAST, USUAL = 2048, 8192
_MOST_SLOTS = 64
# Of what memory can be read at, an engine gets about this much, and a token takes this much time besides: measured with
# llama.cpp on a processor, on the cautious side.
EFFICIENCY, PER_TOKEN_S = 0.5, 0.0002
# Slower than people read.
_READABLE = 8.0


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` and the devices' reach are bytes that models can have; ``rates`` are bytes a second that each pool is
    read at, where that is known.
    """

    host: int
    devices: tuple[Device, ...] = ()
    rates: Mapping[str, int] = {}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``need``: bytes with one slot of ``context`` tokens, the most that fits in the same kind of place; of what does
    not fit, with the least that is of use. ``layers`` of ``of`` are on GPUs. ``slots`` conversations of ``each`` tokens
    fit at once. ``speed`` is in tokens a second for one reader, ``None`` where nobody knows how fast the memory is.
    """

    fits: Fits
    need: int
    context: int
    trained: int
    layers: int
    of: int
    slots: int
    each: int
    speed: float | None


def judge(
    header: Header, machine: Machine, *, context: int = 0, cache_type: str = "f16", projector: int = 0
) -> Verdict:
    """The verdict on ``header``'s model; ``context`` is what is wanted at least, 0 where nobody says.

    Raises ConfigError as the footprint does.
    """
    trained = header.context_length or footprint.CELL_STEP

    def place(tokens: int, slots: int = 1) -> tuple[Fits, Layout]:
        pieces = footprint.pieces(header, tokens, slots, cache_type, projector=projector)
        best: tuple[Fits, Layout] | None = None
        for layout in layouts(pieces, machine.devices):
            kind = _kind(layout, len(pieces.layers) + 1, machine)
            if best is None or _ORDER.index(kind) < _ORDER.index(best[0]):
                best = kind, layout
        assert best is not None
        return best

    base = context or min(LEAST, trained)
    kind, layout = place(base)

    def same(tokens: int, slots: int = 1) -> bool:
        return _ORDER.index(place(tokens, slots)[0]) <= _ORDER.index(kind)

    if kind == "no":
        return _verdict(header, machine, kind, layout, base, trained, 0, base)
    most = _most(base, max(base, trained), footprint.CELL_STEP, same)
    each = context or min(USUAL, most)
    slots = _most(1, _MOST_SLOTS, 1, lambda count: same(each, count))
    return _verdict(header, machine, kind, place(most)[1], most, trained, slots, each)


def best(verdicts: Sequence[Verdict], sizes: Sequence[int], exact: Sequence[int]) -> int | None:
    """Which to take, by place: of those in the best kind of place the largest that leaves a usual context and is not
    slower than people read, where there is one. ``exact`` are places of those whose numbers were not made smaller: more
    than anybody hears. ``None`` where none fits.
    """
    fitting = [place for place, verdict in enumerate(verdicts) if verdict.fits != "no"]
    if not fitting:
        return None

    def merit(place: int) -> tuple[bool, bool, bool, int, int]:
        verdict = verdicts[place]
        roomy = verdict.context >= min(USUAL, verdict.trained)
        quick = verdict.speed is None or verdict.speed >= _READABLE
        size = sizes[place] if quick else -sizes[place]
        return place not in exact, roomy, quick, -_ORDER.index(verdict.fits), size

    return max(fitting, key=merit)


def _kind(layout: Layout, every: int, machine: Machine) -> Fits:
    reach = {HOST: machine.host, **{device.id: device.reach for device in machine.devices if not device.unified}}
    if any(held > reach.get(pool, 0) for pool, held in layout.need.items()):
        return "no"
    if not layout.devices:
        return "memory"
    if 0 <= layout.layers < every:
        return "partly"
    return "gpu" if len(layout.devices) == 1 else "gpus"


def _most(low: int, high: int, step: int, fits: Callable[[int], bool]) -> int:
    """The largest of ``low``, ``low + step`` and so on up to ``high`` that fits; ``low`` does."""
    if fits(high):
        return high
    least, most = 0, (high - low) // step
    while least < most:
        middle = (least + most + 1) // 2
        if fits(low + middle * step):
            least = middle
        else:
            most = middle - 1
    return low + least * step


def _verdict(
    header: Header,
    machine: Machine,
    kind: Fits,
    layout: Layout,
    context: int,
    trained: int,
    slots: int,
    each: int,
) -> Verdict:
    every = header.block_count + 1
    on_gpus = every if layout.layers < 0 and layout.devices else max(layout.layers, 0)
    return Verdict(
        fits=kind,
        need=layout.total,
        context=context,
        trained=trained,
        layers=on_gpus,
        of=every,
        slots=slots,
        each=each,
        speed=_speed(header, machine, layout, on_gpus / every) if kind != "no" else None,
    )


def _speed(header: Header, machine: Machine, layout: Layout, share: float) -> float | None:
    """One token reads every weight that takes part in it once, wherever that lies."""
    stack = layers(header) or ()
    fixed = footprint.constants(header)
    total = sum(layer.weights for layer in stack) or max(header.tensor_bytes - fixed.embedding, 0)
    experts, used = header.numbers.get("expert_count", 0), header.numbers.get("expert_used_count", 0)
    idle = header.expert_bytes * (1 - used / experts) if experts and used <= experts else 0
    read = total - idle + fixed.output
    pools = layout.devices or ()
    slowest = min((machine.rates.get(pool, 0) for pool in pools), default=0)
    host = machine.rates.get(HOST, 0)
    if (share and not slowest) or (share < 1 and not host) or not read:
        return None
    seconds = (read * share / slowest if share else 0.0) + (read * (1 - share) / host if share < 1 else 0.0)
    return 1 / (seconds / EFFICIENCY + PER_TOKEN_S)
