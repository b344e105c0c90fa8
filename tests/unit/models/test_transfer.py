"""Files over a real HTTP server with the faults of real ones."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar.errors import DownloadFailed, InsufficientStorage
from blazar.models import transfer
from blazar.models.progress import Progress
from tests.support.web import Web

DATA = os.urandom(3_000_000)
DIGEST = "sha256:" + hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as it:
        it.files["/m.gguf"] = DATA
        yield it


class Naps(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def fetch(web: Web, folder: Path, **more: object) -> transfer.Downloaded:
    return transfer.download(f"{web.url}/m.gguf", folder, "m.gguf", sleep=Naps(), **more)  # type: ignore[arg-type]


def test_a_file_comes_whole_with_its_hash_and_progress(web: Web, tmp_path: Path) -> None:
    seen: list[Progress] = []
    got = fetch(web, tmp_path, listener=seen.append)
    assert got == transfer.Downloaded(tmp_path / "m.gguf", len(DATA), DIGEST)
    assert got.path.read_bytes() == DATA
    assert (seen[0].done, seen[0].total) == (0, len(DATA))
    assert (seen[-1].phase, seen[-1].done) == ("download", len(DATA))
    assert not list(tmp_path.glob("*.partial"))


def test_a_finished_file_is_not_fetched_again(web: Web, tmp_path: Path) -> None:
    first = fetch(web, tmp_path)
    assert fetch(web, tmp_path) == first
    assert len(web.requests) == 1


def test_a_cut_connection_is_taken_up_where_it_broke(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000, 500_000]
    assert fetch(web, tmp_path).digest == DIGEST
    assert [asked for _, asked in web.requests] == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_line_that_brings_nothing_any_more_is_given_up_and_what_came_is_kept(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadFailed, match="connection was cut; what came is kept"):
        fetch(web, tmp_path)
    assert (tmp_path / "m.gguf.partial").stat().st_size == 1_000_000
    web.cut_after = []
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", "bytes=1000000-")


def test_a_file_that_changed_meanwhile_begins_anew(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadFailed):
        fetch(web, tmp_path)
    web.cut_after = []
    web.files["/m.gguf"] = DATA[::-1]
    web.etags["/m.gguf"] = '"two"'
    assert fetch(web, tmp_path).path.read_bytes() == DATA[::-1]


def test_a_server_without_ranges_begins_anew(web: Web, tmp_path: Path) -> None:
    web.ranges = False
    web.cut_after = [2_000_000]
    assert fetch(web, tmp_path).digest == DIGEST


def test_without_a_validator_nothing_is_pieced_together(web: Web, tmp_path: Path) -> None:
    web.validators = False
    web.cut_after = [2_000_000]
    assert fetch(web, tmp_path).digest == DIGEST
    assert [asked for _, asked in web.requests] == [None, None]


def test_a_server_that_promised_more_than_it_has_is_believed_when_asked_again(web: Web, tmp_path: Path) -> None:
    web.lie_about_length = 77
    assert fetch(web, tmp_path).digest == DIGEST


def test_a_file_of_unknown_length_comes_whole(web: Web, tmp_path: Path) -> None:
    web.lengths = False
    seen: list[Progress] = []
    assert fetch(web, tmp_path, listener=seen.append).digest == DIGEST
    assert {p.total for p in seen} == {None}


def test_redirects_are_followed(web: Web, tmp_path: Path) -> None:
    web.redirects["/old"] = "/m.gguf"
    assert transfer.download(f"{web.url}/old", tmp_path, "m.gguf").digest == DIGEST


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://localhost/x"])
def test_a_redirect_out_of_http_is_refused(web: Web, tmp_path: Path, target: str) -> None:
    web.redirects["/old"] = target
    with pytest.raises(DownloadFailed, match=r"not as safe|302"):
        transfer.download(f"{web.url}/old", tmp_path, "m.gguf")


def test_a_server_that_asks_to_wait_is_waited_for(web: Web, tmp_path: Path) -> None:
    web.answers = [(429, {"Retry-After": "7"}), (503, {})]
    naps, seen = Naps(), list[Progress]()
    transfer.download(f"{web.url}/m.gguf", tmp_path, "m.gguf", seen.append, sleep=naps)
    assert naps == [7.0, 2.0]
    assert [p.phase for p in seen[:2]] == ["wait", "wait"]


def test_a_wait_of_an_hour_is_told_instead(web: Web, tmp_path: Path) -> None:
    web.answers = [(429, {"Retry-After": "3600"})]
    with pytest.raises(DownloadFailed, match="come back in 3600 s"):
        fetch(web, tmp_path)


@pytest.mark.parametrize(("status", "words"), [(404, "no such file"), (401, "login"), (410, "410")])
def test_a_refusal_is_final_and_says_why(web: Web, tmp_path: Path, status: int, words: str) -> None:
    web.answers = [(status, {})]
    with pytest.raises(DownloadFailed, match=words):
        fetch(web, tmp_path)
    assert len(web.requests) == 1


def test_nobody_at_the_address_is_told_at_once(tmp_path: Path) -> None:
    naps = Naps()
    with pytest.raises(DownloadFailed, match="cannot be reached"):
        transfer.download("http://127.0.0.1:9/m.gguf", tmp_path, "m.gguf", sleep=naps)
    assert naps == []


def test_the_expected_hash_is_checked_and_a_wrong_file_is_not_kept(web: Web, tmp_path: Path) -> None:
    assert fetch(web, tmp_path / "good", sha256=DIGEST[7:]).digest == DIGEST
    with pytest.raises(DownloadFailed, match="thrown away"):
        fetch(web, tmp_path / "bad", sha256="0" * 64)
    assert list((tmp_path / "bad").iterdir()) == []


def test_the_first_bytes_can_end_it_early(web: Web, tmp_path: Path) -> None:
    def look(piece: bytes, kind: str) -> None:
        assert piece[:10] == DATA[:10]
        assert kind == "application/octet-stream"
        raise DownloadFailed("it", "is not wanted")

    with pytest.raises(DownloadFailed, match="not wanted"):
        fetch(web, tmp_path, look=look)


def test_a_disk_without_room_is_told_before_anything_comes(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 2_000_000})())
    with pytest.raises(InsufficientStorage, match=r"m\.gguf needs"):
        fetch(web, tmp_path)
    assert (tmp_path / "m.gguf.partial").stat().st_size == 0


def test_an_interrupt_leaves_a_partial_that_is_taken_up(web: Web, tmp_path: Path) -> None:
    web.pause_s = 0.02

    def stop(progress: Progress) -> None:
        if progress.done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(web, tmp_path, listener=stop)
    came = (tmp_path / "m.gguf.partial").stat().st_size
    assert 500_000 < came < len(DATA)
    assert json.loads((tmp_path / "m.gguf.json").read_text())["synced"] == came
    assert not (tmp_path / "m.gguf").exists()
    web.pause_s = 0
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", f"bytes={came}-")


def test_a_killed_transfer_is_taken_up(web: Web, tmp_path: Path) -> None:
    web.pause_s = 0.03
    program = (
        "import sys; from pathlib import Path; from blazar.models import transfer\n"
        "transfer.download(sys.argv[1], Path(sys.argv[2]), 'm.gguf')"
    )
    child = subprocess.Popen([sys.executable, "-c", program, f"{web.url}/m.gguf", str(tmp_path)])
    partial = tmp_path / "m.gguf.partial"
    while not partial.exists() or partial.stat().st_size < 500_000:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    came = partial.stat().st_size
    web.pause_s = 0
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", f"bytes={came}-")


def test_after_a_power_cut_only_what_was_surely_written_counts(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadFailed):
        fetch(web, tmp_path)
    sidecar = tmp_path / "m.gguf.json"
    state = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**state, "boot": "another life", "synced": 400_000}))
    torn = bytearray((tmp_path / "m.gguf.partial").read_bytes())
    torn[600_000:] = bytes(400_000)
    (tmp_path / "m.gguf.partial").write_bytes(torn)
    web.cut_after = []
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", "bytes=400000-")


def test_a_sidecar_that_makes_no_sense_begins_anew(web: Web, tmp_path: Path) -> None:
    (tmp_path / "m.gguf.partial").write_bytes(b"old")
    (tmp_path / "m.gguf.json").write_text('{"url": 7')
    assert fetch(web, tmp_path).digest == DIGEST
