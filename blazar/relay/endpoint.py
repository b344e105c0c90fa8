"""Where a child listens."""

from __future__ import annotations

from typing import Protocol


class Endpoint(Protocol):
    """A child's address: a TCP ``host`` and ``port``, or the path of a Unix socket in ``unix``. ``generation`` differs
    between two lives of one name, so that no connection outlives its child.
    """

    @property
    def name(self) -> str:
        """The model's name, for messages too."""

    @property
    def generation(self) -> int:
        """Which life of it this is."""

    @property
    def host(self) -> str:
        """An IP address."""

    @property
    def port(self) -> int:
        """A TCP port."""

    @property
    def unix(self) -> str:
        """A path, or nothing."""
