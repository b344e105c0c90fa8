"""The official packages for Node, against a real engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Server

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def seen(node_modules: Path, server: Server, scripted: Server) -> dict[str, Any]:
    done = subprocess.run(
        ["node", str(HERE / "sdks.mjs"), server.url, scripted.url],
        cwd=node_modules.parent, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_openai(seen: dict[str, Any]) -> None:
    assert seen["chat"] == {"finish": "length", "tokens": 5}
    assert seen["chatStream"] == {"text": True, "tokens": 5}
    assert seen["responses"] == {"first": "response.created", "last": "response.incomplete", "numbers": True}
    assert seen["embeddings"] == {"count": 2, "width": 64}
    assert seen["models"] == ["tiny"]
    assert seen["unknown"] == {"status": 404, "code": "model_not_found", "kind": "NotFoundError"}
    assert seen["runTools"] == "The tool said: rain in Oslo"


def test_anthropic(seen: dict[str, Any]) -> None:
    assert seen["message"] == {"stop": "max_tokens", "tokens": 5, "block": "text"}
    assert seen["messageStream"] == {"first": "message_start", "last": "message_stop", "stop": "max_tokens"}
    assert seen["count"] > 2
    assert seen["toolUse"] == {"stop": "tool_use", "input": {"city": "Oslo"}, "answer": "The tool said: rain"}


def test_ollama(seen: dict[str, Any]) -> None:
    assert seen["ollama"] == {"done": "length", "tokens": 5}
    assert seen["ollamaStream"] == {"done": True, "tokens": 5}
    assert seen["ollamaList"] == ["tiny"]
    assert seen["ollamaEmbed"] == 64
    assert seen["ollamaTool"]["name"] == "weather"
    assert seen["ollamaTool"]["arguments"] == {"city": "Oslo"}
