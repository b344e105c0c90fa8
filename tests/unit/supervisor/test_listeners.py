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


def test_a_descriptor_that_closes_meanwhile_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text("head\n0: 0100007F:1F90 00000000:0000 0A 0 0 0 0 0 4711\n")
    held = tmp_path / "12" / "fd"
    held.mkdir(parents=True)
    (tmp_path / "12" / "comm").write_text("server\n")
    (held / "3").write_text("no link any more")
    (held / "5").symlink_to("socket:[4711]")
    (held / "7").write_text("no link any more")
    assert owner(8080, tmp_path) == "server (pid 12)"


def test_nobody_is_named_where_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert owner(bound.getsockname()[1]) is None


def test_a_machine_without_proc_names_nobody(tmp_path: Path) -> None:
    assert owner(80, tmp_path) is None
