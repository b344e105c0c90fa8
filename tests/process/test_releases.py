"""Official builds from a list of releases of ours: the real code, archives that hold a program which answers."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from blazar import hardware, store
from blazar.config.paths import Paths
from blazar.config.schema import Config, Engine
from blazar.engines.install.keeper import Keeper
from blazar.engines.install.release import Asset, Release, pick
from blazar.engines.llamacpp import SHIM
from blazar.errors import Conflict, DownloadFailed
from blazar.hardware import Gpu
from blazar.store import Store
from tests.support.fleets import model
from tests.support.web import Web

SCRIPT = f'#!/bin/sh\nexec {sys.executable} -I {SHIM} "$@"\n'.encode()
HERE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def ignored(what: str) -> None:
    """Told of nothing."""


def archive(members: dict[str, bytes], edit: Callable[[tarfile.TarInfo], None] = lambda _: None) -> bytes:
    """A tar.gz of executable files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            edit(info)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


class Shop:
    """A list of releases."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self._releases: list[dict[str, object]] = []

    def release(self, tag: str, archives: dict[str, bytes], *, digests: bool = True) -> None:
        assets = []
        for name, data in archives.items():
            self.web.files[f"/download/{name}"] = data
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}" if digests else None
            url = f"{self.web.url}/download/{name}"
            assets.append({"name": name, "browser_download_url": url, "size": len(data), "digest": digest})
        told = {"tag_name": tag, "prerelease": True, "assets": assets}
        self._releases.insert(0, told)
        self.web.files["/releases"] = json.dumps(self._releases).encode()
        self.web.files[f"/releases/tags/{tag}"] = json.dumps(told).encode()


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as it:
        yield it


@pytest.fixture
def shop(web: Web) -> Shop:
    return Shop(web)


@pytest.fixture
def paths(home: Path) -> Paths:
    (home / "data").mkdir()
    return Paths(config=home / "config", data=home / "data")


@pytest.fixture
def rows(paths: Paths) -> Iterator[Store]:
    with store.open(paths.database) as opened:
        yield opened


@pytest.fixture
def keeper(paths: Paths, rows: Store, web: Web, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    monkeypatch.setattr(hardware, "gpus", tuple)
    return Keeper(Config(engine=Engine(llamacpp_releases=f"{web.url}/releases")), paths, rows.builds)


def name(tag: str, kind: str = "") -> str:
    return f"llama-{tag}-bin-ubuntu-{kind}{HERE}.tar.gz"


def engines(paths: Paths) -> list[str]:
    """Folders of builds, half-made ones too."""
    folder = paths.engines / "llamacpp"
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") if folder.exists() else []


def test_the_newest_with_builds_is_unpacked_tried_and_used(
    keeper: Keeper, shop: Shop, paths: Paths, tiny: Path
) -> None:
    files = {"llama-b1/llama-server": SCRIPT, "llama-b1/libx.so": b"x"}
    shop.release("b1", {name("b1"): archive(files)})
    shop.release("b2", {name("b2"): archive({f"llama-b2/{path[9:]}": data for path, data in files.items()})})
    shop.release("v1.0.0", {"nightly-tag.txt": b"b2"})
    before = keeper.builds()[0].tag
    outcome = keeper.add("", model("tiny", tiny), ignored, gate=False, channel="release")
    assert (outcome.tag, outcome.before) == ("b2", before)
    build = keeper.builds()[0]
    assert (build.channel, build.active) == ("release", True)
    assert Path(build.path) == paths.engines / "llamacpp/b2/llama-b2/llama-server"
    assert keeper.add("b1", None, ignored, gate=False).tag == "b1", "the channel of the one that is used"
    with pytest.raises(Conflict, match=r"b1 of llama\.cpp is installed already"):
        keeper.add("b1", None, ignored, gate=False)
    assert keeper.rollback().tag == "b2"
    assert keeper.remove("b1", {}).removed == ("b1",)
    assert engines(paths) == ["b2"]
    with pytest.raises(DownloadFailed, match="no such release"):
        keeper.add("b9", None, ignored, gate=False)


def test_a_fetch_that_was_stopped_goes_on(keeper: Keeper, shop: Shop, web: Web, paths: Paths) -> None:
    noise = hashlib.sha256(b"x").digest() * 20_000
    shop.release("b1", {name("b1"): archive({"llama-b1/llama-server": SCRIPT, "llama-b1/noise": noise})})

    def stop(what: str) -> None:
        if "%" in what and not what.endswith(" 0 %"):
            raise KeyboardInterrupt

    web.pause_s = 0.2
    with pytest.raises(KeyboardInterrupt):
        keeper.add("", None, stop, gate=False, channel="release")
    assert "b1" not in engines(paths)
    web.pause_s = 0
    keeper.add("", None, ignored, gate=False, channel="release")
    assert engines(paths) == ["b1"]


def escapes(info: tarfile.TarInfo) -> None:
    if info.name.endswith("link"):
        info.type, info.linkname, info.size = tarfile.SYMTYPE, "../../../../etc/passwd", 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (archive({"llama-b1/llama-server": SCRIPT, "../../outside": b"x"}), "cannot be unpacked"),
        (archive({"llama-b1/llama-server": SCRIPT, "/absolute-outside": b"x"}, lambda _: None), ""),
        (archive({"llama-b1/llama-server": SCRIPT, "llama-b1/link": b""}, escapes), "cannot be unpacked"),
        (archive({"llama-b1/llama-cli": SCRIPT}), "holds no llama-server"),
        (archive({"a/llama-server": SCRIPT, "b/llama-server": SCRIPT}), "holds 2 llama-server"),
        (archive({"llama-b1/llama-server": b"#!/bin/sh\nexit 3\n"}), "ended with code 3"),
        (archive({"llama-b1/llama-server": SCRIPT * 9})[:90], "cannot be unpacked"),
        (b"no archive", "cannot be unpacked"),
    ],
)
def test_a_bad_archive_leaves_nothing(keeper: Keeper, shop: Shop, paths: Paths, data: bytes, words: str) -> None:
    used = keeper.builds()[0].tag
    shop.release("b1", {name("b1"): data})
    if words:
        with pytest.raises(Exception, match=words):
            keeper.add("", None, ignored, gate=False, channel="release")
        assert [build.tag for build in keeper.builds()] == [used]
        assert [folder for folder in engines(paths) if not folder.startswith(".fetch-")] == []
    else:  # a path from the root is one in the folder
        keeper.add("", None, ignored, gate=False, channel="release")
    assert not list(paths.data.parent.rglob("outside"))
    assert not Path("/absolute-outside").exists()


def test_what_is_not_checked_is_not_run(keeper: Keeper, shop: Shop, web: Web) -> None:
    data = archive({"llama-b1/llama-server": SCRIPT})
    shop.release("b1", {name("b1"): data}, digests=False)
    with pytest.raises(DownloadFailed, match="gives no SHA-256"):
        keeper.add("", None, ignored, gate=False, channel="release")
    shop.release("b2", {name("b2"): data})
    web.files[f"/download/{name('b2')}"] = data[:-1] + b"?"
    with pytest.raises(DownloadFailed, match="thrown away"):
        keeper.add("", None, ignored, gate=False, channel="release")


ALL = [
    f"llama-b1-bin-{kind}.tar.gz"
    for kind in (
        "macos-arm64", "macos-x64", "ubuntu-x64", "ubuntu-arm64", "ubuntu-vulkan-x64", "ubuntu-vulkan-arm64",
        "ubuntu-cuda-12.8-x64", "ubuntu-cuda-13.4-x64", "ubuntu-cuda-13.4-arm64", "ubuntu-rocm-10.0-x64",
        "ubuntu-sycl-fp32-x64", "ubuntu-openvino-2026.1-x64", "android-arm64",
    )
] + [
    "cudart-llama-b1-bin-ubuntu-cuda-12.8-x64.tar.gz", "cudart-llama-b1-bin-ubuntu-cuda-13.4-x64.tar.gz",
    "llama-b1-bin-win-cpu-x64.zip", "llama-b1-xcframework.zip",
]  # fmt: skip


def gpu(vendor: str, driver: str = "") -> Gpu:
    return Gpu(vendor=vendor, index=0, name="GPU", id="0", total=1, free=1, driver=driver)


@pytest.mark.parametrize(
    ("system", "arch", "gpus", "chosen"),
    [
        ("Linux", "x86_64", [], ["ubuntu-x64"]),
        ("Linux", "AMD64", [], ["ubuntu-x64"]),
        ("Linux", "aarch64", [], ["ubuntu-arm64"]),
        ("Darwin", "arm64", [gpu("apple")], ["macos-arm64"]),
        ("Linux", "x86_64", [gpu("nvidia", "590.44")], ["ubuntu-cuda-13.4-x64", "cudart"]),
        ("Linux", "x86_64", [gpu("nvidia", "550.54.15")], ["ubuntu-cuda-12.8-x64", "cudart"]),
        ("Linux", "x86_64", [gpu("nvidia", "470.1")], ["ubuntu-vulkan-x64"]),
        ("Linux", "aarch64", [gpu("nvidia", "580.1")], ["ubuntu-cuda-13.4-arm64"]),
        ("Linux", "x86_64", [gpu("amd")], ["ubuntu-rocm-10.0-x64"]),
        ("Linux", "aarch64", [gpu("amd")], ["ubuntu-vulkan-arm64"]),
    ],
)
def test_the_right_archive_for_each_machine(system: str, arch: str, gpus: list[Gpu], chosen: list[str]) -> None:
    release = Release("b1", tuple(Asset(one, "") for one in ALL))
    found = [asset.name for asset in pick(release, system, arch, gpus)]
    assert found[0] == f"llama-b1-bin-{chosen[0]}.tar.gz"
    assert [one.startswith("cudart-") for one in found[1:]] == [True] * (len(chosen) - 1)


def test_a_machine_for_which_there_is_none_is_told_what_there_is() -> None:
    release = Release("b1", tuple(Asset(one, "") for one in ALL))
    with pytest.raises(DownloadFailed, match="no build for ubuntu on riscv64"):
        pick(release, "Linux", "riscv64", [])
    assert msgspec.json.decode(b'{"tag_name": "b1"}', type=Release).assets == ()
