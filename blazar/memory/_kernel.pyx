"""Memory arithmetic over whole grids of candidates; ``blazar.memory.footprint`` has the same for one, in plain Python."""


cdef inline long long rounded(long long tokens, long long step) noexcept nogil:
    return (tokens + step - 1) // step * step


def grid(
    const long long[::1] contexts not None,
    const long long[::1] slots not None,
    const long long[:, ::1] cache_types not None,
    const long long[::1] gpu_layers not None,
    const long long[:, ::1] layers not None,
    const long long[::1] constants not None,
    long long[::1] scratch not None,
    long long[:, :, :, ::1] host not None,
    long long[:, :, :, ::1] device not None,
):
    """Fill ``host`` and ``device`` (contexts x slots x cache types x GPU layers) with totals in bytes.

    ``cache_types`` has rows of bytes for 32 elements: keys, values. ``layers`` has rows of k, v, window, state, weights.
    ``constants`` are: embedding, moved, output, activations, logits, reserve, projector, device reserve, cell step,
    micro-batch. ``scratch`` holds two numbers more than twice the layers. The shapes must agree: ``blazar.memory.grid``
    makes them.
    """
    cdef Py_ssize_t count = layers.shape[0]
    cdef Py_ssize_t c, s, t, g, i, first
    cdef long long embedding = constants[0], moved = constants[1], output = constants[2]
    cdef long long activations = constants[3], logits = constants[4], reserve = constants[5]
    cdef long long projector = constants[6], runtime = constants[7], step = constants[8], batch = constants[9]
    cdef long long whole, cell, widest, compute, base, kept, weight, n
    # Sums from each layer to the last: of the cache of one slot, and of the weights.
    cdef long long[::1] cache = scratch[:count + 1]
    cdef long long[::1] weights = scratch[count + 1:]
    if (
        scratch.shape[0] < 2 * count + 2 or constants.shape[0] < 10 or layers.shape[1] != 5
        or cache_types.shape[1] != 2
        or host.shape[0] != contexts.shape[0] or host.shape[1] != slots.shape[0]
        or host.shape[2] != cache_types.shape[0] or host.shape[3] != gpu_layers.shape[0]
        or device.shape[0] != contexts.shape[0] or device.shape[1] != slots.shape[0]
        or device.shape[2] != cache_types.shape[0] or device.shape[3] != gpu_layers.shape[0]
    ):
        raise ValueError("the shapes do not agree")
    with nogil:
        weights[count] = 0
        for i in range(count - 1, -1, -1):
            weights[i] = weights[i + 1] + layers[i, 4]
        for c in range(contexts.shape[0]):
            whole = rounded(contexts[c], step)
            widest = 0
            for t in range(cache_types.shape[0]):
                cache[count] = 0
                for i in range(count - 1, -1, -1):
                    cell = whole
                    if layers[i, 2]:
                        cell = min(whole, rounded(layers[i, 2] + batch, step))
                        widest = max(widest, cell)
                    cache[i] = cache[i + 1] + layers[i, 3] + cell * (
                        layers[i, 0] * cache_types[t, 0] + layers[i, 1] * cache_types[t, 1]
                    ) // 32
                for s in range(slots.shape[0]):
                    n = slots[s]
                    compute = activations + batch * 2 * (whole + widest) + n * logits
                    base = embedding + moved + compute + reserve + weights[0] + n * cache[0]
                    for g in range(gpu_layers.shape[0]):
                        if gpu_layers[g] == 0:
                            host[c, s, t, g] = base + projector
                            device[c, s, t, g] = 0
                            continue
                        first = max(count + 1 - gpu_layers[g], 0)
                        kept = weights[first] + n * cache[first]
                        host[c, s, t, g] = base - kept - moved
                        device[c, s, t, g] = kept + output + compute + projector + runtime
