"""The queue in any order of coming, leaving, giving up and resizing: nobody is lost, nobody idles, nobody is served
twice.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blazar import _native

_BOUND = 12


class AnyOrder(RuleBasedStateMachine):
    """A queue, and what is known of it from outside."""

    @initialize(places=st.integers(1, 5))
    def begin(self, places: int) -> None:
        self.places = places
        self.queue = _native.Queue(places, _BOUND)
        self.now_ns = 0
        self.running: set[int] = set()
        self.waiting: set[int] = set()

    @rule(
        priority=st.integers(0, 2),
        lane=st.integers(0, 2),
        wait_ns=st.none() | st.integers(0, 10**11),
        key=st.integers(0, 4),
        weight=st.integers(1, 1000),
        cost=st.integers(0, 2**40),
        passed_ns=st.integers(0, 10**10),
    )
    def enter(
        self, priority: int, lane: int, wait_ns: int | None, key: int, weight: int, cost: int, passed_ns: int
    ) -> None:
        self.now_ns += passed_ns
        deadline_ns = None if wait_ns is None else self.now_ns + wait_ns
        entered = self.queue.enter(self.now_ns, priority, lane, deadline_ns, key, weight, cost)
        if len(self.running) >= self.places and len(self.waiting) == _BOUND:
            assert entered is None
            gone = self.queue.crowd_out(priority, key, weight)
            if gone is None:
                return
            assert gone in self.waiting
            self.waiting.remove(gone)
            entered = self.queue.enter(self.now_ns, priority, lane, deadline_ns, key, weight, cost)
        assert entered is not None
        ticket, granted = entered
        assert ticket not in self.running | self.waiting
        assert granted == (len(self.running) < self.places)
        (self.running if granted else self.waiting).add(ticket)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), used=st.none() | st.integers(0, 2**40))
    def finish(self, data: st.DataObject, used: int | None) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(ticket)
        woken = self.queue.leave(ticket, used)
        # After a shrink, more run than there are places.
        if not self.waiting or len(self.running) >= self.places:
            assert woken is None
        else:
            assert woken in self.waiting
            self.waiting.remove(woken)
            self.running.add(woken)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.waiting)))
        self.waiting.remove(ticket)
        assert self.queue.leave(ticket) is None

    @rule(places=st.integers(1, 5))
    def resize(self, places: int) -> None:
        self.places = places
        woken = self.queue.resize(places)
        assert len(set(woken)) == len(woken)
        assert set(woken) <= self.waiting
        self.waiting -= set(woken)
        self.running |= set(woken)

    @rule(ticket=st.integers(0, 2**63))
    def leave_what_is_not_there(self, ticket: int) -> None:
        if ticket not in self.running | self.waiting:
            assert self.queue.leave(ticket) is None

    @invariant()
    def all_are_known_and_no_place_idles(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert (self.queue.running, self.queue.waiting) == (len(self.running), len(self.waiting))
        # Where keys or lanes stand equal, two may be told the same place.
        places = [self.queue.position(ticket) for ticket in self.waiting]
        assert all(place is not None and place < len(self.waiting) for place in places)
        assert {self.queue.position(ticket) for ticket in self.running} <= {None}
        assert not self.waiting or len(self.running) >= self.places

    def teardown(self) -> None:
        """Everybody who waits has a turn in the end."""
        if not hasattr(self, "queue"):
            return
        while self.running:
            ticket = self.running.pop()
            if (woken := self.queue.leave(ticket)) is not None:
                self.waiting.remove(woken)
                self.running.add(woken)
        assert not self.waiting


TestAnyOrder = AnyOrder.TestCase
