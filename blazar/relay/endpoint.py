"""Where a child listens, and who wants to know how it does."""

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


class Watcher(Protocol):
    """Who hears of children that do not do what they should. It may be told the same again and again."""

    def refused(self, name: str, generation: int) -> None:
        """It took no connection."""

    def silent(self, name: str, generation: int) -> None:
        """Somebody waits for its answer and nobody has had a byte from it for some seconds."""
