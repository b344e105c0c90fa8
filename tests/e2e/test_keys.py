"""API keys on a real server: who gets in, to what, for how much, and that nobody learns a secret."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.gateway.app import routes
from blazar.gateway.due import SCOPED
from blazar.gateway.register import Register
from blazar.node import Node
from tests.support import patient
from tests.support.server import Server, serving

MESSAGES = [{"role": "user", "content": "hi"}]
ENDLESS = {"259": -100, "261": -100}
CHAT = {"model": "tiny", "messages": MESSAGES, "max_tokens": 3}


def made(server: Server, name: str, *options: str) -> dict[str, str]:
    """The header of a new key."""
    return {"authorization": f"Bearer {server.cli('keys', 'add', name, *options).stdout.strip()}"}


def code(answer: httpx.Response) -> str:
    """The stable code of an error, in whatever shape."""
    if not answer.content or not answer.headers.get("content-type", "").startswith("application/json"):
        return ""
    body = answer.json()
    error = body.get("error") if isinstance(body, dict) else None
    return str(error["blazar_code"] if isinstance(error, dict) else body.get("blazar_code", "")) if error else ""


def chat(server: Server, key: dict[str, str], **more: Any) -> httpx.Response:
    return patient.post(f"{server.url}/v1/chat/completions", json={**CHAT, **more}, headers=key, timeout=120)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path, tiny_slow: Path) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("keys")
    settings = {"BLAZAR_ENGINE_SLOTS": "2", "BLAZAR_ENGINE_CONTEXT": "4096", "BLAZAR_SERVER_LOG_LEVEL": "debug"}
    with serving(home, {"tiny": tiny, "slow": tiny_slow}, **settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin(server: Server) -> dict[str, str]:
    assert chat(server, {}).status_code == 200, "without keys everybody gets in"
    none_yet = patient.get(f"{server.url}/api/keys")
    assert (none_yet.status_code, code(none_yet)) == (403, "KEYS_OFF")
    key = made(server, "admin")
    assert chat(server, {}).status_code == 401, "at once, without a restart"
    return key


def every_route(tmp_path: Path) -> list[tuple[str, str]]:
    """Methods and route templates of the whole app."""
    node = Node(Config(), Paths.from_env({"BLAZAR_HOME": str(tmp_path)}))
    found = [
        (method, template)
        for template, resource in routes(node, Register()).items()
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
        if hasattr(resource, f"on_{method.lower()}")
    ]
    node.store.close()
    return found


def test_every_route_asks_for_a_key_and_denies_what_is_not_allowed(
    server: Server, admin: dict[str, str], tmp_path: Path
) -> None:
    every = every_route(tmp_path)
    assert len(every) > 70
    assert set(every) >= SCOPED, "nothing is allowed that does not exist"
    scoped = made(server, "scoped", "--model", "tiny")
    filled = {"{id}": "x", "{name:path}": "tiny", "{digest}": "sha256:" + "0" * 64, "{trace}": "x"}
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for method, template in every:
            path = template
            for part, value in filled.items():
                path = path.replace(part, value)
            ask = (method, path)
            open_to_all = template in {"/", "/health", "/healthz"}
            for wrong in ({}, {"authorization": "Bearer plm_" + "0" * 32}, {"authorization": "Basic eDp5"}):
                assert (client.request(*ask, headers=wrong).status_code == 401) != open_to_all, ask
            answer = client.request(*ask, headers=scoped)
            assert answer.status_code != 401, ask
            allowed = open_to_all or ("GET" if method == "HEAD" else method, template) in SCOPED
            assert (answer.status_code == 403) != allowed, (ask, answer.text)
            answer = client.request(*ask, headers=admin)
            assert answer.status_code not in {401, 500}, (ask, answer.text)
            assert code(answer) not in {"UNAUTHORIZED", "KEY_SCOPE_FORBIDDEN"}, ask
    preflight = patient.options(
        f"{server.url}/v1/chat/completions",
        headers={"origin": "http://localhost:3000", "access-control-request-method": "POST"},
    )
    assert preflight.status_code < 300, "preflights carry no key"


def test_a_key_for_some_models_sees_and_uses_those_only(server: Server, admin: dict[str, str]) -> None:
    key = made(server, "some", "-m", "ti*")
    assert chat(server, key).status_code == 200
    for path, body in (
        ("/v1/chat/completions", CHAT),
        ("/v1/messages", CHAT),
        ("/v1/messages/count_tokens", CHAT),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/responses", {"input": "hi", "background": True}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/api/chat", {"messages": MESSAGES}),
        ("/api/generate", {"prompt": ""}),
        ("/api/generate", {"keep_alive": 0}),
        ("/api/embed", {"input": "hi"}),
        ("/api/show", {}),
        ("/tokenize", {"content": "hi"}),
    ):
        answer = patient.post(f"{server.url}{path}", json={**body, "model": "slow"}, headers=key, timeout=120)
        assert (answer.status_code, code(answer)) == (403, "KEY_SCOPE_FORBIDDEN"), (path, answer.text)
    assert [row["id"] for row in patient.get(f"{server.url}/v1/models", headers=key).json()["data"]] == ["tiny"]
    assert [row["name"] for row in patient.get(f"{server.url}/api/tags", headers=key).json()["models"]] == ["tiny"]
    missing = chat(server, key, model="slw")
    assert missing.status_code == 404
    assert "slow" not in missing.text, "names of what is not its own are not told"
    assert "slow" in chat(server, admin, model="slw").text


def test_requests_a_minute_in_every_dialects_words(server: Server, admin: dict[str, str]) -> None:
    key = made(server, "minute", "--rpm", "2", "--tpm", "100000")
    first = chat(server, key)
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert first.headers["x-ratelimit-remaining-requests"] == "1"
    assert int(first.headers["x-ratelimit-remaining-tokens"]) <= 100000
    second = patient.post(f"{server.url}/v1/messages", json=CHAT, headers=key, timeout=120)
    assert second.headers["anthropic-ratelimit-requests-remaining"] == "0"
    secret = key["authorization"].removeprefix("Bearer ")
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=secret, max_retries=0) as one,
        pytest.raises(openai.RateLimitError) as refused,
    ):
        one.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}])
    assert 0 < int(refused.value.response.headers["retry-after"]) <= 30
    with (
        anthropic.Anthropic(base_url=server.url, api_key=secret, max_retries=0) as two,
        pytest.raises(anthropic.RateLimitError),
    ):
        two.messages.create(model="tiny", max_tokens=3, messages=[{"role": "user", "content": "hi"}])
    ollama = patient.post(f"{server.url}/api/chat", json=CHAT, headers=key)
    assert (ollama.status_code, code(ollama)) == (429, "RATE_LIMITED")
    wrong = openai.OpenAI(base_url=f"{server.url}/v1", api_key="nonsense-nonsense", max_retries=0)
    with wrong, pytest.raises(openai.AuthenticationError):
        wrong.models.list()


def test_retry_after_is_when_it_is_let_in(server: Server, admin: dict[str, str]) -> None:
    key = made(server, "exact", "--rpm", "60")
    answers = [chat(server, key) for _ in range(61)]
    assert answers[0].status_code == 200
    refused = chat(server, key)
    while refused.status_code == 200:
        refused = chat(server, key)
    said = float(refused.json()["error"]["message"].rpartition(" in ")[2].removesuffix(" s."))
    assert said <= 1.0
    time.sleep(said + 0.005)
    assert chat(server, key).status_code == 200


def test_requests_at_once_are_held_until_the_stream_has_ended_or_its_client_left(
    server: Server, admin: dict[str, str]
) -> None:
    key = made(server, "one", "--max-concurrent", "1")
    body = {"model": "slow", "messages": MESSAGES, "max_tokens": 2000, "stream": True, "logit_bias": ENDLESS}
    with (
        httpx.Client(timeout=120) as client,
        client.stream("POST", f"{server.url}/v1/chat/completions", json=body, headers=key) as stream,
    ):
        lines = stream.iter_lines()
        next(lines)
        refused = chat(server, key)
        assert (refused.status_code, code(refused)) == (429, "RATE_LIMITED")
        assert "at once" in refused.text
        mine = patient.get(f"{server.url}/v1/requests?state=live", headers=key).json()["data"]
        assert [row["key"] for row in mine] == ["one"]
    deadline = time.monotonic() + 5
    while chat(server, key).status_code == 429:
        assert time.monotonic() < deadline, "the place of a client that left is free"
        time.sleep(0.02)


def used(server: Server, admin: dict[str, str], name: str) -> dict[str, int]:
    rows = patient.get(f"{server.url}/api/keys", headers=admin).json()["keys"]
    return dict(next(row["today"] for row in rows if row["name"] == name))


def test_what_was_used_is_counted_the_same_streamed_or_not_and_partly_when_the_client_leaves(
    server: Server, admin: dict[str, str]
) -> None:
    key = made(server, "counted", "--tpm", "100000")
    whole = chat(server, key).json()["usage"]
    first = used(server, admin, "counted")
    assert first == {
        "requests": 1, "prompt_tokens": whole["prompt_tokens"], "completion_tokens": whole["completion_tokens"]
    }  # fmt: skip
    assert chat(server, key, stream=True).status_code == 200
    assert used(server, admin, "counted") == {name: 2 * count for name, count in first.items()}
    body = {"model": "slow", "messages": MESSAGES, "max_tokens": 3000, "stream": True, "logit_bias": ENDLESS}
    with (
        httpx.Client(timeout=120) as client,
        client.stream("POST", f"{server.url}/v1/chat/completions", json=body, headers=key) as stream,
    ):
        seen = 0
        for line in stream.iter_lines():
            seen += line.startswith("data: ")
            if seen > 20:
                break
    time.sleep(0.5)
    after = used(server, admin, "counted")
    assert 20 <= after["completion_tokens"] - 2 * first["completion_tokens"] < 1000
    assert after["prompt_tokens"] > 2 * first["prompt_tokens"]


def test_a_budget_of_tokens_is_reserved_and_given_back(server: Server, admin: dict[str, str]) -> None:
    key = made(server, "tokens", "--tpm", "1000")
    assert chat(server, key, max_tokens=2).status_code == 200
    left = chat(server, key, max_tokens=900)
    assert left.status_code == 200
    # The tiny model's answers are shorter than 900 tokens, or as long; what it did not use is there again.
    spent = left.json()["usage"]["total_tokens"]
    following = chat(server, key, max_tokens=max(1, 900 - spent))
    assert following.status_code == 200, following.text
    asked = [chat(server, key, max_tokens=950).status_code for _ in range(3)]
    assert 429 in asked


def test_tokens_a_day_survive_a_kill(tmp_path: Path, tiny: Path) -> None:
    with serving(tmp_path, {"tiny": tiny}) as running:
        key = made(running, "day", "--daily-tokens", "60")
        while (answer := chat(running, key)).status_code == 200:
            pass
        assert (answer.status_code, code(answer)) == (429, "RATE_LIMITED")
        assert int(answer.headers["retry-after"]) <= 86_400
        time.sleep(1.5)
        running.kill()
        running.start()
        assert chat(running, key).status_code == 429
        assert "a day" in chat(running, key).text


def test_keys_come_and_go_at_once(server: Server, admin: dict[str, str]) -> None:
    url = f"{server.url}/api/keys"
    asked = {"name": "web", "models": ["tiny"], "rpm": 100, "weight": 2}
    answer = patient.post(url, json=asked, headers=admin)
    assert answer.headers["cache-control"] == "no-store"
    secret = answer.json()["key"]
    assert secret.startswith("plm_")
    assert len(secret) == 36
    key = {"x-api-key": secret}
    assert chat(server, key).status_code == 200
    assert patient.post(url, json=asked, headers=admin).status_code == 409
    assert patient.get(url, headers=key).status_code == 403
    new = patient.post(f"{url}/rotate?name=web", headers=admin).json()
    assert new["weight"] == 2
    assert chat(server, key).status_code == 401, "the old one is worth nothing from this moment on"
    assert chat(server, {"x-api-key": new["key"]}).status_code == 200
    shown = patient.get(url, headers=admin).text
    assert secret not in shown
    assert new["key"] not in shown
    assert patient.delete(f"{url}?name=web", headers=admin).status_code == 200
    assert chat(server, {"x-api-key": new["key"]}).status_code == 401
    assert patient.delete(f"{url}?name=web", headers=admin).status_code == 404
    for wrong in ({"name": "a b"}, {"name": "x", "rpm": -1}, {"name": "x", "weight": 0}, {"name": "x", "nonsense": 1}):
        assert patient.post(url, json=wrong, headers=admin).status_code == 400, wrong
    config = (server.home / "config" / "config.toml").read_text()
    assert "plm_" + secret[4:] not in config
    assert "sha256:" in config


def test_the_owner_of_the_machine_needs_no_key(server: Server, admin: dict[str, str]) -> None:
    assert "tiny" in server.cli("ps").stdout
    assert "admin" in server.cli("keys", "list").stdout


def test_the_last_key_stays_unless_told(tmp_path: Path, tiny: Path) -> None:
    with serving(tmp_path, {"tiny": tiny}) as running:
        key = made(running, "only")
        assert patient.delete(f"{running.url}/api/keys?name=only", headers=key).status_code == 409
        with pytest.raises(AssertionError, match="last key"):
            running.cli("keys", "rm", "only")
        running.cli("keys", "rm", "only", "--last")
        assert chat(running, {}).status_code == 200


def test_keys_of_the_environment(tmp_path: Path, tiny: Path) -> None:
    secret = "a-secret-of-my-own"
    with serving(tmp_path, {"tiny": tiny}, BLAZAR_KEYS=f"box={secret}") as running:
        assert chat(running, {}).status_code == 401
        key = {"x-api-key": secret}
        assert chat(running, key).status_code == 200
        rows = patient.get(f"{running.url}/api/keys", headers=key).json()["keys"]
        assert [(row["name"], row["fixed"]) for row in rows] == [("box", True)]
        assert patient.delete(f"{running.url}/api/keys?name=box", headers=key).status_code == 409


def test_a_broken_config_changes_no_key(server: Server, admin: dict[str, str]) -> None:
    file = server.home / "config" / "config.toml"
    good = file.read_text()
    try:
        file.write_text(good + "\n[[keys]]\nname = 3\n")
        assert chat(server, admin).status_code == 200
        assert chat(server, {}).status_code == 401
        file.unlink()
        time.sleep(0.1)
        assert chat(server, {}).status_code == 200, "no file, no keys"
    finally:
        file.write_text(good)


def test_what_a_key_keeps_is_its_own(server: Server, admin: dict[str, str]) -> None:
    mine, other = made(server, "mine", "-m", "*"), made(server, "other", "-m", "*")
    url = server.url
    turn = {"model": "tiny", "input": "hi", "max_output_tokens": 16}
    kept = patient.post(f"{url}/v1/responses", json=turn, headers=mine, timeout=120).json()
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
    files = {"file": ("in.jsonl", json.dumps(line)), "purpose": (None, "batch")}
    file = patient.post(f"{url}/v1/files", files=files, headers=mine).json()["id"]
    asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    assert patient.post(f"{url}/v1/batches", json=asked, headers=other).status_code == 404
    batch = patient.post(f"{url}/v1/batches", json=asked, headers=mine).json()["id"]
    lines = {"requests": [{"custom_id": "a", "params": CHAT}]}
    messages = patient.post(f"{url}/v1/messages/batches", json=lines, headers=mine).json()["id"]
    paths = [
        f"/v1/responses/{kept['id']}",
        f"/v1/responses/{kept['id']}/input_items",
        f"/v1/files/{file}",
        f"/v1/files/{file}/content",
        f"/v1/batches/{batch}",
        f"/v1/messages/batches/{messages}",
    ]
    for path in paths:
        assert patient.get(url + path, headers=mine).status_code == 200, path
        assert patient.get(url + path, headers=other).status_code == 404, path
        assert patient.get(url + path, headers=admin).status_code == 200, path
    for path in ("/v1/files", "/v1/batches", "/v1/messages/batches"):
        assert patient.get(url + path, headers=other).json()["data"] == []
        assert patient.get(url + path, headers=mine).json()["data"]
    following = {**turn, "previous_response_id": kept["id"]}
    assert patient.post(f"{url}/v1/responses", json=following, headers=other).status_code == 404
    assert patient.post(f"{url}/v1/responses", json=following, headers=mine, timeout=120).status_code == 200
    for path in (f"/v1/responses/{kept['id']}", f"/v1/files/{file}"):
        assert patient.delete(url + path, headers=other).status_code == 404
    deadline = time.monotonic() + 20
    while patient.get(f"{url}/v1/batches/{batch}", headers=mine).json()["status"] != "completed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    output = patient.get(f"{url}/v1/batches/{batch}", headers=mine).json()["output_file_id"]
    assert patient.get(f"{url}/v1/files/{output}/content", headers=mine).status_code == 200
    assert patient.get(f"{url}/v1/files/{output}/content", headers=other).status_code == 404
    assert used(server, admin, "mine")["requests"] == 4, "lines of batches are charged"


def test_a_batch_waits_for_its_keys_budget(server: Server, admin: dict[str, str]) -> None:
    key = made(server, "batch", "--rpm", "60", "--max-concurrent", "1")
    lines = {"requests": [{"custom_id": f"r{n}", "params": CHAT} for n in range(6)]}
    batch = patient.post(f"{server.url}/v1/messages/batches", json=lines, headers=key).json()["id"]
    deadline = time.monotonic() + 30
    while (state := patient.get(f"{server.url}/v1/messages/batches/{batch}", headers=key).json())[
        "processing_status"
    ] != "ended":
        assert time.monotonic() < deadline, state
        time.sleep(0.1)
    assert state["request_counts"]["succeeded"] == 6


def test_no_secret_is_ever_told(server: Server, admin: dict[str, str], tmp_path: Path) -> None:
    """Whatever goes wrong, with the secret in whatever place a client may put it."""
    key = made(server, "hidden", "-m", "tiny", "--rpm", "4")
    secret = key["authorization"].removeprefix("Bearer ")
    bodies: list[Any] = [
        b"{", b"", b"[]", secret.encode(), {"model": secret}, {"model": "tiny", "messages": secret}, {"model": "slow"},
        {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": -1},
        {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 3}}}},
    ]  # fmt: skip
    told: list[str] = []
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for method, template in every_route(tmp_path):
            path = template.partition("{")[0]
            for headers in (key, {"x-api-key": secret}, {"authorization": f"bearer {secret}x"}):
                for body in bodies if method == "POST" else [b""]:
                    content = body if isinstance(body, bytes) else json.dumps(body).encode()
                    answer = client.request(method, path, content=content, headers=headers)
                    echoed = secret.encode() in content
                    if not echoed:
                        told.append(answer.text + str(answer.headers))
    assert not [text for text in told if secret in text or secret[12:] in text]
    log = server.log.read_text()
    assert secret[12:] not in log
    for place in server.home.rglob("*"):
        if place.is_file() and place.suffix in {".toml", ".json", ".db", ".log"}:
            assert secret[12:].encode() not in place.read_bytes(), place


def test_keys_share_a_busy_model_by_weight(tmp_path: Path, tiny_slow: Path) -> None:
    with serving(tmp_path, {"slow": tiny_slow}, BLAZAR_ENGINE_SLOTS="1", BLAZAR_ENGINE_CONTEXT="2048") as running:
        keys = {"light": made(running, "light", "--weight", "1"), "heavy": made(running, "heavy", "--weight", "3")}
        ends = time.monotonic() + 100
        had = dict.fromkeys(keys, 0)
        lock, enough = threading.Lock(), threading.Event()

        def ask(name: str, tokens: int) -> None:
            asked = {**CHAT, "model": "slow", "max_tokens": tokens, "logit_bias": ENDLESS}
            while not enough.is_set() and time.monotonic() < ends:
                answer = client.post(f"{running.url}/v1/chat/completions", json=asked, headers=keys[name])
                assert answer.status_code == 200, answer.text
                with lock:
                    # What comes after that are the answers of those who still wait, whoever they are.
                    if not enough.is_set():
                        had[name] += answer.json()["usage"]["total_tokens"]
                    if sum(had.values()) > 10_000:
                        enough.set()

        with httpx.Client(timeout=120) as client, ThreadPoolExecutor(12) as pool:
            # The light one asks with more clients and for longer answers, which gets it nothing.
            asks = [pool.submit(ask, "light", 90) for _ in range(8)] + [pool.submit(ask, "heavy", 40) for _ in range(4)]
            for one in asks:
                one.result()
        share = had["heavy"] / sum(had.values())
        assert 0.68 < share < 0.82, had
