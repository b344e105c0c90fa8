"""Answers given again to who says nearly the same, with a real embedding model; and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import httpx
import pytest

from tests.support import patient
from tests.support.server import Server, serving
from tests.support.tiny_model import write

CACHE = "x-blazar-cache"
LONG = "Please tell me as much as you can about the weather in the mountains in early spring"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("semantic")
    write(folder / "embedder.gguf", pooling=gguf.PoolingType.MEAN)
    settings = {
        "BLAZAR_SEMANTIC_CACHE_MODE": "asked",
        "BLAZAR_SEMANTIC_CACHE_MODEL": "embedder",
        "BLAZAR_ENGINE_CONTEXT": "512",
        "BLAZAR_KEYS": "ann=ann-secret-0123456789,bob=bob-secret-0123456789",
    }
    models = {"tiny": tiny, "embedder": folder / "embedder.gguf"}
    with serving(folder / "home", models, **settings) as running:
        # Nobody waits long for a vector, and a slow machine loads slowly.
        for name in models:
            asked = {"model": name, "wait": True}
            assert (
                patient.post(f"{running.url}/api/warm", json=asked, headers=key("ann"), timeout=60).status_code == 200
            )
        yield running


@pytest.fixture(autouse=True)
def _nothing_kept(server: Server) -> None:
    assert patient.delete(f"{server.url}/api/cache", headers=key("ann")).status_code == 200


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}-secret-0123456789"}


def ask(server: Server, text: str, path: str = "/v1/chat/completions", by: str = "ann", **more: Any) -> httpx.Response:
    headers = {**key(by), CACHE: "on", **more.pop("headers", {})}
    # Determined: what a model of chance writes into a call may be no call.
    said = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0}
    body = {"model": "tiny", "stream": False, **said, **more}
    return patient.post(f"{server.url}{path}", json=body, headers=headers, timeout=60)


def loaded(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = patient.get(f"{server.url}/api/ps").json()["models"]
    return rows


def told(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    said: str = answer.headers.get(CACHE, "").partition(";")[0]
    return said


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_who_says_nearly_the_same_gets_the_same(server: Server, path: str) -> None:
    first = ask(server, LONG, path)
    assert told(first) == "miss"
    again = ask(server, LONG + "?", path)
    assert told(again) == "hit"
    assert again.content == first.content
    assert f"of={first.headers['x-blazar-trace-id']}" in again.headers[CACHE]
    assert again.headers["x-blazar-trace-id"] != first.headers["x-blazar-trace-id"]
    assert told(ask(server, "zzzz 9 !!", path)) == "miss"


def test_only_the_last_text_may_differ(server: Server) -> None:
    assert told(ask(server, LONG)) == "miss"
    assert told(ask(server, LONG, by="bob")) == "miss", "another key's answers are nobody else's"
    assert told(ask(server, LONG, temperature=0.1)) == "miss"
    assert told(ask(server, LONG, "/v1/messages")) == "miss"
    spoken = [{"role": "system", "content": "s"}, {"role": "user", "content": LONG}]
    assert told(ask(server, "", messages=spoken)) == "miss"
    assert told(ask(server, LONG + " 7")) == "miss"
    assert told(ask(server, LONG + " 8")) == "miss", "numbers are never nearly the same"
    assert told(ask(server, LONG)) == "hit"
    assert told(ask(server, LONG, by="bob")) == "hit"


def test_what_is_never_looked_up_says_why(server: Server) -> None:
    shaped = {"response_format": {"type": "json_object"}}
    for more, why in ((shaped, "a shape is asked for"), ({"tools": [TOOL]}, "tools")):
        for _ in range(2):
            assert ask(server, LONG, **more).headers[CACHE] == f"bypass; {why}"
    too_long = ask(server, "long " * 90, max_tokens=2)
    assert told(too_long) == "miss"
    settled = patient.get(f"{server.url}/api/cache", headers=key("ann")).json()
    assert (settled["entries"], settled["bypasses"] >= 4) == (1, True)


def test_headers_choose_and_must_make_sense(server: Server) -> None:
    assert CACHE not in ask(server, LONG, headers={CACHE: "off"}).headers
    assert told(ask(server, LONG)) == "miss", "an answer that was not to be kept was not"
    assert told(ask(server, LONG + "?", headers={f"{CACHE}-threshold": "1"})) == "miss"
    for name, value in ((CACHE, "maybe"), (f"{CACHE}-ttl", "0"), (f"{CACHE}-ttl", "x"), (f"{CACHE}-threshold", "nan")):
        refused = ask(server, LONG, headers={name: value})
        assert refused.status_code == 400
        assert name in refused.json()["error"]["message"]


def test_an_answer_from_it_costs_no_tokens(server: Server) -> None:
    def spent() -> int:
        rows = patient.get(f"{server.url}/v1/requests", headers=key("ann")).json()["data"]
        return sum(row.get("completion_tokens") or 0 for row in rows)

    ask(server, LONG)
    before = spent()
    assert told(ask(server, LONG)) == "hit"
    assert spent() == before


def test_the_embedder_sends_nobody_away(tmp_path: Path, tiny: Path) -> None:
    write(tmp_path / "embedder.gguf", pooling=gguf.PoolingType.MEAN)
    models = {"tiny": tiny, "embedder": tmp_path / "embedder.gguf"}
    settings = {"BLAZAR_SEMANTIC_CACHE_MODE": "on", "BLAZAR_SEMANTIC_CACHE_MODEL": "embedder"}
    with serving(tmp_path / "home", models, BLAZAR_ENGINE_CONTEXT="512", **settings) as server:
        asked = {"model": "tiny", "messages": [{"role": "user", "content": LONG}], "max_tokens": 3}
        off = {CACHE: "off"}
        assert patient.post(f"{server.url}/v1/chat/completions", json=asked, headers=off, timeout=60).status_code == 200
        needed = loaded(server)[0]["size"]
        server.stop()
        server.env["BLAZAR_RESIDENCY_MEMORY_BYTES"] = str(int(needed * 1.2))
        server.start()
        patient.post(f"{server.url}/v1/chat/completions", json=asked, headers=off, timeout=60)
        pid = loaded(server)[0]["blazar"]["pid"]
        answer = patient.post(f"{server.url}/v1/chat/completions", json=asked, timeout=60)
        assert answer.headers[CACHE].startswith("bypass; ")
        assert [row["blazar"]["pid"] for row in loaded(server)] == [pid]
