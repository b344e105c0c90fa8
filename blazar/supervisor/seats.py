"""Which slot of an engine a request is put into: where the beginning of its conversation still is.

Left alone, llama-server takes the slot with the longest common beginning, and so every conversation with the same
instructions ends in the same slot, where each drives the others' history out while the other slots stand empty.
"""

from __future__ import annotations

from collections import OrderedDict
from math import exp
from typing import NamedTuple

import msgspec

# A conversation is expected to go on this often, less and less the longer nobody has spoken (seconds).
_TURNS, _FADES_S = 3.0, 600.0
# Who named a session wants to find it again: more than any prompt weighs.
_KEPT = 1e12
_REMEMBERED = 256


class Seating(NamedTuple):
    """What a request begins with, as :attr:`blazar._native.Inbound.seating` says it."""

    conversation: int
    head: int
    head_bytes: int
    bytes: int


class Seat(msgspec.Struct):
    """One slot: what it was used for last, by which session, and until when it is kept for that (monotonic seconds)."""

    last: Seating | None = None
    session: str = ""
    used_s: float = 0.0
    kept_until_s: float = 0.0
    busy: bool = False


class Seats:
    """All slots of one engine."""

    def __init__(self, count: int) -> None:
        self.seats = [Seat() for _ in range(count)]
        # Of conversations whose slot another has now: bytes that they had to read again, the latest last.
        self._debts: OrderedDict[int, int] = OrderedDict()

    def take(self, seating: Seating, now_s: float, session: str = "", keep_s: float = 0.0) -> int | None:
        """The number of a free slot that is this request's until :meth:`leave`; None where all are taken.

        That of its own conversation; else the one where least is lost: what must be read anew by those whose slot it
        was, less the instructions that are there already. Who has had to read as much again as the instructions are
        long gets a slot where nobody drives it out, and reads them once more. ``keep_s``: seconds for which it is kept
        for the ``session``.
        """
        best, chosen, wanted = float("-inf"), None, seating
        if seating.conversation in self._debts and not any(_is_own(seat, seating) for seat in self.seats):
            self._debts[seating.conversation] += seating.bytes - seating.head_bytes
            if self._debts[seating.conversation] > seating.head_bytes:
                wanted = seating._replace(head=0)
        for number, seat in enumerate(self.seats):
            if seat.busy:
                continue
            worth = float("inf") if _is_own(seat, seating) else _worth(seat, wanted, now_s)
            if worth > best:
                best, chosen = worth, number
        if chosen is not None:
            seat = self.seats[chosen]
            if not _is_own(seat, seating):
                seat.session, seat.kept_until_s = "", 0.0
                if seat.last is not None:
                    self._owes(seat.last.conversation)
            seat.busy, seat.last, seat.used_s = True, seating, now_s
            if session:
                seat.session, seat.kept_until_s = session, now_s + keep_s
        return chosen

    def _owes(self, conversation: int) -> None:
        """It is driven out; what it owed before stays."""
        self._debts[conversation] = self._debts.pop(conversation, 0)
        if len(self._debts) > _REMEMBERED:
            self._debts.popitem(last=False)

    def leave(self, number: int, now_s: float) -> None:
        """It is free again; what was said there stays."""
        seat = self.seats[number]
        seat.busy, seat.used_s = False, now_s


def _is_own(seat: Seat, seating: Seating) -> bool:
    return seat.last is not None and seat.last.conversation == seating.conversation


def _worth(seat: Seat, seating: Seating, now_s: float) -> float:
    """Bytes of prompt that need not be read, less those that others are expected to have to read again."""
    last = seat.last
    if last is None:
        return 0.0
    shared = seating.head_bytes if seating.head and last.head == seating.head else 0
    kept = _KEPT if seat.kept_until_s > now_s else 0.0
    # One byte is left even of what is long over: a slot that nobody has used goes first.
    lost = 1 + (last.bytes - shared) * _TURNS * exp((seat.used_s - now_s) / _FADES_S)
    return shared - lost - kept
