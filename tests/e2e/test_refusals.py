"""Clients that are refused while they still send: they read why, over a connection that stays good."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.support.server import Server, serving

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("refusals"), {}, BLAZAR_SERVER_MAX_BODY_BYTES=str(2 * MIB)) as server:
        server.cli("keys", "add", "first")
        yield server


class Client:
    """A plain socket that sends its head first and its body when it likes."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=15)

    def head(self, path: str, *lines: str) -> None:
        head = "\r\n".join([f"POST {path} HTTP/1.1", "host: 127.0.0.1", *lines])
        self.socket.sendall(f"{head}\r\n\r\n".encode())

    def status(self) -> int:
        """Of the next answer, which is read to its end."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            if not (piece := self.socket.recv(65536)):
                raise ConnectionError("closed without an answer")
            answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(lines[b"content-length"]):
            body += self.socket.recv(65536)
        return int(head.split()[1])


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(server)
    yield client
    client.socket.close()


@pytest.mark.parametrize("size", [100, 100_000, MIB])
@pytest.mark.parametrize(("path", "status"), [("/v1/chat/completions", 401), ("/no/such/path", 401), ("/health", 405)])
def test_who_is_refused_before_its_body_has_come_reads_why(client: Client, size: int, path: str, status: int) -> None:
    for _ in range(3):
        client.head(path, "x-api-key: wrong", f"content-length: {size}")
        time.sleep(0.01)  # the refusal could have been made by now
        client.socket.sendall(b"x" * size)
        assert client.status() == status


def test_a_body_that_is_too_large_is_told_so_though_all_of_it_is_sent(client: Client) -> None:
    client.head("/v1/chat/completions", f"content-length: {64 * MIB}")
    for _ in range(64):
        client.socket.sendall(b"x" * MIB)
    assert client.status() == 413
    client.head("/v1/chat/completions", "x-api-key: wrong", "content-length: 2")
    client.socket.sendall(b"{}")
    assert client.status() == 401


def test_a_body_of_unknown_length_that_is_too_large_is_told_so(server: Server, client: Client) -> None:
    key = server.cli("keys", "add", "chunks").stdout.strip()
    client.head("/v1/chat/completions", f"x-api-key: {key}", "transfer-encoding: chunked")
    for _ in range(16):
        client.socket.sendall(b"100000\r\n" + b"x" * MIB + b"\r\n")
    client.socket.sendall(b"0\r\n\r\n")
    assert client.status() == 413


def test_who_asks_before_it_sends_is_refused_at_once(client: Client) -> None:
    client.head("/v1/chat/completions", "x-api-key: wrong", "content-length: 1000", "expect: 100-continue")
    client.socket.settimeout(2)
    assert client.status() == 401


def test_who_never_sends_its_body_is_not_waited_for_long(client: Client) -> None:
    client.head("/v1/chat/completions", "x-api-key: wrong", "content-length: 1000")
    client.socket.settimeout(9)
    assert client.status() == 401
