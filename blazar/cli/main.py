"""The program ``blazar`` and how it ends: 0 done, 1 failed, 2 usage, 3 port taken, 130 Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from blazar.cli.commands import ALIASES, ENTRIES
from blazar.cli.lazy import LazyGroup
from blazar.errors import BlazarError, PortTaken

FAILED, USAGE, PORT_TAKEN, INTERRUPTED = 1, 2, 3, 130


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        # Asking the package's metadata would take longer than all the rest.
        from blazar import _native  # noqa: PLC0415

        click.echo(f"blazar {_native.VERSION}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    aliases=ALIASES,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="COMMAND [ARGUMENTS]...",
    invoke_without_command=True,
    epilog="Each command explains itself: blazar COMMAND --help",
)
@click.option(
    "-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="The version."
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """One local address for every local model."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. A failure is one line on standard error."""
    try:
        result = cli.main(None if arguments is None else list(arguments), "blazar", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left, as `head` does. What is still buffered must not complain at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (click.ClickException, BlazarError, OSError) as error:
        return _failed(*_told(error))
    except Exception as error:  # noqa: BLE001 (the last door: whoever types gets a sentence, the log gets the rest)
        return _failed(_logged(error), FAILED)
    return result if isinstance(result, int) else 0


def _told(error: click.ClickException | BlazarError | OSError) -> tuple[str, int]:
    """The sentence and the exit code of a failure that is no fault of ours."""
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "blazar"
        sentence = error.format_message()
        return f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} See: {command} --help", USAGE
    if isinstance(error, click.ClickException):
        return error.format_message(), FAILED
    if isinstance(error, BlazarError):
        return error.message, PORT_TAKEN if isinstance(error, PortTaken) else FAILED
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}", FAILED


def _failed(sentence: str, code: int) -> int:
    red = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    label = "\x1b[31merror:\x1b[0m" if red else "error:"
    print(f"{label} {' '.join(sentence.split())}", file=sys.stderr)  # noqa: T201
    return code


def _logged(error: Exception) -> str:
    import traceback  # noqa: PLC0415 (only for a fault of ours)

    from blazar.config.paths import Paths  # noqa: PLC0415

    log = Paths.from_env().log / "cli.log"
    what = f"Something went wrong inside Blazar ({type(error).__name__}: {error})."
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as stream:
            stream.writelines(traceback.format_exception(error))
    except OSError:
        return what
    return f"{what} The details are in {log}"
