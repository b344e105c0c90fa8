"""One piece of work for a client, whether it still waits or not: what is known of it, and what must be given back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from random import getrandbits
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from blazar.relay.delivery import Reason

if TYPE_CHECKING:
    from blazar._native import Exchange
    from blazar.admission.gate import Place
    from blazar.admission.keys import Key
    from blazar.errors import BlazarError
    from blazar.relay.delivery import Delivery

_log = logging.getLogger("blazar.gateway")


class Errand:
    """Whoever acquires a thing leaves its return with :meth:`finally_do`; all are done, the last first, when the
    errand is over, however it ends. Marks are monotonic nanoseconds; ``created_ns`` is civil time.
    """

    __slots__ = (
        "_id",
        "_returns",
        "body",
        "charged",
        "cost",
        "created_ns",
        "delivery",
        "exchange",
        "headers",
        "key",
        "load_ns",
        "model",
        "normalised",
        "over",
        "path",
        "place",
        "queue_ns",
        "refusal",
        "shares",
        "spent",
        "started_ns",
        "status",
        "task",
        "trace",
        "warnings",
    )

    def __init__(self, trace: str, headers: dict[bytes, bytes], key: Key | None = None, path: str = "") -> None:
        self.trace = trace
        # Where it was asked, who works on it, and what its client is told.
        self.path = path
        self.task = asyncio.current_task()
        self.status = 200
        # In whose name; what it may cost in tokens of prompt and answer, and whether that was charged to the key, if
        # there is one; what it came to.
        self.key = key
        self.cost = (0, 0)
        self.charged = False
        self.spent: tuple[int, int] | None = None
        self.headers = headers
        self._id = ""
        self._returns: list[Callable[[], object]] = []
        self.started_ns = monotonic_ns()
        self.created_ns = time_ns()
        self.over = False
        self.model = ""
        # Its turn, once it has asked for one; what an engine was asked last, and the text that it makes of it; why
        # somebody ended it.
        self.place: Place | None = None
        self.delivery: Delivery | None = None
        self.exchange: Exchange | None = None
        self.refusal: BlazarError | None = None
        # What came, while it may tell that somebody else asks the same; whose answer it gets then.
        self.body = b""
        self.shares = ""
        self.load_ns = 0
        self.queue_ns = 0
        self.warnings: list[str] = []
        self.normalised: list[str] = []

    @property
    def id(self) -> str:
        """128 random bits in hex, from which every dialect makes the ids of its answer."""
        if not self._id:
            self._id = f"{getrandbits(128):032x}"
        return self._id

    def header(self, name: bytes) -> str | None:
        """The header of that lower-case name."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def owner(self) -> str:
        """The key's name, for what is kept; nothing without keys."""
        return "" if self.key is None else self.key.name

    def now_ns(self) -> int:
        """Civil time."""
        return time_ns()

    @property
    def stage(self) -> str:
        """``reading``, ``loading``, ``queued``, ``prefill``, ``generating``; ``sharing`` another's answer."""
        if self.shares:
            return "sharing"
        if self.exchange is not None and self.exchange.first_ns is not None:
            return "generating"
        if self.place is not None and self.place.ahead is not None:
            return "queued"
        if self.place is not None or self.delivery is not None:
            return "prefill"
        return "loading" if self.model else "reading"

    @property
    def streams(self) -> bool:
        """Its answer is a stream, begun or not."""
        return False

    @property
    def outcome(self) -> str:
        """How it ends, if it ends now: ``done``, ``failed``, ``cancelled``."""
        if self.refusal is not None:
            return "cancelled"
        broken = self.exchange is not None and self.exchange.fault is not None
        return "failed" if broken or self.status >= HTTPStatus.BAD_REQUEST else "done"

    def end(self, error: BlazarError) -> None:
        """Stop it, whatever it does: its client gets ``error``, its engine is let go."""
        self.refusal = error
        if self.delivery is not None and self.exchange is not None:
            self.delivery.end_with(Reason("internal", error.code, error.message), monotonic_ns())
        elif self.task is not None:
            self.task.cancel()

    def finally_do(self, give_back: Callable[[], object]) -> None:
        """Call ``give_back`` when it is over."""
        self._returns.append(give_back)

    @property
    def mark(self) -> int:
        """How much there is to give back now."""
        return len(self._returns)

    def give_back_to(self, mark: int) -> None:
        """Give back what was acquired since ``mark``: it goes on without."""
        while len(self._returns) > mark:
            self._give_back()
        self.place = self.delivery = self.exchange = None

    def _give_back(self) -> None:
        try:
            self._returns.pop()()
        except Exception:  # noqa: BLE001  (a fault of ours: it is logged, and the rest must still be given back)
            _log.exception("trace %s could not give something back", self.trace)

    def give_everything_back(self) -> None:
        """It is over. One return that fails does not keep the others from being done."""
        self.over = True
        self.give_back_to(0)
