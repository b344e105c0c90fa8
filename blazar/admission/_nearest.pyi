"""The nearest of many unit vectors."""

import numpy as np
from numpy.typing import NDArray

def nearest(
    rows: NDArray[np.float32],
    classes: NDArray[np.int64],
    ends: NDArray[np.int64],
    begins: NDArray[np.int64],
    wanted: NDArray[np.float32],
    of_class: int,
    now: int,
    since: int,
) -> tuple[int, float]: ...
