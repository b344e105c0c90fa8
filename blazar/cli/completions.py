"""Completion: the scripts that shells source, and what completes a model's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SHELLS = ("bash", "zsh", "fish")
_WHERE = {
    "bash": 'eval "$(blazar completions bash)"   in ~/.bashrc',
    "zsh": 'eval "$(blazar completions zsh)"   in ~/.zshrc, after compinit',
    "fish": "blazar completions fish > ~/.config/fish/completions/blazar.fish",
}


@click.command(epilog="\b\n" + "\n".join(_WHERE.values()))
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completions(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, for the shell to source."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 (slow, and only for the script)

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.", ctx)
    click.echo(kind(ctx.find_root().command, {}, "blazar", "_BLAZAR_COMPLETE").source())


class Completed(click.types.StringParamType):
    """A word that the shell completes, of those that are :meth:`known`."""

    def known(self) -> Iterable[tuple[str, str | None]]:
        """Words, each with what it means; here none."""
        return ()

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 (the signature is click's)
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Words that begin so. What stands in the way of knowing them is no matter for a Tab."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 (only for a Tab)

        from blazar.errors import BlazarError  # noqa: PLC0415 (only for a Tab)

        try:
            words = list(self.known())
        except (BlazarError, OSError):
            return []
        begin = incomplete.lower()
        return [CompletionItem(word, help=help_) for word, help_ in words if word.lower().startswith(begin)]


class ModelName(Completed):
    """The name of a model on disk."""

    name = "model"

    def known(self) -> Iterable[tuple[str, str | None]]:
        """Every model of the catalogue."""
        from blazar.cli.place import here  # noqa: PLC0415 (only for a Tab)
        from blazar.models.library import Library  # noqa: PLC0415

        return [(model.name, None) for model in Library(*here()).list()]
