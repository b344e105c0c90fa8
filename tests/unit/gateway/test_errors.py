"""Each error in each dialect's shape, with a code that never changes."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from blazar import errors
from blazar.gateway.errors import body, dialect_of, render

TABLE = {
    "BAD_REQUEST": 400,
    "PROMPT_TOO_LONG": 400,
    "MODEL_UNSUPPORTED_ENGINE": 400,
    "VISION_PROJECTOR_MISSING": 400,
    "DIFFUSION_TEXT_REFUSAL": 400,
    "UNAUTHORIZED": 401,
    "KEY_SCOPE_FORBIDDEN": 403,
    "HOST_FORBIDDEN": 403,
    "ORIGIN_FORBIDDEN": 403,
    "MODEL_NOT_FOUND": 404,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413,
    "UNPROCESSABLE": 422,
    "RATE_LIMITED": 429,
    "INTERNAL": 500,
    "ENGINE_CRASHED": 502,
    "BAD_GATEWAY": 502,
    "ENGINE_UNREACHABLE": 502,
    "ALL_SLOTS_BUSY": 503,
    "ENGINE_CIRCUIT_OPEN": 503,
    "MODEL_LOAD_TIMEOUT": 503,
    "MODEL_TOO_LARGE": 503,
    "GATEWAY_TIMEOUT": 504,
    "INSUFFICIENT_MEMORY": 507,
    "INSUFFICIENT_STORAGE": 507,
}


def test_the_codes_that_clients_rely_on_keep_their_status() -> None:
    known = {code: kind.status for code, kind in errors.catalogue().items()}
    assert known | TABLE == known


def test_no_two_errors_share_a_code() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.BlazarError)]
    codes = [kind.code for kind in kinds if kind not in (errors.BlazarError,)]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize(
    ("path", "headers", "dialect"),
    [
        ("/api/chat", [], "ollama"),
        ("/v1/messages", [], "anthropic"),
        ("/v1/models", [(b"anthropic-version", b"2023-06-01")], "anthropic"),
        ("/v1/chat/completions", [], "openai"),
        ("/nowhere", [], "openai"),
    ],
)
def test_the_path_decides_the_dialect(path: str, headers: list[tuple[bytes, bytes]], dialect: str) -> None:
    assert dialect_of(path, headers) == dialect


def test_the_same_sentence_in_three_shapes() -> None:
    error = errors.ModelNotFound("qwen", ["qwen3", "qwen2"])
    sentence = "model 'qwen' not found. Did you mean 'qwen3' or 'qwen2'?"
    assert body(error, "openai", "t")["error"] == {
        "message": sentence,
        "type": "not_found_error",
        "param": None,
        "code": "model_not_found",
        "blazar_code": "MODEL_NOT_FOUND",
    }
    assert body(error, "ollama", "t") == {"error": sentence, "blazar_code": "MODEL_NOT_FOUND"}
    assert body(error, "anthropic", "t") == {
        "type": "error",
        "error": {"type": "not_found_error", "message": sentence, "blazar_code": "MODEL_NOT_FOUND"},
        "request_id": "t",
    }


def test_a_fault_names_its_json_path() -> None:
    error = errors.BadRequest("content is a number; it takes text", param="messages[2].content")
    rendered = render(error, "openai", "plm-1-2")
    said = msgspec.json.decode(rendered.body)
    assert rendered.status == 400
    assert said["error"]["param"] == "messages[2].content"
    assert said["error"]["message"].startswith("messages[2].content: ")
    assert ("x-blazar-trace-id", "plm-1-2") in rendered.headers


def test_retry_after_is_whole_seconds_and_never_too_early() -> None:
    busy = errors.AllSlotsBusy("m", 4, 9, retry_after=2.2)
    assert ("retry-after", "3") in render(busy, "openai", "t").headers
