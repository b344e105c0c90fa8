"""Who is in memory, by hand and by the settings, with the real engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import patient
from tests.support.server import Server, serving

ENDLESS = {"259": -100, "261": -100}
CHAT = {"model": "slow", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path, tiny_slow: Path) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("residency")
    models = {"tiny": tiny, "slow": tiny_slow, "ahead": tiny}
    settings = {"BLAZAR_RESIDENCY_PRELOAD": "ahead,nothing", "BLAZAR_ENGINE_CONTEXT": "4096"}
    with serving(home, models, **settings) as running:
        # The settings name models that only now are there.
        running.stop()
        running.start()
        yield running


def states(server: Server) -> dict[str, str]:
    rows = patient.get(f"{server.url}/api/ps").json()["models"]
    return {row["name"]: row["blazar"]["state"] for row in rows}


def until(server: Server, name: str, state: str | None) -> None:
    deadline = time.monotonic() + 20
    while states(server).get(name) != state:
        assert time.monotonic() < deadline, states(server)
        time.sleep(0.02)


def test_models_of_the_settings_are_loaded_at_the_start(server: Server) -> None:
    until(server, "ahead", "ready")
    assert "'nothing' could not be loaded beforehand" in server.log.read_text()


def test_a_model_is_brought_in_and_taken_out(server: Server) -> None:
    assert patient.post(f"{server.url}/api/warm", json={"model": "tiny"}).json()["status"] == "ok"
    until(server, "tiny", "ready")
    there = patient.post(f"{server.url}/api/warm", json={"model": "tiny", "wait": True}).json()
    assert (there["engine"], there["context"]) == ("llamacpp", 4096)
    assert patient.post(f"{server.url}/api/evict", json={"model": "tiny"}).json() == {"model": "tiny", "evicted": True}
    assert "tiny" not in states(server)
    assert patient.post(f"{server.url}/api/evict", json={"model": "tiny"}).status_code == 404
    assert patient.post(f"{server.url}/api/evict", json={}).status_code == 400
    assert patient.post(f"{server.url}/api/warm", json={"model": "nobody"}).status_code == 404
    server.cli("warm", "tiny")
    assert states(server)["tiny"] == "ready"


def test_one_that_answers_is_not_taken_away_but_waited_for(server: Server) -> None:
    asked = {**CHAT, "max_tokens": 2500, "stream": True, "logit_bias": ENDLESS}
    with httpx.Client(timeout=120) as client:
        with client.stream("POST", f"{server.url}/v1/chat/completions", json=asked) as stream:
            lines = stream.iter_lines()
            next(lines)
            refused = patient.post(f"{server.url}/api/evict", json={"model": "slow"})
            assert refused.status_code == 409
            assert states(server)["slow"] == "ready"
            rest = "".join(lines)
        assert '"finish_reason":"length"' in rest
        until(server, "slow", None)
        assert client.post(f"{server.url}/v1/chat/completions", json=CHAT).status_code == 200
        with client.stream("POST", f"{server.url}/v1/chat/completions", json=asked) as stream:
            lines = stream.iter_lines()
            next(lines)
            waited = client.build_request("POST", f"{server.url}/api/evict", json={"model": "slow", "wait": True})
            answer = client.send(waited)
            assert answer.status_code == 200
            assert "slow" not in states(server)
            assert '"finish_reason":"length"' in "".join(lines), "nobody was cut off"


def test_sessions_are_listed_and_closed(server: Server) -> None:
    headers = {"x-blazar-session": "desk"}
    assert patient.post(f"{server.url}/v1/chat/completions", json=CHAT, headers=headers, timeout=120).status_code == 200
    rows = patient.get(f"{server.url}/api/sessions").json()["sessions"]
    assert [(row["session"], row["model"]) for row in rows] == [("desk", "slow")]
    assert 890 < rows[0]["expires_in_s"] <= 900
    close = {"action": "close", "session": "desk"}
    assert patient.post(f"{server.url}/api/session", json=close).json()["closed"] is True
    assert patient.post(f"{server.url}/api/session", json=close).status_code == 404
    assert patient.post(f"{server.url}/api/session", json={"action": "dance", "session": "desk"}).status_code == 400
    long = patient.post(f"{server.url}/v1/chat/completions", json=CHAT, headers={"x-blazar-session": "x" * 200})
    assert long.status_code == 400


def test_crashes_are_forgotten_when_told(server: Server) -> None:
    assert patient.post(f"{server.url}/api/reset", json={"model": "tiny"}).json() == {"model": "tiny", "reset": True}
    assert "forgotten" in server.cli("ps", "--reset", "tiny").stderr


def test_a_plan_of_who_fits_together(server: Server) -> None:
    patient.post(f"{server.url}/api/warm", json={"model": "tiny", "wait": True}, timeout=120)
    plan = patient.get(f"{server.url}/api/coreside").json()
    rows = {row["name"]: row for row in plan["models"]}
    assert set(rows) == {"tiny", "slow", "ahead"}
    assert plan["models"][0]["loaded"]
    assert rows["tiny"]["act"] == "together"
    assert rows["tiny"]["measured"] is True
    assert sum(row["need"] for row in plan["models"]) + plan["models"][-1]["left"] == plan["budget"]
    told = server.cli("coreside", "tiny", "slow")
    head, *lines = told.stdout.splitlines()
    assert head.split()[:2] == ["NAME", "NEEDS"]
    assert sorted(line.split()[0] for line in lines) == ["slow", "tiny"]
    assert patient.get(f"{server.url}/api/coreside?model=nobody").status_code == 404
