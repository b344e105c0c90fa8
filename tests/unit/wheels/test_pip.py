"""pip as a child: what it fetches, what it says of its progress, how it is stopped, what it failed at."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar.errors import BadRequest, DownloadFailed
from blazar.wheels import pip
from tests.support.web import Web
from tests.support.wheels import make_wheel, offline


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Web]:
    """A package index that holds ``carrier``: two megabytes that do not compress."""
    wheel = make_wheel(tmp_path / "shelf", "carrier", {"carrier/x.bin": os.urandom(2_000_000)})
    with Web() as web:
        web.files[f"/{wheel.name}"] = wheel.read_bytes()
        web.files["/carrier/"] = f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
        yield web


def arguments(index: Web) -> tuple[str, ...]:
    return ("--index-url", index.url, "--no-deps", "--retries", "0")


def children() -> set[str]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            if fields[1] == str(os.getpid()) and fields[0] != "Z":
                found.add(status.parent.name)
    return found


def test_a_wheel_is_fetched_with_progress_and_not_a_second_time(index: Web, tmp_path: Path) -> None:
    index.pause_s = 0.02
    seen: list[tuple[int, int | None]] = []
    wheel = pip.download("Carrier==1.0", tmp_path / "in", arguments(index), lambda *now: seen.append(now))
    size = len(index.files[f"/{wheel.name}"])
    assert wheel.stat().st_size == size
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    asked = len(index.requests)
    assert pip.download("carrier", tmp_path / "in", arguments(index)) == wheel
    assert f"/{wheel.name}" not in [path for path, _ in index.requests[asked:]]


def test_an_exception_of_the_listener_stops_pip_and_leaves_no_half_wheel(index: Web, tmp_path: Path) -> None:
    index.pause_s = 0.2

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    before = children()
    with pytest.raises(KeyboardInterrupt):
        pip.download("carrier", tmp_path / "in", arguments(index), stop)
    assert children() <= before
    assert not list((tmp_path / "in").glob("*.whl"))
    index.pause_s = 0
    assert pip.download("carrier", tmp_path / "in", arguments(index)).exists()


def test_an_unknown_package_is_told_from_other_failures(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    with pytest.raises(pip.NoSuchWheel, match="finds no wheel"):
        pip.download("nothing-of-that-name", tmp_path / "in", offline(tmp_path / "shelf"))


def test_a_package_that_is_source_only_is_not_built(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "sourceful-1.0.tar.gz").write_bytes(b"never opened")
    with pytest.raises(pip.NoSuchWheel, match="only as source"):
        pip.download("sourceful", tmp_path / "in", offline(shelf))


def test_an_index_that_cannot_be_reached_is_not_called_a_missing_package(tmp_path: Path) -> None:
    nowhere = ("--index-url", "http://127.0.0.1:9/", "--retries", "1", "--timeout", "1")
    with pytest.raises(DownloadFailed, match="cannot reach the package index") as caught:
        pip.download("carrier", tmp_path / "in", nowhere)
    assert not isinstance(caught.value, pip.NoSuchWheel)


@pytest.mark.parametrize(
    "requirement", ["--help", "-r /etc/passwd", "a b", "", "http://x/y.whl", "x @ file:///x", "x[y]"]
)
def test_only_a_name_and_a_version_reach_pip(requirement: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        pip.download(requirement, tmp_path / "in")
