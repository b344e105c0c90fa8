"""Where a child listens, and what it wants to be told."""

from __future__ import annotations

import msgspec


class Endpoint(msgspec.Struct, frozen=True):
    """A child's address: a TCP ``host`` and ``port``, or the path of a Unix socket in ``unix``. ``generation`` differs
    between two lives of one name, so that no connection outlives its child.
    """

    name: str
    generation: int
    secret: str
    host: str = "127.0.0.1"
    port: int = 0
    unix: str = ""

    @property
    def authority(self) -> str:
        """What the Host header says."""
        return "localhost" if self.unix else f"{self.host}:{self.port}"
