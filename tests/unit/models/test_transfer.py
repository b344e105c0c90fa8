"""Files over a real HTTP server with the faults of real ones."""

import errno
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blazar.errors import DownloadFailed, InsufficientStorage
from blazar.models import transfer
from blazar.models.ledger import brought
from blazar.models.lines import PART, Way
from blazar.models.pace import Pace
from blazar.models.progress import Progress, ignore
from blazar.models.transfer import Downloaded
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
    way = Way(sleep=Naps(), lines=1)
    return transfer.download(f"{web.url}/m.gguf", folder, "m.gguf", **{"way": way, **more})  # type: ignore[arg-type]


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
    assert [asked for _, asked in web.requests] == [
        f"bytes=0-{PART - 1}",
        "bytes=1000000-2999999",
        "bytes=1500000-2999999",
    ]


def test_a_line_that_brings_nothing_any_more_is_given_up_and_what_came_is_kept(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadFailed, match="connection was cut; what came is kept"):
        fetch(web, tmp_path)
    assert brought(tmp_path) == 1_000_000
    web.cut_after = []
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", "bytes=1000000-2999999")


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
    assert [asked for _, asked in web.requests] == [f"bytes=0-{PART - 1}", None]


def test_a_server_that_promised_more_than_it_has_is_believed_when_asked_again(web: Web, tmp_path: Path) -> None:
    web.lie_about_length = 77
    assert fetch(web, tmp_path).digest == DIGEST


def test_a_file_of_unknown_length_comes_whole(web: Web, tmp_path: Path) -> None:
    web.lengths = web.ranges = False
    seen: list[Progress] = []
    assert fetch(web, tmp_path, listener=seen.append).digest == DIGEST
    assert {p.total for p in seen if p.phase == "download"} == {None}


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
    transfer.download(f"{web.url}/m.gguf", tmp_path, "m.gguf", seen.append, way=Way(sleep=naps))
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
        transfer.download("http://127.0.0.1:9/m.gguf", tmp_path, "m.gguf", way=Way(sleep=naps))
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
    came = brought(tmp_path)
    assert 500_000 < came < len(DATA)
    assert not (tmp_path / "m.gguf").exists()
    web.pause_s = 0
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", f"bytes={came}-2999999")


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
    came = brought(tmp_path)
    web.pause_s = 0
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", f"bytes={came}-2999999")


def test_after_a_power_cut_only_what_was_surely_written_counts(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadFailed):
        fetch(web, tmp_path)
    sidecar = tmp_path / "m.gguf.json"
    state = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**state, "boot": "another life"}))
    account = tmp_path / "m.gguf.parts"
    account.write_bytes(struct.pack("<QQ", 1_000_000, 400_000))
    torn = bytearray((tmp_path / "m.gguf.partial").read_bytes())
    torn[600_000:] = bytes(400_000)
    (tmp_path / "m.gguf.partial").write_bytes(torn)
    web.cut_after = []
    assert fetch(web, tmp_path).digest == DIGEST
    assert web.requests[-1] == ("/m.gguf", "bytes=400000-2999999")


def test_a_sidecar_that_makes_no_sense_begins_anew(web: Web, tmp_path: Path) -> None:
    (tmp_path / "m.gguf.partial").write_bytes(b"old")
    (tmp_path / "m.gguf.json").write_text('{"url": 7')
    assert fetch(web, tmp_path).digest == DIGEST


# Parts side by side.

MANY = random.Random(7).randbytes(4_000_000)
MANY_DIGEST = "sha256:" + hashlib.sha256(MANY).hexdigest()
SMALL_PART = 100_000


def fetch_many(web: Web, folder: Path, *, listener: Callable[[Progress], None] = ignore, **more: Any) -> Downloaded:
    web.files["/many.gguf"] = MANY
    way = Way(**{"sleep": Naps(), "part": SMALL_PART, **more})
    sha256 = MANY_DIGEST[7:]
    return transfer.download(f"{web.url}/many.gguf", folder, "many.gguf", listener, sha256=sha256, way=way)


def asked_for(web: Web) -> int:
    """Bytes, by the ranges of all requests."""
    spans = [(asked or "").removeprefix("bytes=").split("-") for _, asked in web.requests]
    return sum(int(last) - int(first) + 1 for first, last in spans)


def test_parts_come_side_by_side_and_each_once(web: Web, tmp_path: Path) -> None:
    came, both = itertools.count(), threading.Barrier(2, timeout=20)

    def meet() -> None:
        if next(came) in (1, 2):
            both.wait()  # the second and the third are answered at once, or never

    web.before_body = meet
    got = fetch_many(web, tmp_path)
    assert got == Downloaded(tmp_path / "many.gguf", len(MANY), MANY_DIGEST)
    assert got.path.read_bytes() == MANY
    assert len(web.requests) == len(MANY) // SMALL_PART
    assert web.sent == len(MANY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.gguf", "many.gguf.json"]


def test_damage_is_found_at_once_and_only_what_is_damaged_comes_again(web: Web, tmp_path: Path) -> None:
    chance = random.Random(11)
    damaged: list[int] = []

    def spoil(body: bytes) -> bytes:
        if chance.random() >= 0.05:
            return body
        damaged.append(len(body))
        return body[:-1] + bytes((body[-1] ^ 1,))

    web.digests, web.spoil = True, spoil
    assert fetch_many(web, tmp_path).digest == MANY_DIGEST
    assert damaged, "the case did not arise"
    assert web.sent == len(MANY) + sum(damaged)


def test_damage_that_no_server_tells_of_is_mended_part_by_part(web: Web, tmp_path: Path) -> None:
    chance = random.Random(5)

    def spoil(body: bytes) -> bytes:
        at = chance.randrange(len(body))
        return body if chance.random() >= 0.05 else body[:at] + bytes((body[at] ^ 1,)) + body[at + 1 :]

    web.spoil = spoil
    assert fetch_many(web, tmp_path).path.read_bytes() == MANY
    assert web.sent <= 2.5 * len(MANY)


def test_killed_twenty_times_nothing_comes_twice(web: Web, tmp_path: Path) -> None:
    web.files["/many.gguf"], web.pause_s = MANY, 0.01
    program = (
        "import sys; from pathlib import Path; from blazar.models import transfer\n"
        "from blazar.models.lines import Way\n"
        "transfer.download(sys.argv[1], Path(sys.argv[2]), 'many.gguf', way=Way(part=100_000, lines=2))"
    )
    chance, killed = random.Random(3), 0
    for step in range(1, 21):
        child = subprocess.Popen([sys.executable, "-c", program, f"{web.url}/many.gguf", str(tmp_path)])
        goal = step * len(MANY) // 22 + chance.randrange(50_000)
        while brought(tmp_path) < goal and child.poll() is None:
            time.sleep(0.002)
        killed += child.poll() is None
        child.kill()
        child.wait()
    web.pause_s = 0
    assert killed == 20
    assert fetch_many(web, tmp_path, lines=2).digest == MANY_DIGEST
    assert web.sent <= len(MANY) + 20 * 2 * SMALL_PART


def test_a_stop_ends_every_line_at_once(web: Web, tmp_path: Path) -> None:
    web.pause_s = 0.2

    def stop(progress: Progress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_many(web, tmp_path, listener=stop)
    assert not [thread.name for thread in threading.enumerate() if "_line" in thread.name]
    web.pause_s = 0
    came = brought(tmp_path)
    assert came > 0
    web.requests.clear()
    assert fetch_many(web, tmp_path).digest == MANY_DIGEST
    assert asked_for(web) == len(MANY) - came


def test_a_pace_is_kept_by_all_together(web: Web, tmp_path: Path) -> None:
    pace, began = Pace(2_000_000), time.monotonic()
    fetch_many(web, tmp_path, pace=pace)
    assert time.monotonic() - began > 1.5


def test_a_disk_that_runs_full_in_the_middle_keeps_what_came(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.pwrite, [1_000_000]

    def pwrite(handle: int, data: bytes, at: int) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(InsufficientStorage, match=r"many\.gguf needs"):
        fetch_many(web, tmp_path)
    came = brought(tmp_path)
    assert came > 500_000
    monkeypatch.setattr(os, "pwrite", real)
    web.requests.clear()
    assert fetch_many(web, tmp_path).digest == MANY_DIGEST
    assert asked_for(web) == len(MANY) - came


def test_a_login_is_shown_to_its_own_host_only(web: Web, tmp_path: Path) -> None:
    with Web() as elsewhere:
        elsewhere.files["/m.gguf"] = DATA
        web.redirects["/gated"] = f"{elsewhere.url}/m.gguf"
        web.guard = "Bearer secret"
        way = Way(headers={"Authorization": "Bearer secret"})
        assert transfer.download(f"{web.url}/gated", tmp_path, "m.gguf", way=way).digest == DIGEST
        assert web.logins == ["Bearer secret"]
        assert elsewhere.logins == [None]


def test_a_file_that_changes_between_two_parts_begins_anew(web: Web, tmp_path: Path) -> None:
    other = MANY[::-1]

    def change() -> None:
        if len(web.requests) == 3:
            web.files["/many.gguf"], web.etags["/many.gguf"] = other, '"two"'

    web.before_body = change
    way = Way(sleep=Naps(), part=SMALL_PART, lines=1)
    web.files["/many.gguf"] = MANY
    assert transfer.download(f"{web.url}/many.gguf", tmp_path, "x.gguf", way=way).path.read_bytes() == other


def test_an_empty_file_is_a_file(web: Web, tmp_path: Path) -> None:
    web.files["/empty"] = b""
    assert transfer.download(f"{web.url}/empty", tmp_path, "empty").size == 0


def test_a_part_that_somebody_cut_is_fetched_anew(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadFailed):
        fetch(web, tmp_path)
    os.truncate(tmp_path / "m.gguf.partial", 500_000)
    web.cut_after = []
    assert fetch(web, tmp_path).path.read_bytes() == DATA


def test_a_size_that_cannot_be_takes_no_room(web: Web, tmp_path: Path) -> None:
    web.answers = [(206, {"Content-Range": f"bytes 0-9/{10**19}", "ETag": '"x"'})]
    with pytest.raises(DownloadFailed, match="no model has"):
        fetch(web, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0
