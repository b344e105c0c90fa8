"""Which models fit together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blazar.memory.layouts import HOST
from blazar.memory.placement import Place, Wish, together


def wish(name: str, need: int, used: int = 0, *, pinned: bool = False) -> Wish:
    """On a machine with main memory only."""
    return Wish(name, ({HOST: need},), used, pinned)


def test_on_gpus_each_takes_the_first_place_that_is_free() -> None:
    ways = ({HOST: 2, "a": 20}, {HOST: 2, "b": 20}, {HOST: 2, "a": 11, "b": 11})
    wishes = [Wish("one", ways, 3), Wish("two", ways, 2), Wish("three", ways, 1), Wish("big", ({"a": 25},), 0)]
    assert together(wishes, {HOST: 100, "a": 24, "b": 24}) == [
        Place("one", 22, "together", 98 + 4, pools=("a",)),
        Place("two", 22, "together", 96 + 4, pools=("b",)),
        # The place of the one that was used last is not taken while the other's will do.
        Place("three", 22, "instead", 96 + 4, ("two",), ("b",)),
        Place("big", 25, "never", 4, pools=("a",)),
    ]


def test_the_hottest_stay_and_the_others_are_told_for_whom_they_would_come() -> None:
    wishes = [wish("cold", 30, 1), wish("hot", 40, 9), wish("warm", 50, 5), wish("huge", 200, 8), wish("small", 10, 0)]
    assert together(wishes, {HOST: 100}) == [
        Place("hot", 40, "together", 60),
        Place("warm", 50, "together", 10),
        Place("small", 10, "together", 0),
        Place("huge", 200, "never", 0),
        # The longest unused is too small to make room; the next one does alone.
        Place("cold", 30, "instead", 20, ("warm",)),
    ]


def test_who_is_pinned_stays_whatever_comes() -> None:
    plan = together([wish("pinned", 60, 0, pinned=True), wish("hot", 50, 9)], {HOST: 100})
    assert [(place.name, place.act) for place in plan] == [("pinned", "together"), ("hot", "never")]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.booleans()), max_size=8),
    st.integers(0, 120),
)
def test_a_plan_holds(facts: list[tuple[int, int, bool]], budget: int) -> None:
    wishes = [wish(str(number), need, used, pinned=pinned) for number, (need, used, pinned) in enumerate(facts)]
    plan = together(wishes, {HOST: budget})
    assert sorted(place.name for place in plan) == sorted(wish.name for wish in wishes)
    needs = {wish.name: wish.ways[0][HOST] for wish in wishes}
    staying = [place.name for place in plan if place.act == "together"]
    held = sum(needs[name] for name in staying)
    assert held <= budget
    for place in plan:
        if place.act == "instead":
            freed = budget - held + sum(needs[name] for name in place.without)
            assert set(place.without) <= set(staying)
            assert freed - place.need == place.left >= 0
            assert all(freed - needs[name] < place.need for name in place.without), "nobody leaves in vain"
        elif place.act == "never" and place.need <= budget:
            pinned = sum(needs[wish.name] for wish in wishes if wish.pinned and wish.name in staying)
            assert place.need > budget - pinned
