"""Which slot a conversation is put into."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blazar.supervisor.seats import Seating, Seats


def said(conversation: int, size: int = 1000, head: int = 0, head_bytes: int = 0) -> Seating:
    return Seating(conversation, head, head_bytes, size)


def visit(seats: Seats, seating: Seating, now_s: float, keep_s: float = 0.0) -> int:
    number = seats.take(seating, now_s, "session" if keep_s else "", keep_s)
    assert number is not None
    seats.leave(number, now_s)
    return number


def test_a_conversation_finds_its_slot_again_and_others_leave_it_alone() -> None:
    seats = Seats(3)
    places = {name: visit(seats, said(name), name) for name in (1, 2, 3)}
    assert sorted(places.values()) == [0, 1, 2]
    for turn in range(3):
        for name in (1, 2, 3):
            assert visit(seats, said(name, 2000), 10 + turn) == places[name]


def test_without_an_empty_one_the_longest_unused_gives_way() -> None:
    seats = Seats(2)
    old, new = visit(seats, said(1), 0), visit(seats, said(2), 500)
    assert visit(seats, said(3), 600) == old
    assert visit(seats, said(2), 601) == new


def test_much_in_common_is_worth_more_than_a_short_history() -> None:
    seats = Seats(2)
    first = visit(seats, said(1, 20_100, head=7, head_bytes=20_000), 0)
    assert visit(seats, said(2, 20_100, head=7, head_bytes=20_000), 1) == first
    other = visit(seats, said(3, 100, head=8, head_bytes=50), 2)
    assert other != first, "an empty one costs nobody anything"
    long = Seats(2)
    first = visit(long, said(1, 60_000, head=7, head_bytes=20_000), 0)
    assert visit(long, said(2, 20_100, head=7, head_bytes=20_000), 1) != first


def test_who_is_driven_out_again_and_again_gets_a_slot_of_its_own() -> None:
    seats = Seats(3)
    places: list[tuple[int, int]] = []
    for turn in range(12):
        said_now = [said(name, 6000 + 300 * (turn + 1), head=7, head_bytes=6000) for name in (1, 2)]
        places.append((visit(seats, said_now[0], 10.0 * turn), visit(seats, said_now[1], 10.0 * turn + 1)))
    assert places[0] == (0, 0), "what they have in common is worth more at first"
    assert len(set(places[8:])) == 1
    assert places[-1][0] != places[-1][1]


def test_a_session_keeps_its_slot_as_long_as_there_is_another() -> None:
    seats = Seats(2)
    kept = visit(seats, said(1, 10), 0, keep_s=900)
    other = visit(seats, said(2, 100_000), 100)
    assert visit(seats, said(3), 101) == other
    assert visit(seats, said(4), 2000) == kept, "its time is over"


def test_nobody_is_put_where_somebody_is() -> None:
    seats = Seats(2)
    assert {seats.take(said(1), 0), seats.take(said(1), 0)} == {0, 1}
    assert seats.take(said(1), 0) is None
    seats.leave(1, 1)
    assert seats.take(said(2), 1) == 1


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5000), st.integers(0, 2), st.booleans()), max_size=60))
def test_whatever_comes_each_slot_has_one(steps: list[tuple[int, int, int, bool]]) -> None:
    seats = Seats(3)
    held: list[int] = []
    for now_s, (conversation, size, head, leaves) in enumerate(steps):
        if leaves and held:
            seats.leave(held.pop(0), now_s)
        number = seats.take(
            said(conversation, size, head, min(size, 100)), now_s, session="s" if head else "", keep_s=60
        )
        assert (number is None) == (len(held) == 3)
        if number is not None:
            assert number not in held
            held.append(number)
