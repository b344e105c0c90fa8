"""Memory arithmetic over whole grids of candidates."""

import numpy as np
from numpy.typing import NDArray

def grid(
    contexts: NDArray[np.int64],
    slots: NDArray[np.int64],
    cache_types: NDArray[np.int64],
    gpu_layers: NDArray[np.int64],
    layers: NDArray[np.int64],
    constants: NDArray[np.int64],
    scratch: NDArray[np.int64],
    host: NDArray[np.int64],
    device: NDArray[np.int64],
) -> None: ...
