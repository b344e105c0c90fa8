"""The nearest of many unit vectors."""


def nearest(
    const float[:, ::1] rows not None,
    const long long[::1] classes not None,
    const long long[::1] ends not None,
    const long long[::1] begins not None,
    const float[::1] wanted not None,
    long long of_class,
    long long now,
    long long since,
):
    """``(row, cosine)`` of the row of ``of_class`` that is nearest to ``wanted``; ``(-1, -1.0)`` where there is none.

    ``rows`` (count x width) and ``wanted`` are of unit length; ``classes``, ``ends`` and ``begins`` have one number a
    row. Rows that begin before ``since`` or end by ``now`` are left out. Of equals, the first wins.
    """
    cdef Py_ssize_t count = rows.shape[0], width = rows.shape[1]
    cdef Py_ssize_t i, j, k, best = -1
    cdef float nearness = -2.0, total
    cdef float sums[16]
    cdef const float* row
    cdef const float* unit
    if (
        wanted.shape[0] != width or classes.shape[0] != count or ends.shape[0] != count or begins.shape[0] != count
    ):
        raise ValueError("the shapes do not agree")
    if not count or not width:
        return -1, -1.0
    unit = &wanted[0]
    with nogil:
        for i in range(count):
            if classes[i] != of_class or ends[i] <= now or begins[i] < since:
                continue
            # Sums that do not wait for each other, so that the compiler makes vectors of them.
            for k in range(16):
                sums[k] = 0
            row = &rows[i, 0]
            for j in range(width // 16):
                for k in range(16):
                    sums[k] += row[16 * j + k] * unit[16 * j + k]
            total = 0
            for j in range(width // 16 * 16, width):
                total += row[j] * unit[j]
            for k in range(16):
                total += sums[k]
            if total > nearness:
                nearness = total
                best = i
    if best < 0:
        return -1, -1.0
    return best, max(-1.0, min(1.0, nearness))
