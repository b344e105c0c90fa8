"""Whether a finished answer has the shape that was asked for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import BadRequest, Unprocessable

if TYPE_CHECKING:
    import jsonschema_rs

    from blazar.gateway.errand import Errand

_ON = frozenset({"1", "true", "on", "yes"})


def enforced(errand: Errand) -> bool:
    """The client wants an error rather than an answer of the wrong shape."""
    return (errand.header(b"x-blazar-enforce") or "").lower() in _ON


def verdict(schema: str, texts: list[str], *, enforce: bool) -> str:
    """``valid``, or ``invalid`` with the place and the reason. Raises Unprocessable for the latter with ``enforce``;
    BadRequest where the schema itself is none.
    """
    for text in texts:
        fault = _fault(schema, text)
        if fault is not None:
            if enforce:
                raise Unprocessable(f"The answer does not have the shape that was asked for: {fault}.")
            return f"invalid; {fault}"
    return "valid"


def _fault(schema: str, text: str) -> str | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
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
        return jsonschema_rs.validator_for(msgspec.json.decode(schema))
    except (ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"The answer's schema is none: {error}.") from None
