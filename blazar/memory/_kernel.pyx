"""Memory arithmetic over whole grids of candidates (the NumPy referee is ``blazar.memory.footprint``)."""


def total(const long long[::1] values not None):
    """The sum of ``values``."""
    cdef Py_ssize_t i
    cdef long long acc = 0
    with nogil:
        for i in range(values.shape[0]):
            acc += values[i]
    return acc
