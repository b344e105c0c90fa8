"""An engine's failure: what the client is told of it, and what the supervisor is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from blazar.errors import (
    AllSlotsBusy,
    BadGateway,
    BadRequest,
    BlazarError,
    EngineCrashed,
    GatewayTimeout,
    Internal,
    PromptTooLong,
)
from blazar.relay.delivery import Reason

if TYPE_CHECKING:
    from blazar.node import Node
    from blazar.supervisor.instance import Instance

Fault = tuple[str, str, int | None, int | None]
"""As the native side says it: a kind, a sentence, and of a prompt that is too long its tokens and the window."""

# An engine that is told to end closes its connections before it does.
_DEATH_S = 1.5
_FAILURES = frozenset({"bad_gateway", "cut"})


def error_of(fault: Fault, instance: Instance) -> BlazarError:
    """The catalogue's error for a native fault."""
    kind, message, tokens, window = fault
    name = instance.model.name
    if kind == "prompt_too_long" and tokens is not None and window is not None:
        return PromptTooLong(tokens, window)
    if kind in {"bad_request", "prompt_too_long", "unsupported"}:
        return BadRequest(message)
    if kind == "crashed":
        return instance.death()
    if kind == "timeout":
        return _sentence(GatewayTimeout(name, 0, "answer"), message)
    if kind == "unavailable":
        return _sentence(AllSlotsBusy(name, instance.slots, 0, 1.0), message)
    if kind == "internal":
        return _sentence(Internal(""), message)
    nonsense = BadGateway(f"The engine that runs '{name}' failed: {message}")
    nonsense.cut = kind == "cut"
    return nonsense


def _sentence(error: BlazarError, message: str) -> BlazarError:
    """The same error with the sentence that was made where it arose."""
    error.message = message
    error.args = (message,)
    return error


def judge(node: Node, instance: Instance, fault: Fault | None, *, complete: bool) -> None:
    """Whether the engine did what it is for. Who left early, or asked for the impossible, says nothing about it; that
    a model wrote what cannot be used is not the engine's fault.
    """
    if complete:
        node.fleet.health.answered(instance, well=True)
    elif fault is not None and fault[0] in _FAILURES:
        node.fleet.health.answered(instance, well=False)


async def explain(node: Node, instance: Instance) -> Reason:
    """Why an engine's connection ended in the middle. A crash closes it a moment before the process can be reaped; one
    that lives on may be about to end all the same.
    """
    node.fleet.health.refused(instance.name, instance.generation)
    try:
        async with asyncio.timeout(_DEATH_S):
            await instance.gone.wait()
    except TimeoutError:
        return Reason("cut", BadGateway.code, f"The engine that runs '{instance.model.name}' closed the connection.")
    death = instance.death()
    return Reason("crashed", EngineCrashed.code, death.message)
