"""Commands that other tools have and Blazar never will: they say why."""

from __future__ import annotations

import click

from blazar.errors import BlazarError

_ACCOUNT = "There is no account and nothing to sign in to or out of: Blazar works for the person at this machine alone."
_PUSH = (
    "Blazar uploads nothing: models stay on this machine. They are plain files, so copy them where you like; "
    "'blazar show MODEL' says where they lie."
)


def _refusing(name: str, sentence: str) -> click.Command:
    @click.command(name, help=sentence, add_help_option=True, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, metavar="")
    def command(arguments: tuple[str, ...]) -> None:
        del arguments
        raise BlazarError(sentence)

    return command


push = _refusing("push", _PUSH)
login = _refusing("login", _ACCOUNT)
logout = _refusing("logout", _ACCOUNT)
signin = _refusing("signin", _ACCOUNT)
signout = _refusing("signout", _ACCOUNT)
