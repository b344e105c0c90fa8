from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.support import tiny_model
from tests.unit.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    tiny_model.write(path)
    return path


def names(blazar: Run) -> list[str]:
    return [json.loads(line)["name"] for line in blazar("list", "--json").stdout.splitlines()]


def test_what_was_known_comes_back(blazar: Run, file: Path, tmp_path: Path) -> None:
    assert blazar("import", str(file), "--name", "one").returncode == 0
    assert blazar("config", "set", "engine.slots", "7").returncode == 0
    kept = tmp_path / "kept"
    made = blazar("snapshot", str(kept))
    assert made.returncode == 0, made.stderr
    assert f"--restore {kept}" in made.stderr
    assert (kept.stat().st_mode & 0o777, (kept / "blazar.db").stat().st_mode & 0o777) == (0o700, 0o600)
    blazar("cp", "one", "two")
    blazar("config", "set", "engine.slots", "3")
    back = blazar("snapshot", "--restore", str(kept))
    assert back.returncode == 0, back.stderr
    assert names(blazar) == ["one"]
    assert blazar("config", "get", "engine.slots").stdout.strip() == "7"
    before = back.stderr.strip().removesuffix(".").rpartition(" ")[2]
    assert sorted(path.name for path in Path(before).iterdir()) == ["blazar.db", "config.toml"]
    assert blazar("snapshot", "--restore", before).returncode == 0
    assert sorted(names(blazar)) == ["one", "two"]
    assert blazar("config", "get", "engine.slots").stdout.strip() == "3"


def test_a_snapshot_overwrites_nothing_and_nothing_broken_is_restored(blazar: Run, file: Path, tmp_path: Path) -> None:
    blazar("import", str(file), "--name", "one")
    assert blazar("snapshot", str(tmp_path)).returncode == 1
    assert "overwrites nothing" in blazar("snapshot", str(tmp_path)).stderr
    assert blazar("snapshot", "--restore").returncode == 2
    assert "no snapshot in" in blazar("snapshot", "--restore", str(tmp_path / "none")).stderr
    for name, content in (("damaged", b"no database" * 500), ("newer", None)):
        (tmp_path / name).mkdir()
        broken = tmp_path / name / "blazar.db"
        if content is None:
            with sqlite3.connect(broken) as db:
                db.execute("PRAGMA user_version = 9999")
        else:
            broken.write_bytes(content)
        refused = blazar("snapshot", "--restore", str(tmp_path / name))
        assert refused.returncode == 1
        assert "cannot be used" in refused.stderr
        assert names(blazar) == ["one"]
