"""A GPU, whoever made it."""

from __future__ import annotations

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """``index`` is the vendor's; ``id`` stays the same over restarts. ``total`` and ``free`` in bytes, as they were
    when it was probed; ``unified``: it works in main memory and has none of its own. ``capability`` is the compute
    capability, such as ``9.0``; empty where a vendor has none. ``bandwidth`` of its memory is in bytes a second, 0
    where nobody says.
    """

    vendor: str
    index: int
    name: str
    id: str
    total: int
    free: int
    driver: str = ""
    capability: str = ""
    unified: bool = False
    bandwidth: int = 0
