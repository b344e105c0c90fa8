"""Which models fit together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blazar.memory.placement import Place, Wish, together


def test_the_hottest_stay_and_the_others_are_told_for_whom_they_would_come() -> None:
    wishes = [Wish("cold", 30, 1), Wish("hot", 40, 9), Wish("warm", 50, 5), Wish("huge", 200, 8), Wish("small", 10, 0)]
    assert together(wishes, 100) == [
        Place("hot", 40, "together", 60),
        Place("warm", 50, "together", 10),
        Place("small", 10, "together", 0),
        Place("huge", 200, "never", 0),
        # The longest unused is too small to make room; the next one does alone.
        Place("cold", 30, "instead", 20, ("warm",)),
    ]


def test_who_is_pinned_stays_whatever_comes() -> None:
    plan = together([Wish("pinned", 60, 0, pinned=True), Wish("hot", 50, 9)], 100)
    assert [(place.name, place.act) for place in plan] == [("pinned", "together"), ("hot", "never")]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.booleans()), max_size=8),
    st.integers(0, 120),
)
def test_a_plan_holds(facts: list[tuple[int, int, bool]], budget: int) -> None:
    wishes = [Wish(str(number), *fact) for number, fact in enumerate(facts)]
    plan = together(wishes, budget)
    assert sorted(place.name for place in plan) == sorted(wish.name for wish in wishes)
    needs = {wish.name: wish.need for wish in wishes}
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
            pinned = sum(wish.need for wish in wishes if wish.pinned and wish.name in staying)
            assert place.need > budget - pinned
