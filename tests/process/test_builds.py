"""Builds are found, asked once, and remembered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from blazar import store
from blazar.config.paths import Paths
from blazar.config.schema import Engine
from blazar.engines.install import keeper as keeping
from blazar.engines.install.builds import installed
from blazar.engines.install.contest import Speeds, opponent
from blazar.engines.install.keeper import Keeper
from blazar.engines.llamacpp import SHIM, LlamaCpp
from blazar.errors import ConfigError, Conflict, DownloadFailed, NotFound
from blazar.store import Store
from tests.support.fleets import config, fleet_of, model, program

# Another than the one that this environment has.
OLDER = "2026.9.11063"


def ignored(what: str) -> None:
    """Told of nothing."""


@pytest.fixture
def paths(home: Path) -> Paths:
    (home / "data").mkdir()
    return Paths(config=home / "config", data=home / "data")


@pytest.fixture
def rows(paths: Paths) -> Iterator[Store]:
    with store.open(paths.database) as opened:
        yield opened


def test_a_build_is_asked_once_until_its_file_changes(tmp_path: Path, paths: Paths, rows: Store) -> None:
    asked = tmp_path / "asked"
    script = program(tmp_path, f"echo x >> {asked};", sys.executable, "-I", str(SHIM))
    script.write_text(script.read_text().replace("exec ", ""))
    options = Engine(llamacpp_path=str(script))
    build = next(build for build in installed(options, paths, rows.builds) if build.channel == "local")
    assert build.version.startswith("xllamacpp ")
    assert {"--parallel", "--no-kv-unified", "--sse-ping-interval"} <= build.flags
    times = len(asked.read_text().splitlines())
    assert build in installed(options, paths, rows.builds)
    assert len(asked.read_text().splitlines()) == times
    script.write_text(script.read_text() + "\n")
    installed(options, paths, rows.builds)
    assert len(asked.read_text().splitlines()) == 2 * times


def test_a_path_to_something_else_is_refused_with_its_words(tmp_path: Path, paths: Paths, rows: Store) -> None:
    other = program(tmp_path, "/bin/false")
    with pytest.raises(ConfigError, match="code"):
        installed(Engine(llamacpp_path=str(other)), paths, rows.builds)
    with pytest.raises(ConfigError, match=r"/nowhere .*engine\.llamacpp_path"):
        installed(Engine(llamacpp_path="/nowhere"), paths, rows.builds)
    with pytest.raises(ConfigError, match="llama-server"):
        installed(Engine(llamacpp_path="/bin/echo"), paths, rows.builds)


async def test_a_wheel_in_an_environment_of_its_own(paths: Paths, rows: Store, home: Path, tiny: Path) -> None:
    keeper = Keeper(config(), paths, rows.builds)
    before = keeper.builds()[0].tag
    assert keeper.add(OLDER, None, ignored, gate=True).tag == f"xllamacpp-{OLDER}"
    build = keeper.builds()[0]
    assert build.active
    assert Path(build.path).is_relative_to(paths.engines / "llamacpp" / build.tag)
    assert LlamaCpp().command(build)[0] == build.path
    with pytest.raises(Conflict, match=build.tag):
        keeper.add(OLDER, None, ignored, gate=True)
    with pytest.raises(DownloadFailed, match="pip"):
        keeper.add("0.0.0.dev0", None, ignored, gate=True)
    assert [folder.name for folder in (paths.engines / "llamacpp").iterdir()] == [build.tag]
    async with fleet_of(home, config()) as (fleet, _):
        lease = await fleet.ensure_ready(model("tiny", tiny))
        assert lease.instance.build.tag == build.tag
        assert Path(f"/proc/{lease.instance.pid}/cmdline").read_bytes().startswith(build.path.encode())
        lease.release()
    assert keeper.rollback().tag == before
    assert keeper.rollback().tag == build.tag


def engines(paths: Paths) -> list[str]:
    """Folders of builds, half-made and half-gone ones too."""
    folder = paths.engines / "llamacpp"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_build_that_writes_slower_does_not_stay(
    paths: Paths, rows: Store, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, rival = Keeper(config(), paths, rows.builds), model("tiny", tiny)
    used = keeper.builds()[0].tag
    monkeypatch.setattr(keeping, "contest", lambda *_: Speeds("tiny", 100.0, 89.0))
    outcome = keeper.add(OLDER, rival, ignored, gate=True)
    assert (outcome.tag, outcome.kept) == (used, False)
    assert engines(paths) == []
    assert [build.tag for build in keeper.builds()] == [used]
    monkeypatch.setattr(keeping, "contest", lambda *_: Speeds("tiny", 100.0, 91.0))
    outcome = keeper.add(OLDER, rival, ignored, gate=True)
    assert (outcome.before, outcome.kept) == (used, True)
    assert keeper.builds()[0].tag == outcome.tag


def test_a_build_that_does_not_run_is_gone_again(
    paths: Paths, rows: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(config(), paths, rows.builds)
    used = keeper.builds()[0].tag
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    broken = model("broken", tmp_path / "broken.gguf")
    for gate in (True, False):
        with pytest.raises(ConfigError, match="does not load the model it was to be tried with"):
            keeper.add(OLDER, broken, ignored, gate=gate)
        assert engines(paths) == []
        assert [build.tag for build in keeper.builds()] == [used]

    def leave(what: str) -> None:
        if " with " in what:
            raise KeyboardInterrupt

    def leave_at_once(what: str) -> None:
        raise KeyboardInterrupt

    for tell in (leave, leave_at_once):
        with pytest.raises(KeyboardInterrupt):
            keeper.add(OLDER, broken, tell, gate=True)
        assert engines(paths) == []


def test_what_is_used_runs_or_is_not_ours_is_not_removed(paths: Paths, rows: Store, tiny: Path) -> None:
    keeper = Keeper(config(), paths, rows.builds)
    used = keeper.builds()[0].tag
    new = keeper.add(OLDER, model("tiny", tiny), ignored, gate=True)
    assert new.speeds is not None
    assert min(new.speeds.old, new.speeds.new) > 0
    with pytest.raises(Conflict, match="is the build that is used"):
        keeper.remove(new.tag, {})
    with pytest.raises(Conflict, match="was not installed by Blazar"):
        keeper.remove(used, {})
    keeper.use(used)
    assert keeper.prune({}).removed == (), "it is the way back"
    with pytest.raises(Conflict, match="runs tiny"):
        keeper.remove(new.tag, {new.tag: ("tiny",)})
    assert keeper.remove(new.tag, {}).removed == (new.tag,)
    assert engines(paths) == []
    with pytest.raises(NotFound, match=rf"installed: {used}"):
        keeper.use(new.tag)
    with pytest.raises(NotFound, match="earlier build"):
        keeper.rollback()


def test_the_smallest_that_writes_is_what_builds_are_tried_with(tiny: Path, tmp_path: Path) -> None:
    large, writes = model("large", tiny), model("tiny", tiny)
    large = msgspec.structs.replace(large, size=10 * large.size)
    embeds = msgspec.structs.replace(model("embeds", tiny), size=1, capabilities=("embedding",))
    missing = msgspec.structs.replace(model("gone", tmp_path / "gone.gguf"), size=1)
    found = opponent((large, writes, embeds, missing))
    assert found is not None
    assert found.name == "tiny"
    assert opponent((msgspec.structs.replace(large, size=1 << 50),)) is None
