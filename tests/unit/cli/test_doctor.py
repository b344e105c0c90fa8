from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.support.daemon import Daemon
from tests.unit.cli.conftest import Run


def findings(blazar: Run, **more: str) -> dict[tuple[str, str], dict[str, str]]:
    lines = blazar("doctor", "--json", **more).stdout.splitlines()
    return {(row["group"], row["name"]): row for row in map(json.loads, lines)}


def test_a_sound_installation_passes(blazar: Run) -> None:
    done = blazar("doctor")
    assert done.returncode == 0, done.stdout
    assert [line for line in done.stdout.splitlines() if line.isalpha()] == [
        "install",
        "config",
        "store",
        "disk",
        "engines",
        "daemon",
    ]
    found = findings(blazar)
    assert found["install", "Rust part"]["detail"].endswith("_native.abi3.so")
    assert found["install", "Cython part: memory"]["state"] == "ok"
    assert "none runs at http://127.0.0.1:1" in found["daemon", "address"]["detail"]


def test_the_daemon_is_found(blazar: Run, with_server: dict[str, str]) -> None:
    assert "version 9.9.9 answers" in findings(blazar, **with_server)["daemon", "address"]["detail"]


def test_a_stranger_on_the_port_is_a_failure_with_a_cure(
    blazar: Run, server: Daemon, with_server: dict[str, str]
) -> None:
    server.health = {"status": "fine"}
    found = findings(blazar, **with_server)["daemon", "address"]
    assert found["state"] == "fail"
    assert "choose another port" in found["cure"]
    assert blazar("doctor", **with_server).returncode == 1


def test_a_wrong_file_of_settings_is_a_failure_and_the_rest_is_still_checked(blazar: Run, home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text("[server]\nprot = 1\n")
    found = findings(blazar)
    assert found["config", "settings"]["state"] == "fail"
    assert found["config", "settings"]["cure"] == "Mend it: blazar config edit"
    assert ("disk", "data") in found


def test_a_path_that_is_no_engine_is_a_failure(blazar: Run, tmp_path: Path) -> None:
    (tmp_path / "llama-server").write_text("")
    found = findings(blazar, BLAZAR_ENGINE_LLAMACPP_PATH=str(tmp_path / "llama-server"))
    assert found["engines", "llamacpp (local)"]["state"] == "fail"


def test_a_database_of_a_newer_version_is_a_failure_and_untouched(blazar: Run, home: Path) -> None:
    (home / "data").mkdir(parents=True)
    with sqlite3.connect(home / "data" / "blazar.db") as database:
        database.execute("PRAGMA user_version = 9999")
    database.close()
    before = (home / "data" / "blazar.db").read_bytes()
    assert findings(blazar)["store", "database"]["state"] == "fail"
    assert (home / "data" / "blazar.db").read_bytes() == before
