"""``blazar engine``: the builds of engines, side by side; which one is used, and how they come and go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blazar.cli import output
from blazar.cli.completions import Completed
from blazar.cli.place import client, here, owners
from blazar.cli.progress import Steps
from blazar.errors import BlazarError

if TYPE_CHECKING:
    from blazar.client import Client
    from blazar.client.types import EngineBuild, EngineStep

_HEAD = ("", "KIND", "TAG", "CHANNEL", "VERSION", "GPUS BY", "RUNS")
_KINDS = click.Choice(("llamacpp",))
_version = click.option("--version", default="", help="Which one; the newest otherwise.")
_channel = click.option(
    "--channel",
    type=click.Choice(("auto", "pypi", "release")),
    default="auto",
    help="A wheel (processor only), or the project's own release for this machine's GPUs; auto: what is used now, else "
    "a release where there are GPUs.",
)


class _Tag(Completed):
    name = "tag"

    def known(self) -> Iterable[tuple[str, str | None]]:
        """Every build, where a daemon runs."""
        try:
            return [(build.tag, build.version) for build in client(*here()).builds()]
        except BlazarError:
            return []


@click.group()
def engine() -> None:
    """List, install, compile, choose and remove builds of engines. Models in memory keep theirs until they leave."""


@engine.command("list")
@output.json_option
def list_(as_json: bool) -> None:
    """List the builds; * marks the one that models are loaded with."""
    builds = _daemon().builds()
    if as_json:
        output.json_lines(builds)
    elif builds:
        output.table(_HEAD, [_row(build) for build in builds])
    else:
        output.notes().line("There is no engine yet. Install one: blazar engine install llamacpp")


@engine.command()
@click.argument("kind", type=_KINDS)
@_version
@_channel
def install(kind: str, version: str, channel: str) -> None:
    """Install a build of KIND beside those that are there, and use it."""
    _do("install", kind=kind, version=version, channel=channel)


@engine.command()
@click.argument("kind", type=_KINDS, default="llamacpp")
@_version
@_channel
@click.option("--no-gate", is_flag=True, help="Use it however slow it is.")
def update(kind: str, version: str, channel: str, no_gate: bool) -> int:
    """Install the newest build of KIND, and use it unless it writes more than a tenth slower than the one before.

    Both write with the smallest model that is here, in turn. Ends with 1 when the old one stays.
    """
    return int(not _do("update", kind=kind, version=version, channel=channel, gate=not no_gate).kept)


@engine.command()
@click.argument("source", default="")
@click.option("--tag", default="", help="The build's name; otherwise it has its source's.")
@click.option("-D", "options", multiple=True, metavar="NAME=VALUE", help="An option for CMake; repeatable.")
@click.option("--no-gate", is_flag=True, help="Use it however slow it is.")
def build(source: str, tag: str, options: tuple[str, ...], no_gate: bool) -> int:
    """Compile llama.cpp from SOURCE for this machine, and use it unless it writes more than a tenth slower.

    SOURCE is a folder, an archive (.tar.gz) or its address, or a release such as b11434; the newest release otherwise.
    Where a compiler for this machine's GPUs is found (nvcc, hipcc, glslc), it is used. It takes some minutes; what
    Ctrl-C breaks off is gone on with by the next call. CMake and Ninja are fetched as wheels where they are not there.
    Ends with 1 when the build before stays in use.
    """
    if source and Path(source).exists():
        source = str(Path(source).resolve())
    return int(not _do("build", owner=True, source=source, tag=tag, options=options, gate=not no_gate).kept)


@engine.command()
@click.argument("tag", type=_Tag())
def use(tag: str) -> None:
    """Load models with the build TAG from now on."""
    _do("use", tag=tag)


@engine.command()
def rollback() -> None:
    """Go back to the build that was used before."""
    _do("rollback")


@engine.command("rm")
@click.argument("tags", nargs=-1, required=True, type=_Tag())
def remove(tags: tuple[str, ...]) -> int:
    """Remove the builds TAGS. One that is used, or that runs a model, stays, and the command fails at the end."""
    failed = 0
    for tag in tags:
        try:
            _do("rm", tag=tag)
        except BlazarError as error:
            failed += 1
            output.notes().line(f"{output.notes().bad('error:')} {error.message}")
    return int(bool(failed))


@engine.command()
def prune() -> None:
    """Remove all builds that are neither used, nor the way back, nor run a model."""
    _do("prune")


def _daemon() -> Client:
    from blazar.cli.run import daemon  # noqa: PLC0415 (what talks is slow to import)

    return daemon(*here())


def _do(action: str, *, owner: bool = False, **fields: object) -> EngineStep:
    """Tell the steps, then what came of it. ``owner``: as who may read the daemon's files, whatever key is set."""
    notes, daemon = output.notes(), _daemon()
    with Steps(notes) as steps:
        for step in (owners(here()[0]) or daemon if owner else daemon).engine(action, **fields):
            if step.what:
                steps(f"{step.status.capitalize()} {step.what}")
    for line in _told(action, step):
        notes.line(line)
    return step


def _told(action: str, step: EngineStep) -> Iterable[str]:
    if speeds := step.speeds:
        change = speeds.new / speeds.old - 1 if speeds.old else 0.0
        yield (f"With {speeds.model}: {speeds.new:.1f} tokens/s, {speeds.old:.1f} before ({change:+.0%}).")
    if not step.kept:
        gone = "" if step.note else ", and the new one is gone. To use it all the same: --no-gate"
        yield f"It is slower: {step.tag} stays in use{gone}"
    if step.note:
        yield f"{step.note[:1].upper()}{step.note[1:]}."
    if not step.kept:
        return
    if action in ("rm", "prune"):
        yield f"Removed {', '.join(step.removed)}." if step.removed else "There is nothing to remove."
        return
    before = f" (before: {step.before}; back to it: blazar engine rollback)" if step.before != step.tag else ""
    yield f"Models are loaded with {step.tag} from now on{before if step.before else ''}."


def _row(build: EngineBuild) -> tuple[str, ...]:
    return (
        "*" if build.used else "",
        build.kind,
        build.tag,
        build.channel,
        build.version,
        ", ".join(build.backends) or "-",
        ", ".join(build.models) or "-",
    )
