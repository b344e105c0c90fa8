"""Who listens on a port, by the kernel's own tables."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from blazar.supervisor.listeners import owner


def test_a_listener_is_named_with_its_pid() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = Path("/proc/self/comm").read_text().strip()
        assert owner(server.getsockname()[1]) == f"{name} (pid {os.getpid()})"


def test_nobody_is_named_where_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert owner(bound.getsockname()[1]) is None


def test_a_machine_without_proc_names_nobody(tmp_path: Path) -> None:
    assert owner(80, tmp_path) is None
