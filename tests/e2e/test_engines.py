"""Builds of engines, side by side for real: installed, measured, chosen, removed while one works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from tests.support import patient
from tests.support.server import serving
from tests.support.sources import source_tree

# Another than the one that this environment has.
OLDER = "2026.9.11063"


def test_two_builds_side_by_side(tmp_path: Path, tiny: Path) -> None:
    with serving(tmp_path / "home", {"tiny": tiny}, BLAZAR_ENGINE_CONTEXT="512") as server:

        def listed() -> list[dict[str, Any]]:
            return [json.loads(line) for line in server.cli("engine", "list", "--json").stdout.splitlines()]

        def write() -> None:
            body = {"model": "tiny", "prompt": "hi", "stream": False, "options": {"num_predict": 3}}
            assert patient.post(f"{server.url}/api/generate", json=body, timeout=120).status_code == 200

        (first,) = listed()
        assert (first["used"], first["owned"]) == (True, False)
        write()
        told = server.cli("engine", "update", "--version", OLDER, "--no-gate").stderr
        assert f"Measuring xllamacpp-{OLDER} with tiny" in told
        assert "back to it: blazar engine rollback" in told
        assert [(row["tag"], row["used"], row["models"]) for row in listed()] == [
            (f"xllamacpp-{OLDER}", True, []),
            (first["tag"], False, ["tiny"]),
        ]
        server.cli("stop", "tiny")
        write()
        assert [row["models"] for row in listed()] == [["tiny"], []]
        server.cli("engine", "rollback")
        refused = server.cli("engine", "rm", f"xllamacpp-{OLDER}", check=False)
        assert refused.returncode == 1
        assert "runs tiny" in refused.stderr
        write()
        server.cli("stop", "tiny")
        server.cli("engine", "rm", f"xllamacpp-{OLDER}")
        assert [row["tag"] for row in listed()] == [first["tag"]]
        assert list((server.home / "data/engines/llamacpp").iterdir()) == []
        write()


def test_work_on_builds_that_cannot_be_done(tmp_path: Path) -> None:
    with serving(tmp_path / "home", {}) as server:

        def ask(**body: object) -> httpx.Response:
            return patient.post(f"{server.url}/api/engines", json=body, timeout=120)

        assert ask(action="install", kind="sglang").status_code == 400
        assert ask(action="use").json()["blazar_code"] == "BAD_REQUEST"
        assert ask(action="explode").status_code == 400
        lines = [json.loads(line) for line in ask(action="use", tag="b1").text.splitlines()]
        assert lines[-1]["blazar_code"] == "NOT_FOUND"
        missing = server.cli("engine", "install", "llamacpp", "--version", "0.0.0.dev0", check=False)
        assert missing.returncode == 1
        assert "could not be fetched" in missing.stderr


def test_a_build_from_source_and_who_may_ask_for_it(tmp_path: Path, tiny: Path) -> None:
    tree = source_tree(tmp_path / "llama.cpp")
    with serving(tmp_path / "home", {"tiny": tiny}, BLAZAR_ENGINE_CONTEXT="512") as server:

        def ask(key: str = "") -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            body = {"action": "build", "source": str(tree)}
            return patient.post(f"{server.url}/api/engines", json=body, headers=headers)

        assert ask().status_code == 403, "whoever reaches the address could run anything here"
        told = server.cli("engine", "build", str(tree), "--tag", "mine", "--no-gate").stderr
        assert "Building mine: looking at this machine" in told
        assert "Models are loaded with mine from now on" in told
        body = {"model": "tiny", "prompt": "hi", "stream": False, "options": {"num_predict": 3}}
        assert patient.post(f"{server.url}/api/generate", json=body).status_code == 200
        first = json.loads(server.cli("engine", "list", "--json").stdout.splitlines()[0])
        assert (first["tag"], first["channel"], first["models"]) == ("mine", "source", ["tiny"])
        key = server.cli("keys", "add", "root").stdout.strip()
        refused = ask(key)
        assert refused.status_code == 403
        assert "The key 'root' may not use the compiler" in refused.text
        missing = server.cli("quantize", "tiny", "Q8_0", check=False)
        assert missing.returncode == 1
