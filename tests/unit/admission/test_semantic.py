"""Answers found by nearness: the kernel against NumPy, and what is never given to whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar.admission._nearest import nearest
from blazar.admission.semantic import LARGEST, Answers, kind_of


class Clock:
    """Turned by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def time_ns(self) -> int:
        return self.monotonic_ns()


def vector(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def answers(clock: Clock) -> Answers:
    return Answers(3, 1000, clock)


def find(answers: Answers, kind: bytes, like: Any, least: float = 0.9, age_s: float = 60) -> bytes | None:
    found = answers.find(kind, like, least=least, age_s=age_s)
    return None if found is None else found[0].body


@given(st.integers(0, 40), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_the_kernel_finds_what_numpy_finds(count: int, width: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(count, width)).astype(np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    wanted = chance.normal(size=width).astype(np.float32)
    wanted /= np.linalg.norm(wanted)
    kinds, ends, begins = (chance.integers(0, 3, count) for _ in range(3))
    row, cosine = nearest(rows, kinds, ends, begins, wanted, 1, 1, 1)
    allowed = (kinds == 1) & (ends > 1) & (begins >= 1)
    if not allowed.any():
        assert (row, cosine) == (-1, -1.0)
        return
    cosines = np.where(allowed, rows @ wanted, -2)
    assert allowed[row]
    assert cosine == pytest.approx(min(1.0, cosines.max()), abs=1e-5)
    assert cosines[row] == pytest.approx(cosines.max(), abs=1e-5)


def test_shapes_that_do_not_agree_are_refused() -> None:
    rows, numbers = np.zeros((2, 4), np.float32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="shapes"):
        nearest(rows, numbers, numbers, numbers, np.zeros(3, np.float32), 0, 0, 0)
    with pytest.raises(ValueError, match="shapes"):
        nearest(rows, numbers[:1], numbers, numbers, np.zeros(4, np.float32), 0, 0, 0)


def test_what_is_near_enough_is_found_and_nothing_else(answers: Answers) -> None:
    mine, other = kind_of("ann", "chat"), kind_of("bob", "chat")
    answers.keep(mine, vector(2, 0), b"east", "t1", 60)
    answers.keep(mine, vector(0, 1), b"north", "t2", 60)
    assert find(answers, mine, vector(5, 0.1)) == b"east"
    assert find(answers, mine, vector(1, 1)) is None, "cosine 0.71"
    assert find(answers, mine, vector(1, 1), least=0.7) is not None
    assert find(answers, other, vector(2, 0)) is None, "another key's"
    assert find(answers, mine, vector(0, 0)) is None
    assert find(answers, mine, vector(float("nan"), 1)) is None
    assert find(answers, mine, vector(1, 0, 0)) is None, "of another model"


def test_parts_of_a_kind_do_not_run_into_each_other() -> None:
    assert kind_of("ann", "b") != kind_of("an", "nb")


def test_answers_grow_old(answers: Answers, clock: Clock) -> None:
    answers.keep(b"kind-of-sixteen!", vector(1, 0), b"x", "t", 60)
    clock.now_s += 30
    assert find(answers, b"kind-of-sixteen!", vector(1, 0)) == b"x"
    assert find(answers, b"kind-of-sixteen!", vector(1, 0), age_s=20) is None, "too old for this one"
    clock.now_s += 31
    assert find(answers, b"kind-of-sixteen!", vector(1, 0), age_s=1000) is None


def test_their_number_and_their_bytes_are_bounded(answers: Answers) -> None:
    for number in range(5):
        answers.keep(b"kind-of-sixteen!", vector(number + 1, 1), b"%d" % number, "t", 60)
    assert len(answers) == 3
    assert find(answers, b"kind-of-sixteen!", vector(1, 1), least=0.999) is None, "the oldest left"
    answers.keep(b"kind-of-sixteen!", vector(1, 9), b"x" * 999, "t", 60)
    assert len(answers) == 2
    assert answers.size == 1000
    assert find(answers, b"kind-of-sixteen!", vector(5, 1), least=0.999) == b"4"
    answers.keep(b"kind-of-sixteen!", vector(1, 9), b"x" * 1001, "t", 60)
    assert answers.size == 1000, "what is larger than everything is not kept"
    large = Answers(3, 2**30, Clock())
    large.keep(b"kind-of-sixteen!", vector(1, 9), b"x" * (LARGEST + 1), "t", 60)
    assert len(large) == 0


def test_vectors_of_another_width_make_everything_new(answers: Answers) -> None:
    answers.keep(b"kind-of-sixteen!", vector(1, 0), b"x", "t", 60)
    answers.keep(b"kind-of-sixteen!", vector(1, 0, 0), b"y", "t", 60)
    assert len(answers) == 1
    assert answers.size == 1
    assert find(answers, b"kind-of-sixteen!", vector(1, 0, 0)) == b"y"
    answers.forget()
    assert (len(answers), answers.size) == (0, 0)
    assert find(answers, b"kind-of-sixteen!", vector(1, 0, 0)) is None
