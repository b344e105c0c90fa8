"""Builds are found, asked once, and remembered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar import store
from blazar.config.paths import Paths
from blazar.config.schema import Engine
from blazar.engines.install.builds import installed
from blazar.engines.install.pypi import install
from blazar.engines.llamacpp import SHIM, LlamaCpp
from blazar.errors import ConfigError, Conflict, DownloadFailed
from blazar.store import Store
from tests.support.fleets import config, fleet_of, model, program


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
    build = install(paths, rows.builds)
    assert build.active
    assert Path(build.path).is_relative_to(paths.engines / "llamacpp" / build.tag)
    assert LlamaCpp().command(build)[0] == build.path
    with pytest.raises(Conflict, match=build.tag):
        install(paths, rows.builds)
    with pytest.raises(DownloadFailed, match="pip"):
        install(paths, rows.builds, version="0.0.0.dev0")
    assert [folder.name for folder in (paths.engines / "llamacpp").iterdir()] == [build.tag]
    async with fleet_of(home, config()) as (fleet, _):
        lease = await fleet.ensure_ready(model("tiny", tiny))
        assert lease.instance.build.tag == build.tag
        assert Path(f"/proc/{lease.instance.pid}/cmdline").read_bytes().startswith(build.path.encode())
        lease.release()
