"""Every combination of context, slots, cache type and GPU layers at once, by the compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from blazar.memory import _kernel, footprint
from blazar.memory.layers import layers

if TYPE_CHECKING:
    from blazar.models.header import Header

Numbers = NDArray[np.int64]


class Grid(msgspec.Struct, frozen=True):
    """Bytes of every combination. Shape: (contexts, slots, cache types, GPU layers)."""

    host: Numbers
    device: Numbers


class Plan(msgspec.Struct, frozen=True):
    """A grid's axes and the model's numbers as int64 arrays; ``run`` in the shapes that the kernel takes."""

    contexts: Numbers
    slots: Numbers
    cache_types: Numbers
    gpu_layers: Numbers
    layers: Numbers
    constants: Numbers

    def run(self) -> Grid:
        """The totals, by the kernel."""
        shape = (len(self.contexts), len(self.slots), len(self.cache_types), len(self.gpu_layers))
        host, device = np.empty(shape, np.int64), np.empty(shape, np.int64)
        scratch = np.empty(2 * len(self.layers) + 2, np.int64)
        _kernel.grid(
            self.contexts,
            self.slots,
            self.cache_types,
            self.gpu_layers,
            self.layers,
            self.constants,
            scratch,
            host,
            device,
        )
        return Grid(host, device)


def plan(
    header: Header,
    contexts: Sequence[int],
    slots: Sequence[int],
    cache_types: Sequence[str],
    gpu_layers: Sequence[int],
    *,
    projector: int = 0,
) -> Plan:
    """Prepare a grid; arguments as for ``footprint.footprint``, with its errors."""
    for context in contexts:
        footprint.check(context, 1)
    for count in slots:
        footprint.check(1, count)
    fixed = footprint.constants(header)
    stack = layers(header) or ()
    outside = sum(header.layer_bytes) - sum(layer.weights for layer in stack)
    numbers = [fixed.embedding + outside, fixed.moved, fixed.output, fixed.activations, fixed.logits, fixed.reserve]
    numbers += [projector, footprint.DEVICE, footprint.CELL_STEP, footprint.MICRO_BATCH]
    rows = [(layer.k, layer.v, layer.window, layer.state, layer.weights) for layer in stack]
    return Plan(
        contexts=np.array(contexts, np.int64),
        slots=np.array(slots, np.int64),
        cache_types=np.array([footprint.cache_bytes(name) for name in cache_types], np.int64).reshape(-1, 2),
        gpu_layers=np.array(gpu_layers, np.int64),
        layers=np.array(rows, np.int64).reshape(-1, 5),
        constants=np.array(numbers, np.int64),
    )
