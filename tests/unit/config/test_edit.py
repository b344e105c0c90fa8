from __future__ import annotations

import threading
import tomllib
from pathlib import Path

import pytest

from blazar.config import edit, load, options, reference
from blazar.config.paths import Paths
from blazar.errors import ConfigError

TEXT = """# my machine
[server]
port = 1234   # not the usual one

# little memory here
[engine]
slots = 2
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths.from_env({"BLAZAR_HOME": str(tmp_path)})
    found.config.mkdir(parents=True)
    return found


def test_comments_and_the_rest_stay(paths: Paths) -> None:
    paths.config_file.write_text(TEXT)
    edit.put(paths, "engine.slots", "8")
    edit.put(paths, "server.allowed_hosts", "box.local,box")
    text = paths.config_file.read_text()
    assert "# my machine" in text
    assert "port = 1234   # not the usual one" in text
    assert "# little memory here" in text
    config = load.load(paths, {})
    assert (config.engine.slots, config.server.port, config.server.allowed_hosts) == (8, 1234, ("box.local", "box"))


def test_a_section_is_made_where_there_is_none(paths: Paths) -> None:
    assert edit.put(paths, "relay.idle_s", "2.5") == 2.5
    assert tomllib.loads(paths.config_file.read_text()) == {"relay": {"idle_s": 2.5}}
    assert paths.config_file.stat().st_mode & 0o777 == 0o600


def test_what_is_taken_out_is_at_its_default_again(paths: Paths) -> None:
    paths.config_file.write_text(TEXT)
    assert edit.drop(paths, "server.port") is True
    assert load.load(paths, {}).server.port == 11435
    assert edit.drop(paths, "server.port") is False
    with pytest.raises(ConfigError, match=r"Did you mean 'server\.port'"):
        edit.drop(paths, "server.prot")


def test_an_unknown_key_can_be_taken_out_of_a_wrong_file(paths: Paths) -> None:
    paths.config_file.write_text("[server]\nprot = 1\nport = 80\n")
    assert edit.drop(paths, "server.prot") is True
    assert load.load(paths, {}).server.port == 80


@pytest.mark.parametrize(("key", "value"), [("server.port", "x"), ("server.port", "-1"), ("server.prot", "1")])
def test_a_wrong_change_changes_nothing(paths: Paths, key: str, value: str) -> None:
    paths.config_file.write_text(TEXT)
    with pytest.raises(ConfigError):
        edit.put(paths, key, value)
    assert paths.config_file.read_text() == TEXT
    assert edit.backups(paths) == ()


def test_a_text_that_is_wrong_is_not_written(paths: Paths) -> None:
    paths.config_file.write_text(TEXT)
    with pytest.raises(ConfigError, match=r":2: 'server\.port' cannot be 'x'"):
        edit.write(paths, '[server]\nport = "x"\n')
    assert paths.config_file.read_text() == TEXT
    assert [entry.name for entry in paths.config.iterdir()] == ["config.toml"]


def test_the_former_file_is_kept_ten_times_and_the_mode_stays(paths: Paths) -> None:
    paths.config_file.write_text(TEXT)
    paths.config_file.chmod(0o640)
    for slots in range(3, 16):
        edit.put(paths, "engine.slots", str(slots))
    kept = edit.backups(paths)
    assert len(kept) == edit.KEPT_BACKUPS
    assert tomllib.loads(kept[-1].read_text())["engine"]["slots"] == 14
    assert tomllib.loads(kept[0].read_text())["engine"]["slots"] == 5
    assert {file.stat().st_mode & 0o777 for file in (paths.config_file, *kept)} == {0o640}


def test_a_change_to_the_same_leaves_no_backup(paths: Paths) -> None:
    paths.config_file.write_text(TEXT)
    edit.put(paths, "engine.slots", "2")
    assert edit.backups(paths) == ()


def test_a_linked_file_is_changed_where_it_lies(paths: Paths, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(TEXT)
    paths.config_file.symlink_to(real)
    edit.put(paths, "engine.slots", "3")
    assert paths.config_file.is_symlink()
    assert tomllib.loads(real.read_text())["engine"]["slots"] == 3


def test_writers_at_once_lose_no_change(paths: Paths) -> None:
    changes = {
        "engine.slots": "7",
        "server.port": "99",
        "relay.idle_s": "9",
        "admission.wait_s": "8",
        "engine.threads": "3",
    }
    threads = [threading.Thread(target=edit.put, args=(paths, key, value)) for key, value in changes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key: f"{edit.get(paths, key).value:g}" for key in changes} == changes


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        edit.put(Paths.from_env({"BLAZAR_HOME": str(tmp_path / "file")}), "server.port", "1")


def test_the_file_of_defaults_changes_nothing_and_is_right_uncommented(paths: Paths) -> None:
    text = reference.defaults()
    edit.write(paths, text)
    assert load.load(paths, {}) == load.load(Paths.from_env({"BLAZAR_HOME": "/nonexistent"}), {})
    plain = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    tables = load.check(plain, paths.config_file)
    assert sum(len(table) for table in tables.values()) == len(options.table())


def test_the_reference_page_has_a_row_for_each_option() -> None:
    page = reference.markdown()
    for option in options.table().values():
        assert f"| `{option.key}` |" in page
        assert f"`{option.env}`" in page
