"""The builds that are installed, with the facts of each: asked of the program once, then kept in the store."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from blazar import hardware
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
# Names of the devices that llama.cpp gives for each of its GPU backends.
_DEVICE = re.compile(r"^\s+(CUDA|ROCm|Vulkan|SYCL|MUSA|CANN|OpenCL|Metal|MTL)\d*: ", re.MULTILINE)


def installed(options: Engine, paths: Paths, rows: BuildRows) -> tuple[Build, ...]:
    """Every usable build. Blocks while a build is asked for the first time (under a second each).

    A build that does not answer is left out, unless the settings name its path: then ConfigError says what it said.
    """
    builds: list[Build] = []
    # What a build can reach depends on what is plugged in.
    gpus = " ".join(gpu.id for gpu in hardware.gpus())
    for candidate in channels.candidates(options, paths):
        row = rows.get(channels.KIND, candidate.tag)
        if row is None or row.fingerprint != f"{candidate.fingerprint} {gpus}":
            try:
                build = probe(candidate.build(), gpus)
            except ConfigError:
                if candidate.channel == "local":
                    raise
                continue
            used_ns = row.used_ns if row is not None else 0
            row = row_of(build, active=row is not None and row.active, used_ns=used_ns)
            rows.put(row)
        builds.append(build_of(row))
    return tuple(builds)


def probe(build: Build, gpus: str = "") -> Build:
    """Ask a build for its version, its options and the ways it has to these GPUs. Raises ConfigError when it does not
    answer.
    """
    command = LlamaCpp().command(build)
    found = _VERSION.search(_ask(build, [*command, "--version"]))
    flags = frozenset(_FLAG.findall(_ask(build, [*command, "--help"])))
    if found is None or "--model" not in flags:
        raise ConfigError(f"{build.path} does not answer like a llama-server (engine.llamacpp_path).")
    backends = frozenset[str]()
    if "--list-devices" in flags:
        backends = frozenset(_DEVICE.findall(_ask(build, [*command, "--list-devices"])))
    return msgspec.structs.replace(
        build,
        version=found[1].strip(),
        flags=flags,
        backends=backends,
        fingerprint=f"{build.fingerprint} {gpus}",
    )


def _ask(build: Build, argv: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as empty:
        env = {"PATH": "/usr/bin:/bin", "HOME": empty, "XDG_CONFIG_HOME": empty}
        env |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
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


def row_of(build: Build, *, active: bool, used_ns: int = 0) -> BuildRow:
    """A build as the store keeps it."""
    now_ns = time.time_ns()
    return BuildRow(
        kind=build.kind,
        tag=build.tag,
        channel=build.channel,
        path=build.path,
        version=build.version,
        flags=tuple(sorted(build.flags)),
        backends=tuple(sorted(build.backends)),
        fingerprint=build.fingerprint,
        active=active,
        added_ns=now_ns,
        used_ns=now_ns if active and not used_ns else used_ns,
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
        backends=frozenset(row.backends),
        fingerprint=row.fingerprint,
        active=row.active,
    )
