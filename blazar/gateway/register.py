"""Who is being answered, and the last who were."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from blazar.gateway.errand import Errand

_REMEMBERED = 256


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one that is over. ``tokens`` are of its prompt and its answer, where an engine counted."""

    trace: str
    owner: str
    model: str
    path: str
    state: str
    status: int
    streams: bool
    shares: str
    created_ns: int
    load_ns: int
    queue_ns: int
    total_ns: int
    tokens: tuple[int, int] | None


class Register:
    """Every errand from its beginning to its end. Of those that asked a model for something the last 256 stay known."""

    def __init__(self) -> None:
        self.live: set[Errand] = set()
        self._ended: OrderedDict[str, Ended] = OrderedDict()

    @property
    def ended(self) -> list[Ended]:
        """The last first."""
        return [*reversed(self._ended.values())]

    def add(self, errand: Errand) -> None:
        """It begins."""
        self.live.add(errand)

    def close(self, errand: Errand) -> None:
        """It is over: have everything given back, and remember how it went."""
        state = errand.outcome
        errand.give_everything_back()
        self.live.discard(errand)
        if errand.model and errand.charged:
            self._ended.pop(errand.trace, None)
            self._ended[errand.trace] = Ended(
                trace=errand.trace,
                owner=errand.owner,
                model=errand.model,
                path=errand.path,
                state=state,
                status=errand.status,
                streams=errand.streams,
                shares=errand.shares,
                created_ns=errand.created_ns,
                load_ns=errand.load_ns,
                queue_ns=errand.queue_ns,
                total_ns=monotonic_ns() - errand.started_ns,
                tokens=errand.spent,
            )
            if len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)

    @contextmanager
    def during(self, errand: Errand) -> Iterator[Errand]:
        """Add it now, and close it at the end of the block."""
        self.add(errand)
        try:
            yield errand
        finally:
            self.close(errand)
