"""``blazar config``: seeing the settings, with who set them, and changing them."""

from __future__ import annotations

from collections.abc import Iterable

import click
import msgspec

from blazar.cli import output
from blazar.cli.completions import Completed
from blazar.config import edit as editing
from blazar.config import load, options, reference
from blazar.config.paths import Paths
from blazar.errors import ConfigError


class _Key(Completed):
    name = "key"

    def known(self) -> Iterable[tuple[str, str | None]]:
        """Every setting."""
        return [(option.key, option.help) for option in options.table().values()]


class _Row(msgspec.Struct):
    key: str
    value: options.Value
    source: str
    default: options.Value
    unit: str
    type: str
    env: str
    help: str


@click.group()
def config() -> None:
    """See and change the settings. A change holds from the next start of the daemon on."""


@config.command("list")
@click.option("--changed", is_flag=True, help="Only what is not at its default.")
@output.json_option
def list_(changed: bool, as_json: bool) -> None:
    """List every setting, its value, and who set it."""
    known = options.table()
    settings = [s for s in load.explain(Paths.from_env()) if not changed or s.value != known[s.key].default]
    if as_json:
        output.json_lines(_row(setting) for setting in settings)
        return
    rows = [(s.key, reference.toml(s.value), known[s.key].unit, s.source, known[s.key].help) for s in settings]
    output.table(("KEY", "VALUE", "UNIT", "SET BY", "MEANING"), rows)


@config.command("get")
@click.argument("key", type=_Key())
@output.json_option
def get(key: str, as_json: bool) -> None:
    """Print the value of KEY that holds now."""
    setting = editing.get(Paths.from_env(), key)
    if as_json:
        output.json_lines([_row(setting)])
    elif isinstance(setting.value, tuple):
        click.echo(",".join(setting.value))
    else:
        click.echo(setting.value if isinstance(setting.value, str) else reference.toml(setting.value))


@config.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key", type=_Key())
@click.argument("value")
def set_(key: str, value: str) -> None:
    """Write VALUE for KEY into the file. A list is written with commas."""
    paths = Paths.from_env()
    written = editing.put(paths, key, value)
    screen = output.notes()
    screen.line(f"{key} = {reference.toml(written)} in {paths.config_file}")
    _tell_overruled(paths, key)
    _tell_restart(paths)


@config.command("unset")
@click.argument("key", type=_Key())
def unset(key: str) -> None:
    """Take KEY out of the file, so that its default holds again."""
    paths = Paths.from_env()
    if not editing.drop(paths, key):
        output.notes().line(f"{key} is not set in {paths.config_file}; nothing to do.")
        return
    known = options.table().get(key)
    default = f"; its default {reference.toml(known.default)} holds again" if known else ""
    output.notes().line(f"{key} is out of {paths.config_file}{default}.")
    _tell_overruled(paths, key)
    _tell_restart(paths)


@config.command("defaults")
@click.option("--markdown", is_flag=True, help="As a page of reference.")
def defaults(markdown: bool) -> None:
    """Print a settings file in which everything is at its default and explained."""
    click.echo(reference.markdown() if markdown else reference.defaults(), nl=False)


@config.command("path")
def path() -> None:
    """Print where the settings file is."""
    click.echo(Paths.from_env().config_file)


@config.command("edit")
def edit() -> None:
    """Open the settings file in $EDITOR. It is kept only if it is right; a wrong one can be mended at once."""
    paths = Paths.from_env()
    file = paths.config_file
    before = file.read_text("utf-8") if file.exists() else None
    text = before if before is not None else reference.defaults()
    while True:
        edited = click.edit(text, extension=".toml", require_save=False)
        if edited is None or edited == text == before:
            output.notes().line("Nothing changed.")
            return
        try:
            if before != (file.read_text("utf-8") if file.exists() else None):
                raise ConfigError(f"{file} was changed by somebody else meanwhile; nothing is written.")
            backup = editing.write(paths, edited)
        except ConfigError as fault:
            output.notes().line(f"{output.notes().bad('error:')} {fault.message}")
            if not output.notes().terminal or not click.confirm("Mend it?", default=True, err=True):
                raise ConfigError("The settings were not changed.") from fault
            text = edited
            continue
        kept = f"; the former one is {backup}" if backup else ""
        output.notes().line(f"Written to {file}{kept}.")
        return


def _row(setting: load.Setting) -> _Row:
    option = options.find(setting.key)
    return _Row(
        key=option.key,
        value=setting.value,
        source=setting.source,
        default=option.default,
        unit=option.unit,
        type=option.type_words,
        env=option.env,
        help=option.help,
    )


def _tell_overruled(paths: Paths, key: str) -> None:
    """A change that cannot show is said, and not left to be wondered about."""
    option = options.table().get(key)
    if option is not None and editing.get(paths, key).source == "environment":
        output.notes().line(f"The environment variable {option.env} overrules it.")


def _tell_restart(paths: Paths) -> None:
    if (paths.run / "daemon.json").exists():
        from blazar.supervisor import detach  # noqa: PLC0415 (only if there may be a daemon)

        if (daemon := detach.running(paths)) is not None:
            output.notes().line(f"The daemon (pid {daemon.pid}) goes by it after its next start.")
