"""Decisions about memory, from snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar.memory.layouts import HOST, Layout
from blazar.supervisor import policy
from blazar.supervisor.policy import Decision, Tenant
from blazar.supervisor.state import MOVES, OVER, State, move


def tenant(
    name: str, *, idle: bool = True, stopping: bool = False, room: int = 10, growth: int = 0, used: int = 0
) -> Tenant:
    return Tenant(name, idle, stopping, {HOST: room}, {HOST: growth}, used)


def decide(need: int, available: int, total: int, tenants: Sequence[Tenant]) -> Decision:
    """On a machine with main memory only."""
    return policy.decide({HOST: need}, {HOST: available}, {HOST: total}, tenants)


def test_what_fits_loads_and_what_was_promised_is_not_free() -> None:
    assert decide(10, 10, 100, []).act == "load"
    busy = tenant("busy", idle=False, growth=1)
    assert decide(10, 10, 100, [busy]).act == "drain"
    assert decide(9, 10, 100, [busy]).act == "load"


def test_no_more_go_than_must_and_the_longest_unused_first() -> None:
    tenants = [tenant("new", used=3), tenant("old", used=1), tenant("middle", used=2)]
    assert decide(15, 5, 100, tenants).victims == ("old",)
    assert decide(25, 5, 100, tenants).victims == ("old", "middle")


def test_who_sleeps_is_not_sent_away_where_that_frees_next_to_nothing() -> None:
    tenants = [tenant("asleep", room=1, used=1), tenant("awake", room=50, used=2)]
    assert decide(40, 5, 100, tenants).victims == ("awake",)
    assert decide(56, 5, 100, tenants).victims == ("asleep", "awake")


def test_nobody_goes_in_vain() -> None:
    decision = decide(60, 5, 100, [tenant("idle"), tenant("small", idle=False)])
    assert (decision.act, decision.victims) == ("wait", ())


def test_the_busy_go_only_when_the_idle_do_not_suffice_and_their_turn_is_over() -> None:
    tenants = [tenant("idle"), tenant("busy", idle=False, room=50)]
    assert decide(60, 5, 100, tenants) == Decision("drain", ("idle", "busy"), 5, 60)
    assert decide(55, 5, 100, tenants) == Decision("drain", ("busy",), 5, 55), "the idle one would go in vain"
    assert decide(15, 5, 100, tenants).act == "evict"
    in_turn = [tenant("idle"), Tenant("busy", False, False, {HOST: 80}, {}, 0, turn=True)]
    assert decide(60, 5, 100, in_turn).act == "wait"
    assert decide(15, 5, 100, [Tenant("idle", True, False, {HOST: 80}, {}, 0, turn=True)]).act == "wait"


def test_who_is_kept_never_goes_and_is_not_waited_for() -> None:
    kept = Tenant("kept", True, False, {HOST: 80}, {}, 0, kept=True)
    assert decide(60, 5, 100, [kept]).act == "refuse"
    assert decide(60, 5, 100, [kept, tenant("busy", idle=False)]).act == "wait"


def test_while_one_goes_no_other_is_sent() -> None:
    assert decide(20, 5, 100, [tenant("going", idle=False, stopping=True), tenant("idle")]).act == "wait"


def test_larger_than_everything_and_nobody_to_wait_for() -> None:
    assert decide(101, 50, 100, [tenant("idle")]).act == "never"
    assert decide(90, 50, 100, []).act == "refuse"


@given(
    st.integers(0, 200),
    st.integers(0, 200),
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.integers(0, 100), st.integers(0, 50), st.integers(0, 9)), max_size=6
    ),
)
def test_only_the_idle_go_and_only_when_it_helps(
    need: int, available: int, facts: list[tuple[bool, bool, int, int, int]]
) -> None:
    tenants = [
        tenant(str(i), idle=idle and not stopping, stopping=stopping, room=room, growth=growth, used=used)
        for i, (idle, stopping, room, growth, used) in enumerate(facts)
    ]
    decision = decide(need, available, 200, tenants)
    by_name = {one.name: one for one in tenants}
    free = available - sum(one.growth[HOST] for one in tenants)
    # Who needs nothing of a pool may come, even where others were promised more than it has.
    assert (decision.act == "load") == (need == 0 or need <= free)
    rooms = {one.name: one.room[HOST] for one in tenants}
    if decision.act == "evict":
        victims = [by_name[name] for name in decision.victims]
        assert victims
        assert all(victim.idle for victim in victims)
        assert free + sum(rooms[victim.name] for victim in victims) >= need
        assert free + sum(rooms[victim.name] for victim in victims[:-1]) < need
    elif decision.act == "drain":
        victims = [by_name[name] for name in decision.victims]
        assert not all(victim.idle for victim in victims)
        assert free + sum(rooms[victim.name] for victim in victims) >= need
        assert free + sum(rooms[victim.name] for victim in victims if victim.idle) < need
    else:
        assert decision.victims == ()


def on(pools: dict[str, int], name: str = "held", used: int = 0, *, idle: bool = True, kept: bool = False) -> Tenant:
    return Tenant(name, idle, False, pools, {}, used, kept=kept)


FREE = {HOST: 100, "a": 24, "b": 8}
WHOLE = {HOST: 100, "a": 24, "b": 24}


def test_every_pool_must_have_room_and_only_who_holds_some_of_what_is_missing_goes() -> None:
    need = {HOST: 10, "b": 20}
    elsewhere, there = on({HOST: 50, "a": 20}, "elsewhere", 1), on({HOST: 1, "b": 16}, "there", 2)
    assert policy.decide(need, FREE, WHOLE, [elsewhere]) == Decision("refuse", (), 8, 20, "b")
    assert policy.decide(need, FREE, WHOLE, [elsewhere, there]).victims == ("there",)
    both = policy.decide({HOST: 120, "b": 20}, FREE, {**WHOLE, HOST: 200}, [elsewhere, there])
    assert both.victims == ("elsewhere", "there"), "each for a pool of its own"
    assert policy.decide({HOST: 1, "b": 25}, FREE, WHOLE, [there]).act == "never"
    assert policy.decide({HOST: 1, "c": 1}, FREE, WHOLE, []).act == "never", "a GPU that is gone"


def test_a_layout_that_disturbs_nobody_is_taken_else_the_one_whose_victim_is_missed_least() -> None:
    first, second = Layout(need={"a": 20}, devices=("a",)), Layout(need={"b": 20}, devices=("b",))
    assert policy.choose([first, second], {"a": 24, "b": 24}, WHOLE, [])[1] is first
    free = {"a": 4, "b": 24}
    assert policy.choose([first, second], free, WHOLE, [on({"a": 20})])[1] is second
    tenants = [on({"a": 20}, "hot", 9), on({"b": 20}, "cold", 1)]
    decision, layout = policy.choose([first, second], {"a": 4, "b": 4}, WHOLE, tenants)
    assert (decision.act, decision.victims, layout) == ("evict", ("cold",), second)
    tenants = [on({"a": 20}, "idle", 9), on({"b": 20}, "busy", 1, idle=False)]
    assert policy.choose([first, second], {"a": 4, "b": 4}, WHOLE, tenants)[0].victims == ("idle",)


def test_the_table_of_states() -> None:
    assert {State.STOPPED, State.FAILED, State.CRASHED} == OVER
    assert move(State.LOADING, State.READY) is State.READY
    for old, new in ((State.READY, State.LOADING), (State.CRASHED, State.READY), (State.WAITING, State.READY)):
        with pytest.raises(AssertionError):
            move(old, new)
    reachable = {State.WAITING}
    for _ in State:
        reachable |= {new for old in reachable for new in MOVES[old]}
    assert reachable == set(State)
