"""Official builds of llama.cpp from the project's own releases: the right archive for this machine, its hash checked,
unpacked side by side with the others.

Source of the names: the project's releases. A build is ``llama-TAG-bin-OS[-ACCELERATOR[-VERSION]]-ARCH.tar.gz``; one
for CUDA has its runtime in a second archive, which belongs beside it. The index gives a SHA-256 for each.
"""

from __future__ import annotations

import gzip
import platform
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from blazar import hardware
from blazar.engines.base import Build
from blazar.engines.install import folders
from blazar.engines.install.channels import RECORD, Record
from blazar.errors import DownloadFailed
from blazar.models import lock, web
from blazar.models.files import ensure_room, full_disk_told
from blazar.models.progress import Progress
from blazar.models.transfer import download

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.hardware import Gpu
    from blazar.store.builds import BuildRows

_NAME = re.compile(
    r"(?P<runtime>cudart-)?llama-(?P<tag>[^-]+)-bin-(?P<os>ubuntu|macos)"
    r"(?:-(?P<accelerator>[a-z]+)(?:-(?P<version>[\d.]+))?)?-(?P<arch>x64|arm64|s390x)\.tar\.gz"
)
_SYSTEMS = {"Linux": "ubuntu", "Darwin": "macos"}
_ARCHES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64", "s390x": "s390x"}
# By the vendor of the GPU, the best first; the last is for the processor alone.
_ACCELERATORS = {"nvidia": ("cuda", "vulkan", ""), "amd": ("rocm", "vulkan", "")}
# The driver from which on a CUDA of this major version runs.
_DRIVERS = {12: 525, 13: 580}
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_LOOK_AT = 20
_LARGEST = 16 << 30
_PROGRAM = "llama-server"


class Asset(msgspec.Struct, frozen=True):
    """One archive of a release; ``digest`` is ``sha256:…``."""

    name: str
    browser_download_url: str
    size: int = 0
    digest: str | None = None


class Release(msgspec.Struct, frozen=True):
    """One release with its archives; ``tarball_url`` is the address of its source."""

    tag_name: str
    assets: tuple[Asset, ...] = ()
    tarball_url: str = ""


def install(paths: Paths, rows: BuildRows, tell: Callable[[str], None], *, index: str, version: str = "") -> Build:
    """Fetch a build for this machine; ``version`` is a tag such as ``b11434``, empty means the newest. It is not used
    yet. An exception out of ``tell`` ends it, and what came is gone on with.

    Raises DownloadFailed, InsufficientStorage; Conflict when that build is there already, ConfigError when it does not
    answer.
    """
    tell(f"the list of releases{f' ({version})' if version else ''}")
    release = find(index, version)
    chosen = pick(release, platform.system(), platform.machine(), hardware.gpus())
    tag = _tag(chosen[0])
    folders.ensure_new(paths, tag)
    shelf = folders.home(paths) / f".fetch-{tag}"
    with lock.held(shelf.with_suffix(".lock"), lambda pid: tell(f"for process {pid} to fetch {tag}")):
        archives = [_fetch(asset, shelf, tell) for asset in chosen]
        with folders.growing(paths) as beside:
            _unpack(archives, beside, tag)
            build = folders.settle(paths, rows, beside, tag)
        shutil.rmtree(shelf, ignore_errors=True)
    return build


def pick(release: Release, system: str, arch: str, gpus: Iterable[Gpu]) -> tuple[Asset, ...]:
    """The archives for this machine, the build first. Raises DownloadFailed with the names that there are."""
    wanted_os, wanted_arch = _SYSTEMS.get(system, system), _ARCHES.get(arch.lower(), arch)
    fitting: dict[str, list[tuple[tuple[int, ...], Asset]]] = {}
    runtimes: dict[str, Asset] = {}
    cards = list(gpus)
    for asset in release.assets:
        found = _NAME.fullmatch(asset.name)
        if found is None or (found["os"], found["arch"]) != (wanted_os, wanted_arch):
            continue
        version = tuple(map(int, (found["version"] or "0").split(".")))
        if found["runtime"]:
            runtimes[asset.name.removeprefix("cudart-")] = asset
        elif found["accelerator"] != "cuda" or _runs(version, cards):
            fitting.setdefault(found["accelerator"] or "", []).append((version, asset))
    order = next((_ACCELERATORS[gpu.vendor] for gpu in cards if gpu.vendor in _ACCELERATORS), ("",))
    for accelerator in order:
        if accelerator in fitting:
            best = max(fitting[accelerator], key=lambda pair: pair[0])[1]
            return (best, runtimes[best.name]) if best.name in runtimes else (best,)
    there = ", ".join(asset.name for asset in release.assets[:8]) or "nothing"
    raise DownloadFailed(
        f"llama.cpp {release.tag_name}", f"it has no build for {wanted_os} on {wanted_arch} (there is {there})"
    )


def _runs(version: tuple[int, ...], gpus: Sequence[Gpu]) -> bool:
    """Some NVIDIA driver here is new enough; one that does not say how new it is counts as that."""
    needs = _DRIVERS.get(version[0])
    drivers = [gpu.driver.partition(".")[0] for gpu in gpus if gpu.vendor == "nvidia"]
    return needs is not None and any(not driver.isdigit() or int(driver) >= needs for driver in drivers)


def find(index: str, version: str) -> Release:
    """The release ``version`` of the list at ``index``, or its newest that holds builds. Raises DownloadFailed."""
    index = index.rstrip("/")
    if version:
        try:
            found: Release = web.json(f"{index}/tags/{version}", Release)
        except DownloadFailed as failed:
            if failed.answered == 404:
                raise DownloadFailed(f"llama.cpp {version}", "there is no such release", 404) from failed
            raise
        return found
    recent: list[Release] = web.json(f"{index}?per_page={_LOOK_AT}", list[Release])
    # Releases of another kind hold no builds.
    built = [release for release in recent if any(_NAME.fullmatch(asset.name) for asset in release.assets)]
    if not built:
        raise DownloadFailed("llama.cpp", "none of its last releases holds a build")
    return built[0]


def _tag(asset: Asset) -> str:
    found = _NAME.fullmatch(asset.name)
    assert found is not None
    return "-".join(word for word in (found["tag"], found["accelerator"], found["version"]) if word)


def _fetch(asset: Asset, shelf: Path, tell: Callable[[str], None]) -> Path:
    digest = _DIGEST.fullmatch(asset.digest or "")
    if digest is None:
        raise DownloadFailed(asset.name, "the index gives no SHA-256 for it, and what is not checked is not run")

    def listener(step: Progress) -> None:
        tell(asset.name if not step.total else f"{asset.name}, {100 * step.done // step.total} %")

    return download(asset.browser_download_url, shelf, asset.name, listener, sha256=digest[1]).path


def _unpack(archives: Sequence[Path], beside: Path, tag: str) -> None:
    """All archives into one folder. Nothing leads out of it."""
    with full_disk_told(beside, tag, lambda: 0):
        for archive in archives:
            extract(archive, beside)
        programs = [path for path in beside.rglob(_PROGRAM) if path.is_file() and not path.is_symlink()]
        if len(programs) != 1:
            raise DownloadFailed(archives[0].name, f"it holds {len(programs) or 'no'} {_PROGRAM}")
        folder = programs[0].parent
        for other in beside.rglob("*"):  # the runtime's own folder: its libraries belong beside the program
            if ".so" in other.name and other.parent != folder and not (folder / other.name).exists():
                other.rename(folder / other.name)
        record = Record(tag=tag, program=str(programs[0].relative_to(beside)))
        (beside / RECORD).write_bytes(msgspec.json.encode(record))


def extract(archive: Path, into: Path) -> None:
    """Unpack a ``.tar.gz``, following nothing out of ``into``. Raises DownloadFailed, InsufficientStorage."""
    if not hasattr(tarfile, "data_filter"):
        raise DownloadFailed(archive.name, "this Python cannot unpack it safely; 3.11.4 and newer can")
    try:
        with tarfile.open(archive, "r:gz") as tar:
            size = sum(member.size for member in tar)
            if size > _LARGEST:
                raise DownloadFailed(archive.name, f"it would unpack to {size} bytes")
            ensure_room(into, size, archive.name)
            tar.extractall(into, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise DownloadFailed(archive.name, f"it cannot be unpacked ({error})") from error
