"""The command line with a real daemon and a real engine, from nothing to nothing."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import patient
from tests.support.server import children_of, free_port, serving

BLAZAR = str(Path(sys.executable).with_name("blazar"))


class Home:
    """A machine of one's own: a folder, a port, and the program."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("BLAZAR_")}
        self.env |= {"BLAZAR_HOME": str(folder), "BLAZAR_SERVER_PORT": str(self.port), "BLAZAR_ENGINE_CONTEXT": "512"}

    def blazar(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BLAZAR, *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=110,
            check=False,
        )


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path / "home")
    yield found
    found.blazar("stop")


def test_one_command_brings_an_answer_and_one_ends_it_all(home: Home, tiny: Path) -> None:
    answer = home.blazar("run", str(tiny), "--set", "num_predict=16", "-v", "Why is the sky blue?")
    assert answer.returncode == 0, answer.stderr
    assert f"at http://127.0.0.1:{home.port}; stop it with: blazar stop" in answer.stderr
    assert "16 tokens at" in answer.stderr
    assert answer.stdout.strip()
    running = json.loads(home.blazar("ps", "--json").stdout)
    assert running["blazar"]["state"] == "ready"
    engine = running["blazar"]["pid"]
    # A second answer finds the daemon, and says nothing but the answer.
    again = home.blazar("run", running["name"], "--set", "num_predict=4", "And the sea?")
    assert (again.returncode, again.stderr) == (0, "")
    refused = home.blazar("rm", running["name"])
    assert refused.returncode == 1
    assert "is in memory" in refused.stderr
    assert home.blazar("stop", running["name"]).returncode == 0
    assert home.blazar("ps", "--json").stdout == ""
    assert home.blazar("rm", running["name"]).returncode == 0
    stopped = home.blazar("stop")
    assert stopped.stderr.startswith("Stopped the Blazar daemon")
    assert home.blazar("ps").returncode == 1
    assert not Path(f"/proc/{engine}").exists()


def test_a_taken_port_is_exit_3(home: Home) -> None:
    assert home.blazar("serve", "--detach").returncode == 0
    assert "runs already" in home.blazar("serve", "--detach").stderr
    done = home.blazar("serve")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith(f"error: 127.0.0.1:{home.port} is taken")


def test_what_shells_grant_of_open_files_is_not_the_bound_of_streams(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with serving(tmp_path, {}) as server:
            assert server.process is not None
            for pid in (server.process.pid, *children_of(server.process.pid)):
                limits = Path(f"/proc/{pid}/limits").read_text()
                (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
                assert int(line.split()[3]) == min(hard, 262_144)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_another_tool_holds_is_taken_in_and_answers(tmp_path: Path, tiny: Path) -> None:
    digest = hashlib.sha256(tiny.read_bytes()).hexdigest()
    theirs = tmp_path / "ollama"
    (theirs / "blobs").mkdir(parents=True)
    (theirs / "blobs" / f"sha256-{digest}").write_bytes(tiny.read_bytes())
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest = theirs / "manifests/registry.example/library/fox/1b"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": [layer]}))
    with serving(tmp_path / "home", {}, OLLAMA_MODELS=str(theirs), BLAZAR_ENGINE_CONTEXT="512") as server:
        assert "found" in server.cli("import", "--from", "ollama", "--dry-run").stdout
        assert "fox:1b" not in server.cli("list").stdout
        (row,) = map(json.loads, server.cli("import", "--from", "ollama", "--json").stdout.splitlines())
        assert (row["name"], row["state"]) == ("fox:1b", "new")
        assert "here already" in server.cli("import", "--from", "ollama").stdout
        body = {"model": "fox:1b", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        assert patient.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).status_code == 200
        assert "holds no model here" in server.cli("import", "--from", "lmstudio").stderr
        assert server.cli("import", check=False).returncode == 2


def test_a_snapshot_is_made_beside_a_daemon_and_not_restored_under_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with serving(tmp_path / "home", {}) as server:
        server.cli("snapshot", str(kept))
        refused = server.cli("snapshot", "--restore", str(kept), check=False)
        assert refused.returncode == 1
        assert "blazar stop" in refused.stderr
        server.stop()
        assert server.cli("snapshot", "--restore", str(kept)).returncode == 0
