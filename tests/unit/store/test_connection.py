"""The database file itself: versions, damage, threads and several processes at once."""

import hashlib
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from blazar import store
from blazar.errors import StoreUnusable
from blazar.store.connection import Connection

PUTS = """
import sys, time
from pathlib import Path
from blazar import store
path, name, start = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
time.sleep(max(0, start - time.time()))
with store.open(path) as opened:
    for n in range(20):
        row = store.ModelRow(f"{name}-{n}", "file:/x", ("/x",), 1, "", "gguf", "llama", 1, 1, "Q4_0", (), False, n, n)
        opened.models.put(row)
"""


def fingerprints(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_several_processes_migrate_and_write_at_the_same_moment(tmp_path: Path) -> None:
    import time

    path = tmp_path / "data" / "blazar.db"
    start = str(time.time() + 1.0)
    children = [subprocess.Popen([sys.executable, "-c", PUTS, str(path), f"p{n}", start]) for n in range(5)]
    assert [child.wait(60) for child in children] == [0] * 5
    with store.open(path) as opened:
        assert len(opened.models.list()) == 100


def test_a_write_of_another_process_shows_in_data_version(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    with store.open(path) as opened:
        before = opened.data_version()
        assert opened.data_version() == before
        subprocess.run([sys.executable, "-c", PUTS, str(path), "other", "0"], check=True)
        assert opened.data_version() != before


def test_the_database_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "blazar.db"
    store.open(path).close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_newer_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    store.open(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = fingerprints(tmp_path)
    with pytest.raises(StoreUnusable, match=r"newer Blazar.*version 99"):
        store.open(path)
    assert fingerprints(tmp_path) == before


def test_a_newer_version_that_only_the_log_knows_is_refused_with_the_log_untouched(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    store.open(path).close()
    dies = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA user_version = 77')\n"
        "db.execute('BEGIN'); db.execute('PRAGMA user_version = 1')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", dies, str(path)], check=False)
    assert (tmp_path / "blazar.db-wal").stat().st_size > 0
    before = fingerprints(tmp_path)
    with pytest.raises(StoreUnusable, match="version 77"):
        store.open(path)
    assert fingerprints(tmp_path) == before


def test_a_database_that_another_process_left_without_closing_is_recovered(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    subprocess.run(
        [sys.executable, "-c", PUTS + "\n    import os; os.kill(os.getpid(), 9)", str(path), "k", "0"], check=False
    )
    assert (tmp_path / "blazar.db-wal").exists()
    with store.open(path) as opened:
        assert len(opened.models.list()) == 20


@pytest.mark.parametrize(
    "content", [b"this is not a database, but it is long enough to be one" * 20, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_damaged_file_gives_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "blazar.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnusable) as caught:
        store.open(path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


def test_damage_found_later_gives_the_same_sentence(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    subprocess.run([sys.executable, "-c", PUTS, str(path), "m", "0"], check=True)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xee" * (path.stat().st_size - 4096))
    with pytest.raises(StoreUnusable, match="damaged"), store.open(path) as opened:
        opened.models.list()


def test_a_folder_in_the_place_of_the_file_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "blazar.db").mkdir()
    with pytest.raises(StoreUnusable):
        store.open(tmp_path / "blazar.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_file_gives_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    path.touch(mode=0o400)
    with pytest.raises(StoreUnusable, match="may not be written"):
        store.open(path)


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    good = ("CREATE TABLE a (x)",)
    with pytest.raises(StoreUnusable):
        Connection(path, (good, ("CREATE TABLE b (x)", "CREATE TABLE nonsense (")))
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("a",)]
    db.close()
    healed = Connection(path, (good, ("CREATE TABLE b (x)",)))
    assert healed.read("SELECT * FROM b") == []
    healed.close()


def test_threads_share_the_connection_and_transactions_do_not_mix(tmp_path: Path) -> None:
    connection = Connection(tmp_path / "x.db", (("CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (0)"),))

    def count_up() -> None:
        for _ in range(100):
            with connection.write() as db:
                (value,) = db.execute("SELECT n FROM t").fetchone()
                db.execute("UPDATE t SET n = ?", (value + 1,))

    threads = [threading.Thread(target=count_up) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connection.read("SELECT n FROM t") == [(600,)]
    connection.close()


def test_a_failed_transaction_keeps_nothing_of_its_nested_parts(tmp_path: Path) -> None:
    connection = Connection(tmp_path / "x.db", (("CREATE TABLE t (n INTEGER)",),))

    def fail_after_writing() -> None:
        with connection.write() as db:
            with connection.write() as inner:
                inner.execute("INSERT INTO t VALUES (1)")
            db.execute("INSERT INTO t VALUES (?)", (1 // 0,))

    with pytest.raises(ZeroDivisionError):
        fail_after_writing()
    assert connection.read("SELECT n FROM t") == []
    connection.close()


def test_a_log_that_was_folded_in_by_half_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    row = store.ModelRow("a", "file:/x", ("/x",), 1, "", "gguf", "llama", 1, 1, "Q4_0", (), False, 1, 1)
    with store.open(path) as opened:
        opened.models.put(row)
        log = path.with_name("blazar.db-wal").read_bytes()
    # The disk was full after the first page, which says how many there are.
    os.truncate(path, 4096)
    path.with_name("blazar.db-wal").write_bytes(log)
    with store.open(path) as opened:
        assert opened.models.list() == (row,)


def test_a_file_that_lacks_its_end_and_has_no_log_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "blazar.db"
    store.open(path).close()
    os.truncate(path, 4096)
    with pytest.raises(StoreUnusable, match="damaged"):
        store.open(path)
