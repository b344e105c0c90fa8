"""What an engine has read of a conversation outlives it: unloads, sleep, restarts; and only where it fits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import patient
from tests.support.server import Server, serving

SESSION = {"x-blazar-session": "mine"}


@pytest.fixture
def server(tmp_path: Path, tiny: Path) -> Iterator[Server]:
    settings = {"BLAZAR_ENGINE_SLOTS": "2", "BLAZAR_ENGINE_CONTEXT": "1024"}
    with serving(tmp_path, {"tiny": tiny, "other": tiny}, **settings) as running:
        yield running


class Talk:
    """A conversation that goes on; each turn says which share of its prompt the engine still had."""

    def __init__(self, server: Server, about: str, headers: dict[str, str] | None = None) -> None:
        self.server = server
        self.headers = SESSION if headers is None else headers
        self.messages = [{"role": "user", "content": f"Let us talk about {about}. " * 8}]

    def turn(self) -> float:
        body = {"model": "tiny", "messages": self.messages, "max_tokens": 4}
        answer = patient.post(
            f"{self.server.url}/v1/chat/completions", json=body, headers=self.headers, timeout=60
        ).json()
        said = answer["choices"][0]["message"]["content"] or "."
        self.messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "And then? "}]
        usage = answer["usage"]
        share: float = usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"]
        return share


def evict(server: Server) -> None:
    assert patient.post(f"{server.url}/api/evict", json={"model": "tiny"}, timeout=120).status_code == 200


def listed(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = patient.get(f"{server.url}/api/session?model=tiny").json()["checkpoints"]
    return rows


def act(server: Server, action: str, name: str, model: str = "tiny") -> httpx.Response:
    asked = {"action": action, "model": model, "name": name}
    return patient.post(f"{server.url}/api/session", json=asked, timeout=60)


def files(server: Server) -> list[Path]:
    return sorted((server.home / "data" / "sessions").rglob("*.bin"))


def test_a_session_goes_on_where_it_was_after_an_unload_and_after_a_restart(server: Server) -> None:
    talk = Talk(server, "foxes")
    assert talk.turn() == 0
    evict(server)
    assert [row["name"] for row in listed(server)] == [""]
    assert talk.turn() > 0.8
    server.stop()
    server.start()
    assert talk.turn() > 0.8
    assert oct((server.home / "data" / "sessions").stat().st_mode & 0o777) == "0o700"
    assert len(files(server)) == 1, "what was saved before is replaced"


def test_without_a_session_nothing_is_kept(server: Server) -> None:
    talk = Talk(server, "owls", headers={})
    talk.turn()
    evict(server)
    assert files(server) == []
    assert talk.turn() == 0


def test_nothing_is_read_into_another_shape(server: Server) -> None:
    talk = Talk(server, "bears")
    talk.turn()
    evict(server)
    server.stop()
    server.env["BLAZAR_ENGINE_CONTEXT"] = "2048"
    server.start()
    assert talk.turn() == 0
    server.stop()
    server.env["BLAZAR_ENGINE_CONTEXT"] = "1024"
    server.start()
    assert talk.turn() > 0.5


def test_what_is_damaged_is_thrown_away_and_nobody_hears_of_it(server: Server) -> None:
    talk = Talk(server, "wolves")
    talk.turn()
    evict(server)
    (path,) = files(server)
    path.write_bytes(path.read_bytes()[:-100])
    assert talk.turn() == 0
    assert files(server) == []
    assert "could not be read back" in server.log.read_text()


def test_the_bound_of_bytes_holds(server: Server) -> None:
    server.stop()
    server.env["BLAZAR_RESIDENCY_SESSION_BANK_BYTES"] = "100000"
    server.start()
    talk = Talk(server, "mice")
    talk.turn()
    evict(server)
    assert sum(path.stat().st_size for path in files(server)) <= 100_000


def test_before_sleep_it_is_kept_too(server: Server) -> None:
    server.stop()
    server.env |= {"BLAZAR_RESIDENCY_SLEEP_S": "2", "BLAZAR_RESIDENCY_SESSION_KEEP_S": "0.1"}
    server.start()
    talk = Talk(server, "bats")
    talk.turn()
    deadline = time.monotonic() + 15
    while patient.get(f"{server.url}/api/ps").json()["models"][0]["blazar"]["state"] != "sleeping":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert talk.turn() > 0.8


def test_by_hand_under_a_name(server: Server) -> None:
    assert act(server, "save", "x").status_code == 404, "it is not loaded"
    talk = Talk(server, "cranes", headers={})
    talk.turn()
    saved = act(server, "save", "a name, with/signs").json()
    assert (saved["saved"], saved["slots"], saved["size"] > 0, saved["tokens"] > 100) == (True, 1, True, True)
    evict(server)
    assert talk.turn() == 0, "nobody asked for it back"
    evict(server)
    restored = act(server, "restore", "a name, with/signs")
    assert restored.json()["restored"] is True
    assert talk.turn() > 0.5
    assert act(server, "restore", "nothing").status_code == 404
    assert act(server, "save", "").status_code == 400
    assert act(server, "save", "x", model="nobody").status_code == 404
    assert act(server, "rm", "a name, with/signs").json()["removed"] is True
    assert act(server, "rm", "a name, with/signs").status_code == 404
    assert files(server) == []


def test_the_command_line(server: Server) -> None:
    Talk(server, "seals", headers={}).turn()
    assert "tokens of tiny as one" in server.cli("session", "save", "tiny", "one").stderr
    (row,) = [json.loads(line) for line in server.cli("session", "list", "tiny", "--json").stdout.splitlines()]
    assert (row["name"], row["context"], row["slots"]) == ("one", 1024, 1)
    head, line = server.cli("session", "ls", "tiny").stdout.splitlines()
    assert head.split()[:3] == ["NAME", "TOKENS", "SLOTS"]
    assert line.split()[0] == "one"
    assert "again" in server.cli("session", "restore", "tiny", "one").stderr
    server.cli("stop", "tiny")
    server.cli("rm", "tiny")
    assert files(server) == [], "what was said to a model goes with it"
    missing = server.cli("session", "restore", "other", "one", check=False)
    assert missing.returncode == 1
    assert "no checkpoint 'one' of 'other'" in missing.stderr.lower() or "checkpoint 'one'" in missing.stderr


def test_a_disk_that_takes_nothing_keeps_nobody_in_memory(server: Server) -> None:
    talk = Talk(server, "storks")
    talk.turn()
    sessions = server.home / "data" / "sessions"
    for path in sorted(sessions.rglob("*"), reverse=True):
        path.rmdir()
    sessions.rmdir()
    sessions.write_text("a file where a folder should be")
    evict(server)
    assert patient.get(f"{server.url}/api/ps").json()["models"] == []
    assert "could not be kept" in server.log.read_text()
    assert talk.turn() == 0, "it is loaded and answers"
    assert act(server, "save", "x").status_code == 409
