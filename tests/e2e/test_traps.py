"""Traps of the wire that need a server to be seen; their numbers are those of the list of traps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import patient
from tests.support.server import Server, serving

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("//v1/chat/completions", CHAT),
        ("/v1/v1/chat/completions", CHAT),
        ("/v1/chat/completions/", CHAT),
        ("/v1/v1/messages", CHAT),
        ("//v1//messages/", CHAT),
        ("/v1/v1/messages/count_tokens", CHAT),
        ("/v1/v1/responses", {"model": "tiny", "input": "hi", "max_output_tokens": 16}),
        ("/v1/v1/completions", {"model": "tiny", "prompt": "hi", "max_tokens": 2}),
        ("//api//chat/", {**CHAT, "stream": False, "options": {"num_predict": 2}}),
    ],
)
def test_traps_57_and_58_paths_that_base_urls_make(server: Server, path: str, body: dict[str, Any]) -> None:
    answer = patient.post(f"{server.url}{path}", json=body, timeout=120)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", ["/v1/v1/models", "//v1/models", "/v1/models/", "//api/tags", "/api/tags/"])
def test_traps_57_and_58_paths_of_lists(server: Server, path: str) -> None:
    answer = patient.get(f"{server.url}{path}", timeout=120)
    assert answer.status_code == 200
    assert "tiny" in answer.text


@pytest.mark.parametrize(
    "names",
    [
        {"model": "tiny"},
        {"name": "tiny"},
        {"model": "", "name": "tiny"},
        {"model": "tiny", "name": ""},
        {"model": None, "name": "tiny"},
    ],
)
def test_trap_52_a_model_goes_by_either_word(server: Server, names: dict[str, Any]) -> None:
    assert patient.post(f"{server.url}/api/show", json=names, timeout=120).status_code == 200
    if names.get("model"):
        assert patient.post(f"{server.url}/api/chat", json={**names, "messages": []}, timeout=120).status_code == 200


@pytest.mark.parametrize("query", ["model=copy", "name=copy"])
def test_trap_54_a_deletion_whose_body_a_proxy_took(server: Server, query: str) -> None:
    made = patient.post(f"{server.url}/api/copy", json={"source": "tiny", "destination": "copy"}, timeout=120)
    assert made.status_code == 200, made.text
    assert patient.delete(f"{server.url}/api/delete?{query}", timeout=120).status_code == 200
    assert patient.post(f"{server.url}/api/show", json={"model": "copy"}, timeout=120).status_code == 404
    assert patient.delete(f"{server.url}/api/delete", timeout=120).status_code == 400


@pytest.mark.parametrize("stream", [False, True])
def test_trap_63_an_answer_that_fills_the_context_ends_by_length(server: Server, stream: bool) -> None:
    asked = {**CHAT, "max_tokens": None, "logit_bias": {"259": -100, "261": -100}, "stream": stream}
    answer = patient.post(f"{server.url}/v1/chat/completions", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    assert '"finish_reason":"length"' in answer.text.replace('": "', '":"')


def test_trap_61_ollamas_clients_wait_where_others_are_refused_late(tmp_path: Path, tiny: Path) -> None:
    """More than there are places, and nobody is refused."""
    with serving(tmp_path, {"tiny": tiny}, BLAZAR_ENGINE_SLOTS="1") as running, httpx.Client(timeout=60) as client:
        asked = {**CHAT, "stream": False, "options": {"num_predict": 4}}

        def ask(_: int) -> int:
            return client.post(f"{running.url}/api/chat", json=asked).status_code

        with ThreadPoolExecutor(24) as pool:
            assert set(pool.map(ask, range(48))) == {200}


def _converse(server: Server, names: str, turns: int, told: str, **more: Any) -> list[float]:
    """The share of each prompt that the engine still had, over conversations that take turns."""
    talks = {
        name: [
            {"role": "system", "content": "You help. " * 10},
            {"role": "user", "content": f"{name} {told} asks: " + "why? " * 10},
        ]
        for name in names
    }
    shares = []
    for _ in range(turns):
        for talk in talks.values():
            body = {"model": "tiny", "messages": talk, "max_tokens": 4, **more}
            answer = patient.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()
            usage = answer["usage"]
            shares.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])
            said = answer["choices"][0]["message"]["content"]
            talk += [{"role": "assistant", "content": said or "."}, {"role": "user", "content": "And then? " * 3}]
    return shares


def test_trap_64_conversations_do_not_drive_each_others_prefix_out(tmp_path: Path, tiny: Path) -> None:
    with serving(tmp_path, {"tiny": tiny}, BLAZAR_ENGINE_SLOTS="3", BLAZAR_ENGINE_CONTEXT="2048") as server:
        shares = _converse(server, "ABC", 5, "seats")
        # From the third turn on, each finds all that it had said before.
        assert min(shares[6:]) > 0.75, shares
        alone = _converse(server, "D", 5, "alone")
        assert min(alone[2:]) > 0.75
