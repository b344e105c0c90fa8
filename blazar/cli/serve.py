"""``blazar serve``: the daemon, in the foreground or in a session of its own."""

from __future__ import annotations

import click
import msgspec

from blazar.cli.output import notes
from blazar.cli.place import here, url

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on (server.host).")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), help="Port to listen on (server.port).")
@click.option(
    "--log-level",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    help="Least serious line that is logged: debug, info, warning, error.",
)
@click.option("--detach", is_flag=True, help="Start in the background, and return when it answers.")
def serve(host: str | None, port: int | None, log_level: str | None, detach: bool) -> int:
    """Answer requests on this machine's address, until Ctrl-C or SIGTERM.

    Ends with 3 when somebody else listens there.
    """
    paths, config = here()
    asked = {"host": host, "port": port, "log_level": log_level}
    server = msgspec.structs.replace(config.server, **{key: value for key, value in asked.items() if value is not None})
    config = msgspec.structs.replace(config, server=server)
    if detach:
        from blazar.supervisor import detach as daemon  # noqa: PLC0415 (the foreground has no use for it)

        command = (*daemon.default_command(), "--host", server.host, "--port", str(server.port))
        command += ("--log-level", server.log_level)
        pid, new = daemon.start(paths, server.host, server.port, command=command)
        notes().line(
            started(pid, url(server.host, server.port)) if new else f"The Blazar daemon runs already (pid {pid})."
        )
        return 0
    from blazar.gateway.serve import serve as serve_forever  # noqa: PLC0415 (the whole server hangs on it)

    return serve_forever(config, paths)


def started(pid: int, address: str) -> str:
    """What is said when a daemon was started."""
    return f"Started the Blazar daemon (pid {pid}) at {address}; stop it with: blazar stop"
