"""What a model takes once it is loaded: weights, cache, compute buffers, projector, and what the process itself needs.

The formulas are llama.cpp's allocations. Weights: the tensor table. Cache: cells times widths times the bytes of the
cache type, cells being the context of a slot rounded up to 256, for sliding layers no more than window and one
micro-batch, also rounded up. Compute and reserve: fitted to what the engine reports and what its process holds for real
models, and rounded to the safe side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from blazar.errors import ConfigError
from blazar.memory.layers import Layer, layers

if TYPE_CHECKING:
    from blazar.models.header import Header

# Bytes of 32 elements.
CACHE_TYPES = {
    "f32": 128, "f16": 64, "bf16": 64, "q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18,
}  # fmt: skip
CELL_STEP = 256
MICRO_BATCH = 512
# A process of the engine with nothing loaded, and each vocabulary entry in its tokenizer's tables.
PROCESS = 40 << 20
PER_TOKEN = 256
# What a GPU's runtime takes for itself.
DEVICE = 300 << 20
# Bounds within which the arithmetic stays inside 64 bits.
_MOST_TOKENS, _MOST_SLOTS = 1 << 27, 4096


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, by what they are for; ``total`` is their sum. ``device`` is the part of it on GPUs.

    ``complete`` is false when the header does not say what the layers keep: then ``kv`` is 0, the total a lower bound.
    """

    weights: int
    kv: int
    compute: int
    projector: int
    reserve: int
    total: int
    device: int
    complete: bool


class Pieces(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one model as it is to run. ``host`` is all of it in main memory; ``layers`` has weights and cache of
    each; ``output`` comes after the last one, and ``moved`` is the part of it that main memory then has no more;
    ``each`` is what every GPU in use needs besides. ``whole``: nobody knows what its layers take, it goes in one.
    """

    host: int
    layers: tuple[int, ...] = ()
    output: int = 0
    moved: int = 0
    each: int = DEVICE
    projector: int = 0
    whole: bool = True


class Constants(msgspec.Struct, frozen=True, kw_only=True):
    """What does not depend on context, slots, cache type or placement. Bytes.

    ``embedding`` stays on the host; ``output`` is what goes to the GPU after the last layer, and ``moved`` the part of
    it that the host then has no more (a model without an output matrix of its own has its embeddings copied).
    ``activations`` is for one micro-batch, ``logits`` for each slot.
    """

    embedding: int
    moved: int
    output: int
    activations: int
    logits: int
    reserve: int


def constants(header: Header) -> Constants:
    """The parts of ``header``'s footprint that no option changes."""
    outside = max(header.tensor_bytes - sum(header.layer_bytes), 0)
    embedding = min(header.embedding_bytes, outside)
    experts = header.numbers.get("expert_used_count", 0) * header.numbers.get("expert_feed_forward_length", 0)
    width = 3 * max(header.feed_forward_length, experts) + 5 * header.embedding_length
    return Constants(
        embedding=embedding,
        moved=outside - embedding,
        output=outside - embedding if header.has_output else outside,
        activations=MICRO_BATCH * 4 * width,
        logits=2 * 4 * header.vocab_size,
        reserve=PROCESS + PER_TOKEN * header.vocab_size,
    )


def footprint(
    header: Header,
    context: int,
    slots: int = 1,
    cache_type: str = "f16",
    *,
    gpu_layers: int = 0,
    projector: int = 0,
) -> Footprint:
    """What ``header``'s model takes with ``slots`` slots of ``context`` tokens each.

    ``cache_type`` is one name, or one for keys and one for values as in ``q8_0/q4_0``. ``gpu_layers`` counts from the
    end, and the output is the first of them. ``projector`` is its file's size. Raises ConfigError for a cache type that
    does not exist and for numbers out of all bounds.
    """
    fixed, found = constants(header), layers(header)
    stack = found or ()
    caches = _caches(stack, context, slots, cache_type)
    compute = fixed.activations + _masks(stack, context) + slots * fixed.logits
    weights = header.tensor_bytes
    reserve = fixed.reserve
    device = 0
    if gpu_layers:
        first = max(len(stack) + 1 - gpu_layers, 0)
        weights += fixed.output - fixed.moved
        device = sum(layer.weights for layer in stack[first:]) + sum(caches[first:]) + fixed.output
        device += compute + projector + DEVICE
        compute *= 2
        reserve += DEVICE
    kv = sum(caches)
    return Footprint(
        weights=weights,
        kv=kv,
        compute=compute,
        projector=projector,
        reserve=reserve,
        total=weights + kv + compute + projector + reserve,
        device=device,
        complete=found is not None,
    )


def pieces(header: Header, context: int, slots: int, cache_type: str, *, projector: int = 0) -> Pieces:
    """The same bytes as :func:`footprint` has, cut so that they can be spread over GPUs. Raises as that does."""
    fixed, found = constants(header), layers(header)
    stack = found or ()
    caches = _caches(stack, context, slots, cache_type)
    return Pieces(
        host=footprint(header, context, slots, cache_type, projector=projector).total,
        layers=tuple(layer.weights + cache for layer, cache in zip(stack, caches, strict=True)),
        output=fixed.output,
        moved=fixed.moved,
        each=fixed.activations + _masks(stack, context) + slots * fixed.logits + DEVICE,
        projector=projector,
        whole=found is None,
    )


def cells(context: int, window: int = 0) -> int:
    """Cells of the cache for a slot of ``context`` tokens, in a layer that slides over ``window`` (0: over all)."""
    whole = _round(context)
    return min(whole, _round(window + MICRO_BATCH)) if window else whole


def cache_bytes(cache_type: str) -> tuple[int, int]:
    """Bytes of 32 elements of the keys, and of the values. Raises ConfigError."""
    key, _, value = cache_type.lower().partition("/")
    try:
        return CACHE_TYPES[key], CACHE_TYPES[value or key]
    except KeyError:
        raise ConfigError(
            f"There is no cache type '{cache_type}'; there are {', '.join(CACHE_TYPES)}, and pairs as in q8_0/q4_0."
        ) from None


def check(context: int, slots: int) -> None:
    """Raises ConfigError unless the numbers are such that the arithmetic cannot overflow."""
    if not 1 <= context <= _MOST_TOKENS:
        raise ConfigError(f"A context of {context} tokens is out of bounds; it is from 1 to {_MOST_TOKENS}.")
    if not 1 <= slots <= _MOST_SLOTS:
        raise ConfigError(f"{slots} slots are out of bounds; there are from 1 to {_MOST_SLOTS}.")


def _caches(stack: tuple[Layer, ...], context: int, slots: int, cache_type: str) -> list[int]:
    check(context, slots)
    key_bytes, value_bytes = cache_bytes(cache_type)
    return [slots * _cache(layer, context, key_bytes, value_bytes) for layer in stack]


def _round(tokens: int) -> int:
    return -(-tokens // CELL_STEP) * CELL_STEP


def _cache(layer: Layer, context: int, key_bytes: int, value_bytes: int) -> int:
    """What one slot keeps in one layer. Cells are a multiple of 32, so the division leaves nothing over."""
    return cells(context, layer.window) * (layer.k * key_bytes + layer.v * value_bytes) // 32 + layer.state


def _masks(stack: tuple[Layer, ...], context: int) -> int:
    """The attention masks of a micro-batch, 16 bits for each cell: one for full layers, one for sliding ones."""
    sliding = max((cells(context, layer.window) for layer in stack if layer.window), default=0)
    return MICRO_BATCH * 2 * (cells(context) + sliding)
