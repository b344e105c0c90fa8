"""Where builds of llama.cpp come from: a package here or in an environment of its own, a release, source, a path."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from blazar.engines.base import Build
from blazar.engines.llamacpp import SHIM
from blazar.errors import ConfigError

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Engine

KIND = "llamacpp"
PACKAGE = "xllamacpp"
LOCAL_TAG = "local"
# What a build that is no wheel has in its folder.
RECORD = "build.json"


class Candidate(msgspec.Struct, frozen=True):
    """A build that seems to be there, before it was asked anything."""

    tag: str
    channel: str
    path: str
    fingerprint: str

    def build(self) -> Build:
        """As a build of which nothing more is known."""
        return Build(kind=KIND, tag=self.tag, channel=self.channel, path=self.path, fingerprint=self.fingerprint)


def candidates(options: Engine, paths: Paths) -> Iterator[Candidate]:
    """Everything that may be a build of llama.cpp, of the channel that the settings want. Reads names and dates only.

    Raises ConfigError when there is no program at the path that the settings name.
    """
    if options.llamacpp_path and options.llamacpp_channel in {"auto", "local"}:
        yield local(options.llamacpp_path)
    yield from (build for build in recorded(paths) if options.llamacpp_channel in {"auto", build.channel})
    if options.llamacpp_channel in {"auto", "pypi"}:
        yield from _wheels(paths)


class Record(msgspec.Struct, frozen=True):
    """Of a build that was unpacked or compiled here: its tag, the program's path in its folder, where it came from."""

    tag: str
    program: str
    channel: Literal["release", "source"] = "release"


def recorded(paths: Paths) -> Iterator[Candidate]:
    """Builds from releases and from source. One whose record or program is damaged is none."""
    for path in sorted((paths.engines / KIND).glob(f"[!.]*/{RECORD}")):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=Record)
            program = path.parent / record.program
            yield Candidate(path.parent.name, record.channel, str(program), f"{program} {_stamp(program)}")
        except (OSError, msgspec.DecodeError):
            continue


def _wheels(paths: Paths) -> Iterator[Candidate]:
    ours = [build for home in sorted((paths.engines / KIND).glob("[!.]*/pyvenv.cfg")) for build in venv(home.parent)]
    yield from ours
    try:
        here = version(PACKAGE)
    except PackageNotFoundError:
        return
    if f"{PACKAGE}-{here}" not in {build.tag for build in ours}:  # one of each version is enough
        yield Candidate(f"{PACKAGE}-{here}", "pypi", sys.executable, f"{here} {sys.executable} {_stamp(SHIM)}")


def local(path: str) -> Candidate:
    """The program at ``path``, or found under that name on the search path. Raises ConfigError."""
    program = shutil.which(Path(path).expanduser())
    if program is None:
        raise ConfigError(f"There is no program {path} (engine.llamacpp_path).")
    absolute = Path(program).absolute()
    return Candidate(LOCAL_TAG, "local", str(absolute), f"{absolute} {_stamp(absolute)}")


def venv(home: Path) -> Iterator[Candidate]:
    """The build in the environment at ``home``, if there is one."""
    for facts in home.glob(f"lib/python*/site-packages/{PACKAGE}-*.dist-info"):
        program = home / "bin" / "python"
        yield Candidate(home.name, "pypi", str(program), f"{facts.name} {program} {_stamp(SHIM)}")


def _stamp(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}"
