"""Wheels as carriers of files: what is inside comes out as RECORD says, and hostile ones are refused."""

import stat
import zipfile
from pathlib import Path

import pytest

from blazar.errors import DownloadFailed
from blazar.wheels.unpack import Wheel, unpack
from tests.support.wheels import make_wheel, record_hash


def rewrite(wheel: Path, change: dict[str, bytes | None]) -> None:
    """Replace files of the wheel without telling RECORD."""
    with zipfile.ZipFile(wheel) as old:
        inside: dict[str, bytes | None] = {name: old.read(name) for name in old.namelist()}
    inside.update(change)
    with zipfile.ZipFile(wheel, "w") as new:
        for name, data in inside.items():
            if data is not None:
                new.writestr(name, data)


def test_files_come_out_as_they_went_in(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9000
    wheel = make_wheel(tmp_path, "carrier", {"carrier/__init__.py": b"", "carrier/data/x.bin": data})
    unpacked = unpack(wheel, tmp_path / "out")
    assert (tmp_path / "out/carrier/data/x.bin").read_bytes() == data
    assert tmp_path / "out/carrier/__init__.py" in unpacked


def test_programs_stay_executable(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tool", {})
    info = zipfile.ZipInfo("tool/bin/run")
    info.external_attr = (stat.S_IFREG | 0o755) << 16
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr(info, b"#!/bin/sh\n")
        record = opened.read("tool-1.0.dist-info/RECORD").decode()
    rewritten = record + f"tool/bin/run,{record_hash(b'#!/bin/sh' + bytes([10]))},10\n"
    with zipfile.ZipFile(wheel) as opened:
        entries = [(i, opened.read(i)) for i in opened.infolist() if not i.filename.endswith("RECORD")]
    with zipfile.ZipFile(wheel, "w") as opened:
        for entry, data in entries:
            opened.writestr(entry, data)
        opened.writestr("tool-1.0.dist-info/RECORD", rewritten)
    unpack(wheel, tmp_path / "out")
    assert (tmp_path / "out/tool/bin/run").stat().st_mode & 0o111


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {"carrier/x.bin": b"as it was"})
    rewrite(wheel, {"carrier/x.bin": b"as it is!"})
    with pytest.raises(DownloadFailed, match=r"carrier/x\.bin does not have the hash"):
        unpack(wheel, tmp_path / "out")


def test_a_file_that_record_does_not_list_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {})
    rewrite(wheel, {"carrier/extra.bin": b"?"})
    with pytest.raises(DownloadFailed, match="RECORD has no SHA-256"):
        Wheel(wheel)


def test_a_weak_hash_in_record_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {})
    rewrite(wheel, {"carrier/x": b"", "carrier-1.0.dist-info/RECORD": b"carrier/x,md5=1B2M2Y8AsgTpgAmY7PhCfg,0\n"})
    with pytest.raises(DownloadFailed, match="RECORD has no SHA-256"):
        Wheel(wheel)


@pytest.mark.parametrize("path", ["../evil", "a/../../evil", "/etc/evil", "a\\..\\evil", "C:/evil"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    wheel = make_wheel(tmp_path, "carrier", {path: b"x"})
    with pytest.raises(DownloadFailed, match="leads out of the package"):
        unpack(wheel, tmp_path / "deep/er/out")
    assert not list(tmp_path.rglob("evil"))


def test_a_link_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {})
    link = zipfile.ZipInfo("carrier/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr(link, "/etc/passwd")
    with pytest.raises(DownloadFailed, match="link"):
        Wheel(wheel)


def test_the_same_path_twice_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {"carrier/x": b"1"})
    with zipfile.ZipFile(wheel, "a") as opened, pytest.warns(UserWarning, match="Duplicate"):
        opened.writestr("carrier/x", b"2")
    with pytest.raises(DownloadFailed, match="twice"):
        Wheel(wheel)


def test_a_torn_wheel_gives_a_sentence(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {"carrier/x.bin": bytes(100_000)})
    wheel.write_bytes(wheel.read_bytes()[:-30])
    with pytest.raises(DownloadFailed, match="damaged"):
        Wheel(wheel)


def test_a_zip_without_record_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "carrier", {})
    rewrite(wheel, {"carrier-1.0.dist-info/RECORD": None})
    with pytest.raises(DownloadFailed, match="no RECORD"):
        Wheel(wheel)


def test_requirements_are_the_plain_ones(tmp_path: Path) -> None:
    requires = ["part-one==1.0", "part-two (>=2)", 'dev-tool; extra == "dev"']
    with Wheel(make_wheel(tmp_path, "carrier", {}, requires=requires)) as wheel:
        assert wheel.requirements() == ("part-one==1.0", "part-two>=2")
