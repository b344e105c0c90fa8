"""Models managed through the server, by Ollama's own client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import ollama
import pytest

from tests.support import patient
from tests.support.server import Server, serving
from tests.support.web import Web


@pytest.fixture
def server(tmp_path: Path, tiny_slow: Path) -> Iterator[Server]:
    with serving(tmp_path / "home", {"tiny": tiny_slow}, BLAZAR_ENGINE_CONTEXT="4096") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[ollama.Client]:
    found = ollama.Client(host=server.url)
    yield found
    found._client.close()


@pytest.fixture
def web(tiny: Path) -> Iterator[Web]:
    with Web() as running:
        running.files["/other.gguf"] = tiny.read_bytes()
        yield running


def names(client: ollama.Client) -> set[str]:
    return {str(model.model) for model in client.list().models}


def test_a_copy_and_its_end(client: ollama.Client) -> None:
    client.copy("tiny", "second")
    assert names(client) == {"tiny", "second"}
    client.delete("second")
    assert names(client) == {"tiny"}
    with pytest.raises(ollama.ResponseError, match="not found") as refused:
        client.delete("second")
    assert refused.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.copy("nobody", "third")


def test_a_model_that_answers_is_not_deleted(server: Server, client: ollama.Client) -> None:
    body = {"model": "tiny", "prompt": "x", "options": {"num_predict": 4000, "temperature": 0}}
    with httpx.stream("POST", f"{server.url}/api/generate", json=body, timeout=120) as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        with pytest.raises(ollama.ResponseError, match="answering") as refused:
            client.delete("tiny")
        assert refused.value.status_code == 409
    deadline = time.monotonic() + 5
    while any(row["blazar"]["in_flight"] for row in server.ps()) and time.monotonic() < deadline:  # type: ignore[index]
        time.sleep(0.01)
    client.delete("tiny")
    assert names(client) == set()
    assert server.ps() == []


def test_a_pull_tells_how_far_it_is(client: ollama.Client, web: Web) -> None:
    web.pause_s = 0.05
    steps = list(client.pull(f"{web.url}/other.gguf", stream=True))
    assert steps[0].status == "pulling manifest"
    assert steps[-1].status == "success"
    moving = [step for step in steps if step.digest]
    assert moving[-1].completed == moving[-1].total
    assert all(len(step.digest or "") >= 19 for step in moving), "Ollama's command cuts twelve digits out of it"
    assert any(name.startswith("other") for name in names(client))
    assert client.pull(f"{web.url}/other.gguf").status == "success", "what is here is not fetched again"
    assert len(web.requests) == 1


def test_a_pull_that_fails_says_why(client: ollama.Client, web: Web) -> None:
    with pytest.raises(ollama.ResponseError, match="404"):
        client.pull(f"{web.url}/nothing.gguf")
    with pytest.raises(ollama.ResponseError):
        list(client.pull(f"{web.url}/nothing.gguf", stream=True))
    with pytest.raises(ollama.ResponseError, match="blazar import"):
        client.pull("/etc/passwd")


def test_a_client_that_leaves_stops_its_pull(server: Server, client: ollama.Client, web: Web) -> None:
    web.pause_s = 0.2
    with httpx.stream("POST", f"{server.url}/api/pull", json={"model": f"{web.url}/other.gguf"}, timeout=120) as answer:
        next(answer.iter_lines())
    time.sleep(2)
    assert names(client) == {"tiny"}
    web.pause_s = 0
    assert client.pull(f"{web.url}/other.gguf").status == "success"


def test_a_daemon_that_stops_ends_its_pulls_with_a_word(server: Server, web: Web) -> None:
    web.pause_s = 0.3
    with httpx.stream("POST", f"{server.url}/api/pull", json={"model": f"{web.url}/other.gguf"}, timeout=120) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert server.process is not None
        server.process.terminate()
        asked = time.monotonic()
        last = list(lines)[-1]
    assert "SHUTTING_DOWN" in last
    assert server.process.wait(20) == 0
    assert time.monotonic() - asked < 5


def test_a_page_of_another_site_can_do_nothing(server: Server) -> None:
    foreign = {"origin": "https://evil.example", "content-type": "text/plain"}
    body = '{"source":"tiny","destination":"taken"}'
    refused = patient.post(f"{server.url}/api/copy", content=body, headers=foreign)
    assert refused.status_code == 403
    assert refused.json()["blazar_code"] == "ORIGIN_FORBIDDEN"
    assert patient.get(f"{server.url}/api/tags").json()["models"][0]["name"] == "tiny"
