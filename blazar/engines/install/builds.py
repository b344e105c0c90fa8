"""The builds that are installed, with the facts of each: asked of the program once, then kept in the store."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from blazar.engines.base import Build
from blazar.engines.install import channels
from blazar.engines.llamacpp import LlamaCpp
from blazar.errors import ConfigError
from blazar.store.builds import BuildRow

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Engine
    from blazar.store.builds import BuildRows

_ASK_S = 60
_FLAG = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
_VERSION = re.compile(r"version:\s*(.+)")


def installed(options: Engine, paths: Paths, rows: BuildRows) -> tuple[Build, ...]:
    """Every usable build. Blocks while a build is asked for the first time (under a second each).

    A build that does not answer is left out, unless the settings name its path: then ConfigError says what it said.
    """
    builds: list[Build] = []
    for candidate in channels.candidates(options, paths):
        row = rows.get(channels.KIND, candidate.tag)
        if row is None or row.fingerprint != candidate.fingerprint:
            try:
                build = probe(candidate.build())
            except ConfigError:
                if candidate.channel == "local":
                    raise
                continue
            row = row_of(build, active=row is not None and row.active)
            rows.put(row)
        builds.append(build_of(row))
    return tuple(builds)


def probe(build: Build) -> Build:
    """Ask a build for its version and its options. Raises ConfigError when it does not answer."""
    command = LlamaCpp().command(build)
    found = _VERSION.search(_ask(build, [*command, "--version"]))
    flags = frozenset(_FLAG.findall(_ask(build, [*command, "--help"])))
    if found is None or "--model" not in flags:
        raise ConfigError(f"{build.path} does not answer like a llama-server (engine.llamacpp_path).")
    return msgspec.structs.replace(build, version=found[1].strip(), flags=flags)


def _ask(build: Build, argv: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as empty:
        env = {"PATH": "/usr/bin:/bin", "HOME": empty, "XDG_CONFIG_HOME": empty}
        try:
            done = subprocess.run(
                argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=_ASK_S, check=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            said = " | ".join((error.stderr or error.stdout).strip().splitlines()[-3:])
            raise ConfigError(f"{build.path} {argv[-1]} ended with code {error.returncode}: {said}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"{build.path} {argv[-1]} does not answer: {error}") from None
    return done.stdout + done.stderr


def row_of(build: Build, *, active: bool) -> BuildRow:
    """A build as the store keeps it."""
    return BuildRow(
        kind=build.kind,
        tag=build.tag,
        channel=build.channel,
        path=build.path,
        version=build.version,
        flags=tuple(sorted(build.flags)),
        fingerprint=build.fingerprint,
        active=active,
        added_ns=time.time_ns(),
    )


def build_of(row: BuildRow) -> Build:
    """A stored build."""
    return Build(
        kind=row.kind,
        tag=row.tag,
        channel=row.channel,
        path=row.path,
        version=row.version,
        flags=frozenset(row.flags),
        fingerprint=row.fingerprint,
        active=row.active,
    )
