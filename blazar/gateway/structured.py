"""Whether a finished answer has the shape that was asked for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import BadRequest, Unprocessable
from blazar.gateway.decode import decoded

if TYPE_CHECKING:
    import jsonschema_rs

    from blazar import _native
    from blazar.gateway.errand import Errand

_ON = frozenset({"1", "true", "on", "yes"})


def enforced(errand: Errand) -> bool:
    """The client wants an error rather than an answer of the wrong shape."""
    return (errand.header(b"x-blazar-enforce") or "").lower() in _ON


def shaped(inbound: _native.Inbound) -> bool:
    """The answer, or the arguments of a call in it, must follow a schema."""
    return inbound.schema is not None or bool(inbound.shaped_tools)


def verdict(inbound: _native.Inbound, exchange: _native.Exchange, *, enforce: bool) -> str:
    """``valid``, or ``invalid`` with the place and the reason; nothing where there is nothing to judge. Raises
    Unprocessable for what is invalid with ``enforce``; BadRequest where a schema itself is none.
    """
    fault = _broken(inbound, exchange)
    if fault is None:
        return ""
    if fault and enforce:
        raise Unprocessable(f"The answer does not have the shape that was asked for: {fault}.")
    return f"invalid; {fault}" if fault else "valid"


def _broken(inbound: _native.Inbound, exchange: _native.Exchange) -> str | None:
    """What is wrong with the answer; empty: nothing; None: it has nothing that must have a shape."""
    tools, calls = dict(inbound.shaped_tools), exchange.calls
    if inbound.must_call and not calls:
        return "no tool was called, though one was required"
    checked = [(tools[name], text, f"the arguments of '{name}': ") for name, text in calls if name in tools]
    if inbound.schema is not None and not calls:
        checked += [(inbound.schema, text, "") for text in exchange.texts]
    for schema, text, what in checked:
        fault = _fault(schema, text)
        if fault is not None:
            return f"{what}{fault}"
    return "" if checked else None


def _fault(schema: str, text: str) -> str | None:
    try:
        value = decoded(text)
    except msgspec.DecodeError as error:
        return f"it is not JSON ({error})"
    first = next(_validator(schema).iter_errors(value), None)
    if first is None:
        return None
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.instance_path)
    return f"at ${where}: {first.message}"


@functools.lru_cache(maxsize=64)
def _validator(schema: str) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415  (most answers are free text)

    try:
        return jsonschema_rs.validator_for(decoded(schema))
    except (ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"The answer's schema is none: {error}.") from None
