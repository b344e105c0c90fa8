"""Split GGUF files: ``NAME-00001-of-00003.gguf`` and its siblings. Pure."""

from __future__ import annotations

import re

from blazar.errors import BadRequest

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<end>\.gguf)", re.IGNORECASE)
_MOST = 999


def siblings(name: str) -> tuple[str, ...]:
    """The file names of all shards in order if ``name`` is one of them, else ``name`` alone. Raises ``BadRequest``."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return (name,)
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count <= _MOST:
        raise BadRequest(f"{name!r} says that it is part {number} of {count}, which cannot be.")
    return tuple(f"{match['stem']}-{n:05d}-of-{count:05d}{match['end']}" for n in range(1, count + 1))
