"""Completion: the scripts that shells source, and what completes a model's name."""

from __future__ import annotations

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


class ModelName(click.types.StringParamType):
    """The name of a model on disk; the shell completes it."""

    name = "model"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 (the signature is click's)
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Names that begin so. What stands in the way of knowing them is no matter for a Tab."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 (only for a Tab)

        from blazar.cli.place import here  # noqa: PLC0415 (only for a Tab)
        from blazar.errors import BlazarError  # noqa: PLC0415
        from blazar.models.library import Library  # noqa: PLC0415

        try:
            models = Library(*here()).list()
        except (BlazarError, OSError):
            return []
        begin = incomplete.lower()
        return [CompletionItem(model.name) for model in models if model.name.lower().startswith(begin)]
