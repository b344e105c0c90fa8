from __future__ import annotations

from pathlib import Path

from blazar.hardware import memory

GIB = 1 << 30
MEMINFO = """MemTotal:       16384000 kB
MemFree:         1000000 kB
MemAvailable:    8192000 kB
Buffers:          200000 kB
Cached:          6000000 kB
SwapFree:        2048000 kB
HugePages_Total:       0
"""


def lay(root: Path, files: dict[str, str]) -> Path:
    """A recorded ``/proc`` and ``/sys``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_limits_the_kernel_says_it_all(tmp_path: Path) -> None:
    found = memory.probe(lay(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/user.slice\n"}))
    assert found == memory.Memory(total=16384000 * 1024, available=8192000 * 1024, swap=2048000 * 1024, limited=False)


def test_an_old_kernel_gives_no_estimate(tmp_path: Path) -> None:
    text = "".join(line for line in MEMINFO.splitlines(keepends=True) if "Available" not in line)
    assert memory.available(lay(tmp_path, {"proc/meminfo": text})) == (1000000 + 200000 + 6000000) * 1024


def test_a_container_of_version_two_has_its_limit(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}\nactive_file 5\n",
        },
    )
    assert memory.probe(root) == memory.Memory(total=4 * GIB, available=3 * GIB, swap=2048000 * 1024, limited=True)


def test_the_tightest_of_nested_groups_holds(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/a.slice/b.service\n",
            "sys/fs/cgroup/a.slice/b.service/memory.max": "max\n",
            "sys/fs/cgroup/a.slice/b.service/memory.current": "1\n",
            "sys/fs/cgroup/a.slice/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/a.slice/memory.current": f"{GIB}\n",
        },
    )
    found = memory.probe(root)
    assert (found.total, found.available, found.limited) == (2 * GIB, GIB, True)


def test_a_container_of_version_one_sees_the_hosts_path(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB // 2}\n",
            "sys/fs/cgroup/memory/memory.stat": f"cache 7\ntotal_inactive_file {GIB // 4}\n",
        },
    )
    found = memory.probe(root)
    assert (found.total, found.available) == (GIB, GIB * 3 // 4)


def test_version_one_writes_no_limit_as_a_huge_one(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
        },
    )
    assert not memory.probe(root).limited


def test_a_group_over_its_limit_has_nothing_free(tmp_path: Path) -> None:
    root = lay(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "1000\n",
            "sys/fs/cgroup/memory.current": "2000\n",
        },
    )
    assert memory.available(root) == 0


def test_nothing_to_read_is_no_error(tmp_path: Path) -> None:
    assert memory.probe(tmp_path) == memory.Memory(total=0, available=0, swap=0, limited=False)


def test_this_machine_has_memory() -> None:
    found = memory.probe()
    assert 0 < found.available <= found.total
