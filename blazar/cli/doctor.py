"""``blazar doctor``: looks at each part of this installation and says what to mend, and how."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import click
import msgspec

from blazar.cli import output
from blazar.cli.place import client
from blazar.config.load import load
from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.errors import BlazarError, DaemonUnreachable
from blazar.repl.screen import Screen

_COMPILED = (
    ("blazar._native", "Rust part"),
    ("blazar.memory._kernel", "Cython part: memory"),
    ("blazar.admission._nearest", "Cython part: nearness"),
)
_LOW, _EMPTY = 5_000_000_000, 500_000_000


class Finding(msgspec.Struct, frozen=True):
    """What one check found, and what to do about it unless it is ``ok``."""

    group: str
    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    cure: str = ""


@click.command()
@output.json_option
def doctor(as_json: bool) -> int:
    """Check this installation and say what to mend. Fails if something stands in the way of working."""
    findings = list(examine(Paths.from_env()))
    if as_json:
        output.json_lines(findings)
    else:
        _print(findings, output.out())
    return 1 if any(finding.state == "fail" for finding in findings) else 0


def examine(paths: Paths) -> Iterator[Finding]:
    """Every check, in the order in which one thing rests on another."""
    yield from _install()
    try:
        config = load(paths)
    except BlazarError as error:
        config = Config()
        yield Finding("config", "settings", "fail", error.message, "Mend it: blazar config edit")
    else:
        exists = paths.config_file.exists()
        told = str(paths.config_file) if exists else f"defaults ({paths.config_file} does not exist)"
        yield Finding("config", "settings", "ok", told)
    yield from _store(paths)
    yield from _disk(paths)
    yield from _engines(config)
    yield from _daemon(paths, config)


def _install() -> Iterator[Finding]:
    yield Finding("install", "python", "ok", f"{platform.python_version()} at {sys.executable}")
    for name, what in _COMPILED:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            cure = "Install Blazar again: pip install --force-reinstall blazar"
            yield Finding("install", what, "fail", f"{name} cannot be imported: {error}", cure)
        else:
            yield Finding("install", what, "ok", f"{getattr(module, 'VERSION', '')} {module.__file__}".strip())


def _store(paths: Paths) -> Iterator[Finding]:
    if not paths.database.exists():
        yield Finding("store", "database", "ok", f"none yet; it will be {paths.database}")
        return
    from blazar import store  # noqa: PLC0415 (only if there is one)

    try:
        opened = store.open(paths.database)
        models = opened.models.list()
        opened.close()
    except BlazarError as error:
        yield Finding("store", "database", "fail", error.message, "Install a newer Blazar, or move the file away.")
        return
    yield Finding("store", "database", "ok", f"{len(models)} models in {paths.database}")
    for model in models:
        for file in model.files:
            if not Path(file).is_file():
                cure = f"Fetch it again: blazar pull {model.source}, or forget it: blazar rm {model.name}"
                yield Finding("store", model.name, "warn", f"its file {file} is missing", cure)


def _disk(paths: Paths) -> Iterator[Finding]:
    place = next(folder for folder in (paths.data, *paths.data.parents) if folder.is_dir())
    if not os.access(place, os.W_OK):
        cure = "Make it writable, or set BLAZAR_HOME to a folder that is."
        yield Finding("disk", "data", "fail", f"{place} cannot be written", cure)
        return
    free = shutil.disk_usage(place).free
    state: Literal["ok", "warn", "fail"] = "fail" if free < _EMPTY else "warn" if free < _LOW else "ok"
    cure = "" if state == "ok" else "Remove models (blazar list, blazar rm), or set BLAZAR_HOME to a larger disk."
    yield Finding("disk", "data", state, f"{output.size(free)} free for {paths.data}", cure)


def _engines(config: Config) -> Iterator[Finding]:
    found = False
    if path := config.engine.llamacpp_path:
        found = os.access(path, os.X_OK) and Path(path).is_file()
        cure = "" if found else "Set the right one: blazar config set engine.llamacpp_path PATH"
        detail = path if found else f"{path} is no program that can be run"
        yield Finding("engines", "llamacpp (local)", "ok" if found else "fail", detail, cure)
    try:
        version = importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        if not found:
            cure = "Install one: pip install 'blazar[llamacpp]'"
            yield Finding("engines", "llamacpp", "warn", "no engine is installed, so no model can run", cure)
    else:
        yield Finding("engines", "llamacpp (pypi)", "ok", f"xllamacpp {version}")


def _daemon(paths: Paths, config: Config) -> Iterator[Finding]:
    daemon = client(paths, config)
    try:
        health = daemon.health()
    except DaemonUnreachable:
        yield Finding("daemon", "address", "ok", f"none runs at {daemon.address}; blazar run starts one")
    except BlazarError as error:
        cure = "Stop that program, or choose another port: blazar config set server.port N"
        yield Finding("daemon", "address", "fail", error.message, cure)
    else:
        yield Finding("daemon", "address", "ok", f"version {health.version} answers at {daemon.address}")


def _print(findings: list[Finding], screen: Screen) -> None:
    styles: dict[str, Callable[[str], str]] = {"ok": screen.good, "warn": screen.warning, "fail": screen.bad}
    width = max(len(finding.name) for finding in findings)
    group = ""
    for finding in findings:
        if finding.group != group:
            group = finding.group
            click.echo(screen.bold(group))
        mark = styles[finding.state](finding.state.ljust(4))
        click.echo(f"  {mark}  {finding.name:<{width}}  {screen.safe(finding.detail)}")
        if finding.cure:
            click.echo(f"          {'':{width}}{finding.cure}")
    wrong = sum(finding.state != "ok" for finding in findings)
    click.echo(screen.good("All is well.") if not wrong else f"{wrong} of {len(findings)} checks want attention.")
