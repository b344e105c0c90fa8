"""Answers that are given again to who asks nearly the same: found by the nearness of what was said.

Bounded in number and in bytes, the oldest leave first; nothing here reaches the disk.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from blazar.clock import Clock

# Answers are a few kilobytes; who writes books has them made.
LARGEST = 256 * 1024


class Answer(msgspec.Struct, frozen=True):
    """One that was given: its ``kind`` (see :func:`kind_of`), the ``body`` as it was sent, the ``trace`` of its
    request, and when (monotonic nanoseconds).
    """

    kind: bytes
    body: bytes
    trace: str
    made_ns: int


class Counts(msgspec.Struct):
    """How often what happened since the start."""

    hits: int = 0
    misses: int = 0
    stores: int = 0
    bypasses: int = 0


class Answers:
    """At most ``most`` of them, and ``bound`` bytes. Those of one ``kind`` are alike in all but the
    text; a kind says whose they are, too.
    """

    def __init__(self, most: int, bound: int, clock: Clock) -> None:
        self._most = most
        self._bound = bound
        self._clock = clock
        self.counts = Counts()
        self.forget()

    def forget(self) -> None:
        """All of them."""
        self._answers: list[Answer | None] = [None] * self._most
        self._width = 0
        self._next = 0
        self.size = 0

    def __len__(self) -> int:
        return sum(answer is not None for answer in self._answers)

    def find(
        self, kind: bytes, vector: NDArray[np.float32], *, least: float, age_s: float
    ) -> tuple[Answer, float] | None:
        """The answer of ``kind`` whose text is nearest to ``vector`` (of any length), with its cosine: ``least`` or
        more, and not older than ``age_s``.
        """
        from blazar.admission._nearest import nearest  # noqa: PLC0415  (most days nobody wants this)

        unit = _unit(vector)
        if unit is None or unit.shape[0] != self._width:
            return None
        now = self._clock.monotonic_ns()
        since = now - int(age_s * 1e9)
        row, nearness = nearest(self._rows, self._kinds, self._ends, self._begins, unit, _number(kind), now, since)
        answer = self._answers[row] if row >= 0 else None
        return None if answer is None or answer.kind != kind or nearness < least else (answer, nearness)

    def keep(self, kind: bytes, vector: NDArray[np.float32], body: bytes, trace: str, stay_s: float) -> None:
        """``body`` answers the text of ``vector`` for ``stay_s`` seconds. What cannot be found again is not kept."""
        unit = _unit(vector)
        if unit is None or len(body) > min(LARGEST, self._bound):
            return
        if unit.shape[0] != self._width:
            self._make(unit.shape[0])
        now = self._clock.monotonic_ns()
        row = self._next
        self._next = (row + 1) % self._most
        self._drop(row)
        for older in range(self._next, self._next + self._most):
            if self.size + len(body) <= self._bound:
                break
            self._drop(older % self._most)
        self._rows[row] = unit
        self._kinds[row] = _number(kind)
        self._begins[row], self._ends[row] = now, now + int(stay_s * 1e9)
        self._answers[row] = Answer(kind, body, trace, now)
        self.size += len(body)
        self.counts.stores += 1

    def _drop(self, row: int) -> None:
        if (answer := self._answers[row]) is not None:
            self.size -= len(answer.body)
            self._answers[row] = None
            self._ends[row] = 0

    def _make(self, width: int) -> None:
        """Room for vectors of another width: those of another model cannot be compared with these."""
        import numpy as np  # noqa: PLC0415

        self.forget()
        self._width = width
        self._rows = np.zeros((self._most, width), np.float32)
        self._kinds, self._begins, self._ends = (np.zeros(self._most, np.int64) for _ in range(3))


def kind_of(*parts: str) -> bytes:
    """What must be equal, as a digest."""
    digest = blake2b(digest_size=16)
    for part in parts:
        said = part.encode()
        digest.update(len(said).to_bytes(8, "little"))
        digest.update(said)
    return digest.digest()


def _number(kind: bytes) -> int:
    return int.from_bytes(kind[:8], "little", signed=True)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32] | None:
    import numpy as np  # noqa: PLC0415

    length = float(np.linalg.norm(vector))
    if not (length > 0 and np.isfinite(length)):
        return None
    unit: NDArray[np.float32] = np.ascontiguousarray(vector / length, np.float32)
    return unit
