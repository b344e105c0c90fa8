"""Whom the guard lets in."""

from __future__ import annotations

import pytest

from blazar.config.schema import Server
from blazar.errors import HostForbidden, PayloadTooLarge
from blazar.gateway.guard import Guard


class Asked:
    def __init__(self, path: str = "/v1/chat/completions", **headers: str) -> None:
        self.path = path
        self._headers = {name.replace("_", "-").encode(): value for name, value in headers.items()}

    def header(self, name: bytes) -> str | None:
        return self._headers.get(name)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:11435", "127.0.0.1:1", "[::1]:11435", "LOCALHOST:3", "app.localhost:80", "localhost.:80"],
)
def test_names_of_this_machine(host: str) -> None:
    Guard(Server()).check(Asked(host=host))  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:11435", "127.0.0.1.evil.example", "localhost@evil"])
def test_names_of_others(host: str) -> None:
    with pytest.raises(HostForbidden, match=r"allowed_hosts"):
        Guard(Server()).check(Asked(host=host))  # type: ignore[arg-type]


def test_a_name_that_the_owner_allowed() -> None:
    Guard(Server(allowed_hosts=("box.lan",))).check(Asked(host="box.lan:11435"))  # type: ignore[arg-type]


def test_a_bind_to_the_network_takes_any_name() -> None:
    Guard(Server(host="0.0.0.0")).check(Asked(host="anything"))  # type: ignore[arg-type]


def test_a_length_over_the_bound_is_refused_before_the_body_is_read() -> None:
    guard = Guard(Server(max_body_bytes=10))
    guard.check(Asked(host="localhost", content_length="10"))  # type: ignore[arg-type]
    with pytest.raises(PayloadTooLarge):
        guard.check(Asked(host="localhost", content_length="11"))  # type: ignore[arg-type]
    # Uploads go to the disk.
    guard.check(Asked("/api/blobs/sha256:0", host="localhost", content_length="11"))  # type: ignore[arg-type]
