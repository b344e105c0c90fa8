"""Renders the error catalogue in each dialect's shape. No traceback ever leaves here."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from blazar.errors import BlazarError

_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    499: "request_cancelled",
}
_OPENAI_CODES = {"MODEL_NOT_FOUND": "model_not_found", "PROMPT_TOO_LONG": "context_length_exceeded"}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    507: "overloaded_error",
}


# What asking again cannot change, though clients take its status for something that passes.
_FINAL = frozenset({"CONFLICT", "INSUFFICIENT_STORAGE", "INTERNAL", "MODEL_TOO_LARGE"})


class Rendered(NamedTuple):
    """A whole error answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def dialect_of(path: str, headers: list[tuple[bytes, bytes]]) -> str:
    """Which dialect an answer to ``path`` speaks: ``ollama``, ``anthropic`` or ``openai``."""
    if path.startswith("/api/") or path == "/api":
        return "ollama"
    if path.startswith("/v1/messages") or any(key == b"anthropic-version" for key, _ in headers):
        return "anthropic"
    return "openai"


def render(error: BlazarError, dialect: str, trace: str) -> Rendered:
    """The answer that tells ``error`` to a client of ``dialect``."""
    headers = [("content-type", "application/json"), ("x-blazar-trace-id", trace)]
    if error.retry_after is not None:
        headers.append(("retry-after", str(max(1, math.ceil(error.retry_after)))))
    elif error.code in _FINAL:
        # Official clients try some answers again by themselves, and would get the same one.
        headers.append(("x-should-retry", "false"))
    return Rendered(error.status, headers, msgspec.json.encode(body(error, dialect, trace)))


def body(error: BlazarError, dialect: str, trace: str) -> dict[str, object]:
    """The JSON of ``error`` in ``dialect``, with the stable ``blazar_code`` beside the dialect's own fields."""
    message = error.message if error.param is None else f"{error.param}: {error.message}"
    if dialect == "ollama":
        return {"error": message, "blazar_code": error.code}
    if dialect == "anthropic":
        kind = _ANTHROPIC_TYPES.get(error.status, "api_error")
        detail = {"type": kind, "message": message, "blazar_code": error.code}
        return {"type": "error", "error": detail, "request_id": trace}
    kind = _OPENAI_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    code = _OPENAI_CODES.get(error.code, error.code.lower())
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": error.param,
            "code": code,
            "blazar_code": error.code,
        }
    }
