from __future__ import annotations

import json
import stat
from pathlib import Path

from blazar.config import options
from tests.unit.cli.conftest import Run


def test_a_setting_is_written_read_and_taken_out(blazar: Run, home: Path) -> None:
    file = home / "config" / "config.toml"
    assert blazar("config", "path").stdout == f"{file}\n"
    done = blazar("config", "set", "engine.slots", "8")
    assert (done.returncode, done.stderr) == (0, f"engine.slots = 8 in {file}\n")
    assert blazar("config", "get", "engine.slots").stdout == "8\n"
    assert "its default 4 holds again" in blazar("config", "unset", "engine.slots").stderr
    assert blazar("config", "get", "engine.slots").stdout == "4\n"
    assert "nothing to do" in blazar("config", "unset", "engine.slots").stderr


def test_a_negative_number_is_a_value_and_no_option(blazar: Run) -> None:
    assert blazar("config", "set", "residency.keep_alive_s", "-1").returncode == 0
    assert blazar("config", "get", "residency.keep_alive_s").stdout == "-1\n"


def test_a_variable_that_overrules_is_told(blazar: Run) -> None:
    done = blazar("config", "set", "server.port", "99")
    assert "The environment variable BLAZAR_SERVER_PORT overrules it." in done.stderr


def test_the_list_says_who_set_what(blazar: Run) -> None:
    blazar("config", "set", "engine.slots", "8")
    rows = {row["key"]: row for row in map(json.loads, blazar("config", "list", "--json").stdout.splitlines())}
    assert set(rows) == set(options.table())
    assert (rows["engine.slots"]["value"], rows["engine.slots"]["source"]) == (8, "file")
    assert (rows["server.port"]["value"], rows["server.port"]["source"]) == (1, "environment")
    assert rows["relay.idle_s"]["unit"] == "seconds"
    changed = blazar("config", "list", "--changed").stdout.splitlines()
    assert [line.split()[0] for line in changed[1:]] == ["server.port", "engine.slots"]


def test_a_wrong_value_is_told_and_not_written(blazar: Run, home: Path) -> None:
    done = blazar("config", "set", "engine.cache_type", "f17")
    assert done.returncode == 1
    assert done.stderr.startswith("error: 'engine.cache_type' cannot be 'f17': it takes one of ")
    assert not (home / "config" / "config.toml").exists()


def test_a_wrong_file_can_be_mended(blazar: Run, home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text("[server]\nprot = 1\n")
    told = blazar("config", "get", "server.port")
    assert told.returncode == 1
    assert f"{home}/config/config.toml:2: there is no setting 'server.prot'. Did you mean 'server.port'?" in told.stderr
    assert blazar("config", "unset", "server.prot").returncode == 0
    assert blazar("config", "get", "server.port").returncode == 0


def editor(folder: Path, script: str) -> str:
    folder.mkdir(exist_ok=True)
    program = folder / "editor.sh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_editing_keeps_a_right_file_and_its_former_self(blazar: Run, home: Path, tmp_path: Path) -> None:
    blazar("config", "set", "engine.slots", "8")
    program = editor(tmp_path, 'sed -i "s/slots = 8/slots = 9/" "$1"')
    done = blazar("config", "edit", EDITOR=program, VISUAL="")
    assert done.returncode == 0, done.stderr
    assert blazar("config", "get", "engine.slots").stdout == "9\n"
    assert f"the former one is {home}/config/config.toml.2" in done.stderr
    assert "Nothing changed" in blazar("config", "edit", EDITOR="true", VISUAL="").stderr


def test_editing_refuses_a_wrong_file(blazar: Run, tmp_path: Path) -> None:
    blazar("config", "set", "engine.slots", "8")
    program = editor(tmp_path, 'sed -i "s/slots = 8/slots = many/" "$1"')
    done = blazar("config", "edit", EDITOR=program, VISUAL="")
    assert done.returncode == 1
    assert "is not valid TOML" in done.stderr
    assert blazar("config", "get", "engine.slots").stdout == "8\n"


def test_defaults_are_a_file_and_a_page(blazar: Run) -> None:
    assert "# port = 11435\n" in blazar("config", "defaults").stdout
    assert "| `server.port` |" in blazar("config", "defaults", "--markdown").stdout
