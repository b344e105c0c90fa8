"""Agents as people run them: one turn with a tool each, against an engine that calls the tool that the script names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.server import Server

SECRET = "the heron stands in the reeds"


def run(folder: Path, *argv: str, env: Mapping[str, str], timeout: float = 110) -> str:
    """The agent's output. It sees a home of its own, and no address but ours."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if key in {"PATH", "LANG", "TERM"}}
    done = subprocess.run(
        argv, cwd=folder, env={**kept, "HOME": str(home), "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_text(SECRET + "\n")
    return path


def test_claude_code_reads_a_file(node_modules: Path, scripted: Server, note: Path) -> None:
    script = f"@call Read {json.dumps({'file_path': str(note)})}"
    env = {
        "ANTHROPIC_BASE_URL": scripted.url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    claude = str(node_modules / ".bin" / "claude")
    options = ("--model", "scripted", "--tools", "Read", "--output-format", "json")
    said = run(note.parent, claude, "-p", script, *options, env=env)
    answer = json.loads(said)
    assert answer["is_error"] is False
    assert answer["num_turns"] == 2
    assert answer["result"].startswith("The tool said: ")
    assert SECRET in answer["result"]


def test_codex_runs_a_command(node_modules: Path, scripted: Server, note: Path) -> None:
    config = note.parent / "codex"
    config.mkdir()
    (config / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "blazar"\napproval_policy = "never"\n'
        'sandbox_mode = "danger-full-access"\n'
        f'[model_providers.blazar]\nname = "Blazar"\nbase_url = "{scripted.url}/v1"\nwire_api = "responses"\n'
    )
    script = f"@call exec_command {json.dumps({'cmd': f'cat {note}'})}"
    codex = str(node_modules / ".bin" / "codex")
    said = run(note.parent, codex, "exec", "--skip-git-repo-check", "--json", script, env={"CODEX_HOME": str(config)})
    items = [json.loads(line).get("item", {}) for line in said.splitlines() if line.startswith("{")]
    answers = [item["text"] for item in items if item.get("type") == "agent_message"]
    assert answers[-1].startswith("The tool said: ")
    assert SECRET in answers[-1]


def test_opencode_reads_a_file(node_modules: Path, scripted: Server, note: Path) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Blazar",
        "options": {"baseURL": f"{scripted.url}/v1", "apiKey": "none"},
        "models": {"scripted": {"name": "Scripted"}},
    }
    settings = {"provider": {"blazar": provider}, "autoupdate": False, "share": "disabled", "permission": "allow"}
    (note.parent / "opencode.json").write_text(json.dumps(settings))
    script = f"@call read {json.dumps({'filePath': str(note)})}"
    opencode = str(node_modules / ".bin" / "opencode")
    said = run(note.parent, opencode, "run", "-m", "blazar/scripted", script, env={})
    assert "The tool said: " in said
    assert SECRET in said


def test_llm_calls_a_function_of_its_users(scripted: Server, tmp_path: Path) -> None:
    where = tmp_path / "venv"
    venv.create(where, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(where / "bin" / "python"), "install", "-q", "llm>=0.27"]
    subprocess.run(pip, check=True, timeout=110)
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: here\n  model_name: scripted\n  api_base: {scripted.url}/v1\n  supports_tools: true\n"
    )
    (tmp_path / "tools.py").write_text("def weather(city: str) -> str:\n    return f'rain in {city}'\n")
    script = '@call weather {"city": "Oslo"}'
    options = ("-m", "here", "--key", "none", "--functions", str(tmp_path / "tools.py"))
    said = run(tmp_path, str(where / "bin" / "llm"), *options, script, env={"LLM_USER_PATH": str(tmp_path)})
    assert said.strip() == "The tool said: rain in Oslo"
