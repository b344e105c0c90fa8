"""What each layer of a model keeps for every token and every slot, read off its header.

Sources: the GGUF keys of the architecture, and for what no key says (which layers slide, which recur) the layout that
llama.cpp gives the architecture of that name. Where nothing is known a layer counts in full: too much is refused with a
reason, too little is a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from blazar.models.header import Header

# Wider than any model; a header that says more is not computed with.
_WIDEST = 1 << 24

_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
# Attention and a recurrent part side by side in every layer.
_BOTH = frozenset({"falcon-h1"})
# Every so many layers one with full attention, the others recurrent.
_INTERVAL = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "minimax-01": 8}
# Layers that slide, where the file does not mark them: of so many, all but the last one.
_SLIDES = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "cohere2": 4, "gpt-oss": 2, "llama4": 4, "exaone4": 4, "olmo2": 4,
    "olmo3": 4,
}  # fmt: skip
# The same, but all except the first one.
_SLIDES_AFTER_FIRST = {"smallthinker": 4}
# Models that read a text whole: no cache.
_NO_CACHE = frozenset({"bert", "eurobert", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert", "nomic-bert",
                       "nomic-bert-moe", "gemma-embedding", "llama-embed", "t5encoder"})  # fmt: skip


class Layer(msgspec.Struct, frozen=True):
    """One layer. ``k`` and ``v`` are elements for each cell of the cache; ``window`` bounds the cells (0: the context);
    ``state`` is in bytes for each slot, whatever its context; ``weights`` in bytes.
    """

    k: int
    v: int
    window: int
    state: int
    weights: int


def layers(header: Header) -> tuple[Layer, ...] | None:
    """The layers of the model, or None when its header does not say enough to know what they keep."""
    count = header.block_count
    if not count or header.architecture in _NO_CACHE:
        weights = header.layer_bytes
        return tuple(Layer(0, 0, 0, 0, size) for size in weights) if header.architecture in _NO_CACHE else None
    found = tuple(_layer(header, place) for place in range(count))
    if any(layer is None for layer in found):
        return None
    return tuple(layer for layer in found if layer is not None)


def _layer(header: Header, place: int) -> Layer | None:
    weights = header.layer_bytes[place] if place < len(header.layer_bytes) else 0
    recurs, attends = _recurs(header, place), _attends(header, place)
    state = _state(header, place) if recurs else 0
    if state is None:
        return None
    if not attends:
        return Layer(0, 0, 0, state, weights)
    window = _window(header, place)
    widths = _widths(header, place, sliding=window > 0)
    if widths is None or max(widths) > _WIDEST:
        return None
    loops = min(max(header.numbers.get("num_loops", 1), 1), 8)
    return Layer(widths[0] * loops, widths[1] * loops, window, state, weights)


def _attends(header: Header, place: int) -> bool:
    """Whether the layer keeps keys and values of its own."""
    shared = header.numbers.get("shared_kv_layers", 0)
    if header.architecture in _RECURRENT or place >= header.block_count - shared:
        return False
    return header.architecture in _BOTH or not _recurs(header, place)


def _recurs(header: Header, place: int) -> bool:
    name = header.architecture
    if name in _RECURRENT or name in _BOTH:
        return True
    if header.recurrent_layers:
        return bool(header.recurrent_layers[place])
    if name in _INTERVAL:
        interval = header.numbers.get("full_attention_interval") or _INTERVAL[name]
        return (place + 1) % interval != 0
    # Hybrid files give the layers without attention no heads of keys and values.
    return bool(header.head_count_kv) and header.head_count_kv[place] == 0


def _window(header: Header, place: int) -> int:
    if header.windows:
        return header.windows[place]
    if not header.sliding_window:
        return 0
    if header.sliding_window_pattern:
        return header.sliding_window if header.sliding_window_pattern[place] else 0
    name = header.architecture
    if name in _SLIDES_AFTER_FIRST:
        return header.sliding_window if place % _SLIDES_AFTER_FIRST[name] else 0
    period = header.numbers.get("sliding_window_pattern") or _SLIDES.get(name, 1)
    # A window alone proves nothing: several architectures carry one that engines do not use.
    return header.sliding_window if name in _SLIDES and place % period < period - 1 else 0


def _widths(header: Header, place: int, *, sliding: bool) -> tuple[int, int] | None:
    numbers = header.numbers
    if "key_length_mla" in numbers and header.key_length:
        # The compressed key holds the value; deepseek's indexer keeps a key of its own beside it.
        return header.key_length + numbers.get("indexer_key_length", 0), 0
    if not header.head_count_kv:
        return None
    key, value = header.key_length, header.value_length
    if sliding:
        key, value = numbers.get("key_length_swa", key), numbers.get("value_length_swa", value)
    heads = header.head_count_kv[place]
    return (heads * key, heads * value) if key and value else None


def _state(header: Header, place: int) -> int | None:
    """Bytes that a recurrent layer keeps for a slot, as 32-bit floats: its last inputs and its state."""
    numbers, width = header.numbers, header.embedding_length
    if "wkv_head_size" in numbers:
        elements = numbers.get("token_shift_count", 2) * width + width * numbers["wkv_head_size"]
    elif "kda_head_dim" in numbers and header.head_count:
        heads, dim = header.head_count[place], numbers["kda_head_dim"]
        elements = 3 * max(numbers.get("ssm_conv_kernel", 4) - 1, 0) * heads * dim + heads * dim * dim
    elif "shortconv_l_cache" in numbers:
        elements = width * max(numbers["shortconv_l_cache"] - 1, 0)
    elif "ssm_inner_size" in numbers:
        inner, size = numbers["ssm_inner_size"], numbers.get("ssm_state_size", 0)
        channels = inner + 2 * numbers.get("ssm_group_count", 0) * size
        elements = max(numbers.get("ssm_conv_kernel", 1) - 1, 0) * channels + inner * size
    else:
        return None
    return elements * 4 if elements <= _WIDEST * 64 else None
