"""Commands that other tools have and Blazar never will: they say why."""

from __future__ import annotations

import click

from blazar.errors import LocalOnly


def _refusing(name: str) -> click.Command:
    error = LocalOnly(name)

    @click.command(name, help=error.message, add_help_option=True, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, metavar="")
    def command(arguments: tuple[str, ...]) -> None:
        del arguments
        raise LocalOnly(name)

    return command


push = _refusing("push")
login = _refusing("login")
logout = _refusing("logout")
signin = _refusing("signin")
signout = _refusing("signout")
