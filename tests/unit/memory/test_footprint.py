"""What a model takes, by its header; and the compiled grid, which must say the same of every combination."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar.errors import ConfigError
from blazar.memory import grid
from blazar.memory.footprint import CACHE_TYPES, cells, footprint
from blazar.models import header
from blazar.models.header import Header
from tests.support import tiny_model

LAYERS, WIDTH = 6, 64


def _tiny() -> Header:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        tiny_model.write(path, layers=LAYERS, width=WIDTH)
        return header.read(path)


TINY = _tiny()
CONTEXTS, SLOTS = st.integers(1, 1 << 20), st.integers(1, 64)
TYPES = st.sampled_from([*CACHE_TYPES, "q8_0/q4_0", "f16/q8_0"])


def test_the_cache_is_cells_by_layers_by_widths() -> None:
    # Half as many heads for keys and values as for queries: half the width each, two bytes an element.
    per_cell = LAYERS * (WIDTH // 2 + WIDTH // 2) * 2
    assert footprint(TINY, 1000, 3).kv == 3 * 1024 * per_cell
    assert footprint(TINY, 1000, 3, "q8_0").kv == 3 * 1024 * per_cell * 34 // 64
    assert footprint(TINY, 1000).weights == TINY.tensor_bytes


def test_a_sliding_window_bounds_the_cells() -> None:
    assert cells(8192) == 8192
    assert cells(8192, 1024) == 1536
    assert cells(512, 1024) == 512


@given(CONTEXTS, SLOTS, TYPES)
def test_more_never_takes_less(context: int, slots: int, kind: str) -> None:
    least = footprint(TINY, context, slots, kind)
    assert footprint(TINY, context + 256, slots, kind).total >= least.total
    assert footprint(TINY, context, slots + 1, kind).total > least.total
    assert least.total == least.weights + least.kv + least.compute + least.projector + least.reserve


@settings(deadline=None)
@given(
    st.lists(CONTEXTS, min_size=1, max_size=3),
    st.lists(SLOTS, min_size=1, max_size=3),
    st.lists(TYPES, min_size=1, max_size=3),
    st.lists(st.integers(0, LAYERS + 1), min_size=1, max_size=4),
    st.integers(0, 1 << 30),
)
def test_the_grid_says_the_same(
    contexts: list[int], slots: list[int], kinds: list[str], gpu_layers: list[int], projector: int
) -> None:
    found = grid.plan(TINY, contexts, slots, kinds, gpu_layers, projector=projector).run()
    for c, context in enumerate(contexts):
        for s, count in enumerate(slots):
            for t, kind in enumerate(kinds):
                for g, layers in enumerate(gpu_layers):
                    one = footprint(TINY, context, count, kind, gpu_layers=layers, projector=projector)
                    host, device = int(found.host[c, s, t, g]), int(found.device[c, s, t, g])
                    assert device == one.device
                    assert host + device == one.total


def test_what_cannot_be_is_refused() -> None:
    for context, slots, kind in [(0, 1, "f16"), (1, 0, "f16"), (1 << 40, 1, "f16"), (1, 1, "f17"), (1, 1, "f16/x")]:
        with pytest.raises(ConfigError):
            footprint(TINY, context, slots, kind)
