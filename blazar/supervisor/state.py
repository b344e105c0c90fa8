"""The life of an instance, as a table of the moves that it may make."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What an instance is doing."""

    WAITING = "waiting"
    """Memory must come free first: no child yet, or one that is to be woken."""
    LOADING = "loading"
    """The child reads the model."""
    READY = "ready"
    """It answers."""
    SLEEPING = "sleeping"
    """The child runs and has let go of the model."""
    STOPPING = "stopping"
    """It was asked to go and is not reaped yet."""
    STOPPED = "stopped"
    """It went as asked."""
    FAILED = "failed"
    """It never became ready."""
    CRASHED = "crashed"
    """It was ready and died by itself."""


MOVES: dict[State, frozenset[State]] = {
    State.WAITING: frozenset({State.LOADING, State.FAILED, State.STOPPED}),
    State.LOADING: frozenset({State.READY, State.FAILED, State.STOPPING}),
    State.READY: frozenset({State.SLEEPING, State.STOPPING, State.CRASHED}),
    State.SLEEPING: frozenset({State.WAITING, State.STOPPING, State.CRASHED}),
    State.STOPPING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset(),
    State.FAILED: frozenset(),
    State.CRASHED: frozenset(),
}
OVER = frozenset(state for state, onward in MOVES.items() if not onward)


def move(old: State, new: State) -> State:
    """``new``, when the table allows it. Anything else is a fault of ours."""
    if new not in MOVES[old]:
        raise AssertionError(f"an instance cannot go from {old} to {new}")
    return new
