"""Granian around the app: one worker process, whose lifespan owns the node. The only module that knows Granian."""

from __future__ import annotations

import errno
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from blazar.errors import Conflict, PortTaken
from blazar.supervisor import detach, effects, listeners

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Config
    from blazar.gateway.shell import Shell

_KILL_AFTER_S = 20


def worker_app() -> Shell:
    """The app inside the worker, from the same environment and file that the parent read."""
    from blazar.config.load import load  # noqa: PLC0415  (the parent process has no use for these)
    from blazar.config.paths import Paths  # noqa: PLC0415
    from blazar.gateway.app import create_app  # noqa: PLC0415
    from blazar.node import Node  # noqa: PLC0415
    from blazar.supervisor.effects import CLOSE, die_with_parent  # noqa: PLC0415

    die_with_parent()
    paths = Paths.from_env()
    daemon = detach.running(paths)
    owner = daemon.secret if daemon is not None else ""
    return create_app(Node(load(paths, os.environ), paths, owner), close_on=CLOSE)


def serve(config: Config, paths: Paths) -> int:
    """Serve in the foreground until SIGTERM or SIGINT. Raises PortTaken; returns the exit code."""
    from granian.constants import HTTPModes, Interfaces, Loops  # noqa: PLC0415
    from granian.http import HTTP1Settings  # noqa: PLC0415
    from granian.server.mp import MPServer  # noqa: PLC0415

    class Closing(MPServer):
        """Tells its worker that it stops."""

        def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
            for worker in self.wrks:
                if worker.is_alive():
                    effects.send(worker.inner.pid, effects.CLOSE)
            super().signal_handler_interrupt(*args, **kwargs)  # type: ignore[no-untyped-call]

    server = config.server
    port = _free_port(server.host, server.port)
    if (other := detach.running(paths)) is not None:
        # The fleet's lock would keep the two apart, but only after our record had replaced the other's.
        raise Conflict(f"Another Blazar (pid {other.pid}) uses {paths.data}; it is at port {other.port}.")
    os.environ["BLAZAR_SERVER_HOST"] = server.host
    os.environ["BLAZAR_SERVER_PORT"] = str(port)
    logging.basicConfig(level=server.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    effects.allow_many_files()
    # Until a worker listens to it, it must not kill it.
    effects.ignore(effects.CLOSE)
    granian = Closing(
        "blazar.gateway.serve:worker_app",
        factory=True,
        address=server.host,
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=1,
        http=HTTPModes.auto,
        websockets=False,
        http1_settings=HTTP1Settings(header_read_timeout=30_000),
        backlog=4096,
        backpressure=65536,
        log_enabled=server.log_level == "debug",
        workers_kill_timeout=_KILL_AFTER_S,
        process_name=None,
    )
    # This process is the one to signal: it ends the worker, and the worker its children.
    detach.record(paths, server.host, port)
    try:
        granian.serve()
    finally:
        detach.forget(paths)
    return 0


def _free_port(host: str, port: int) -> int:
    """The port to listen on; for 0 one that the kernel picks. Raises PortTaken.

    Granian shares ports between processes: a second server would steal requests from the first in silence.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise PortTaken(f"{host}:{port}", listeners.owner(port)) from None
        taken: int = probe.getsockname()[1]
        return taken
