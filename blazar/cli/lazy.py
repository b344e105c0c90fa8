"""A click group that imports a command's module only when the command is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from blazar.cli.commands import Entry

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """Commands by a table. The help page and the completions come from the table alone."""

    def __init__(self, *args: object, entries: Sequence[Entry], aliases: dict[str, str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._entries = {entry.name: entry for entry in entries}
        self._aliases = aliases

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (the signature is click's)
        """Every name, in the order of the help page."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name or alias, imported now."""
        entry = self._entries.get(self._aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(importlib.import_module(f"blazar.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest name where there is none."""
        name = args[0]
        if not name.startswith("-") and name not in self._entries and name not in self._aliases:
            from difflib import get_close_matches  # noqa: PLC0415 (only for a slip)

            near = get_close_matches(name, [*self._entries, *self._aliases], n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"There is no command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands, by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        others: dict[str, list[str]] = {}
        for alias, name in self._aliases.items():
            others.setdefault(name, []).append(alias)
        for entry in self._entries.values():
            name = ", ".join([entry.name, *others.get(entry.name, [])])
            groups.setdefault(entry.group, []).append((name, entry.help))
        width = max(len(name) for rows in groups.values() for name, _ in rows)
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names that begin so, without importing what they do."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 (only for a Tab)

        found = [
            CompletionItem(entry.name, help=entry.help)
            for entry in self._entries.values()
            if entry.name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
