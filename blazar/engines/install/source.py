"""llama.cpp compiled here from its source: for this very processor, and for its GPUs where their compiler is there.

Source of the options: the project's own build documentation and CMakeLists.txt. The server and the tools of one build
are linked into programs without libraries of their own.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from blazar import hardware
from blazar.engines.install import folders, pypi, release
from blazar.engines.install.channels import RECORD, Record
from blazar.engines.install.child import Failed, Tell, run
from blazar.errors import BadRequest, DownloadFailed, ToolFailed
from blazar.models import lock
from blazar.models.files import ensure_room
from blazar.models.transfer import download

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.engines.base import Build
    from blazar.hardware import Gpu
    from blazar.models.progress import Progress
    from blazar.store.builds import BuildRows

TARGETS = ("llama-server", "llama-quantize", "llama-perplexity")
_ALWAYS = (
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_UI=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    # It speaks to us alone, over a socket.
    "LLAMA_OPENSSL=OFF",
)
# By the vendor of a GPU: a compiler that must be there, and the option that it is for; the best first.
_COMPILERS = {
    "nvidia": (("nvcc", "GGML_CUDA=ON"), ("glslc", "GGML_VULKAN=ON")),
    "amd": (("hipcc", "GGML_HIP=ON"), ("glslc", "GGML_VULKAN=ON")),
}
_ALSO_IN = ("/usr/local/cuda/bin", "/opt/rocm/bin")
_KEPT_VARIABLES = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS"}
)
_KEPT_PREFIXES = ("CMAKE_", "CUDA", "NVCC", "HIP", "ROCM", "VULKAN", "MACOSX_")
_OURS = re.compile(r'project\(\s*"?llama\.cpp"?', re.IGNORECASE)
_TAG = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_OPTION = re.compile(r"[A-Za-z_]\w*(?::[A-Z]+)?=.*")
_RELEASE = re.compile(r"b\d+")
_ARCHIVES = (".tar.gz", ".tgz")
# As ninja and make say it.
_STEP = re.compile(r"\[\s*(?:(\d+)/(\d+)|(\d+)%)\]")
_ROOM = 2 << 30
_MEMORY_EACH = 1536 << 20


class Wanted(msgspec.Struct, frozen=True):
    """``source`` is a folder, an archive (a file or an address), a release's tag, or empty for the newest release.
    ``tag`` is the build's name, else it has its source's. ``options`` are CMake's, as in ``GGML_CUDA=ON``.
    """

    source: str = ""
    tag: str = ""
    options: tuple[str, ...] = ()


def install(
    paths: Paths, rows: BuildRows, tell: Tell, *, wanted: Wanted, index: str, pip_args: Sequence[str] = ()
) -> Build:
    """Compile a build; it is not used yet. An exception out of ``tell`` ends the work, and the next call goes on with
    it. CMake and Ninja come as wheels where they are not there.

    Raises BadRequest for what is no source of llama.cpp; ToolFailed with the compiler's last words; ConfigError when
    the build does not answer; Conflict when there is one of that tag; DownloadFailed, InsufficientStorage.
    """
    for option in wanted.options:
        if not _OPTION.fullmatch(option):
            raise BadRequest(f"'{option}' is no option of CMake; they look like GGML_CUDA=ON.", param="options")
    asked, address = _asked(wanted.source, index, tell)
    tag = wanted.tag or f"source-{asked}"
    if not _TAG.fullmatch(tag):
        raise BadRequest(f"'{tag}' is no name for a build: letters, digits, and - . _ + between them.", param="tag")
    folders.ensure_new(paths, tag)
    work = folders.workshop(paths, tag)
    with lock.held(work.with_suffix(".lock"), lambda pid: tell(f"for process {pid} to compile {tag}")):
        _begin(work, wanted.source if address is None else address)
        ensure_room(work, _ROOM, f"Compiling {tag}")
        tree = _tree(wanted.source if address is None else address, work, tell)
        programs = _compile(tree, work, tag, wanted.options, tell, pip_args)
        with folders.growing(paths) as beside:
            for program in programs:
                shutil.copy2(program, beside / program.name)
            record = Record(tag=tag, program=TARGETS[0], channel="source")
            (beside / RECORD).write_bytes(msgspec.json.encode(record))
            build = folders.settle(paths, rows, beside, tag)
        shutil.rmtree(work, ignore_errors=True)
    return build


def _begin(work: Path, source: str) -> None:
    """The workshop, empty unless the same source was worked on there before."""
    path, noted = Path(source), work / "origin"
    stat = path.stat() if path.is_file() else None
    origin = f"{source} {stat.st_size} {stat.st_mtime_ns}" if stat is not None else source
    if not noted.is_file() or noted.read_text() != origin:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        noted.write_text(origin)


def gpu_options(gpus: Iterable[Gpu], compilers: Mapping[str, str | None]) -> tuple[str, ...]:
    """CMake's options for these GPUs; ``compilers`` says where each compiler is, or ``None``."""
    for vendor in {gpu.vendor: None for gpu in gpus}:
        for compiler, option in _COMPILERS.get(vendor, ()):
            if compilers.get(compiler):
                return (option,)
    return ()


def _asked(source: str, index: str, tell: Tell) -> tuple[str, str | None]:
    """What the source is called, and its address where it has to be fetched."""
    if source.startswith(("https://", "http://")):
        return _stem(Path(urlsplit(source).path).name), source
    if source and not _RELEASE.fullmatch(source):
        path = Path(source)
        if not path.is_absolute():
            raise BadRequest(f"'{source}' is neither a whole path, nor an address, nor a release.", param="source")
        if not path.exists():
            raise BadRequest(f"There is nothing at {source}.", param="source")
        return _stem(path.name), None
    tell(f"the list of releases{f' ({source})' if source else ''}")
    found = release.find(index, source)
    if not found.tarball_url:
        raise DownloadFailed(f"The source of llama.cpp {found.tag_name}", "the list of releases says nothing of it")
    return found.tag_name, found.tarball_url


def _stem(name: str) -> str:
    for ending in _ARCHIVES:
        name = name.removesuffix(ending)
    return re.sub(r"[^\w.+-]", "-", name).lstrip("-.") or "unnamed"


def _tree(source: str, work: Path, tell: Tell) -> Path:
    """The folder of llama.cpp's own CMakeLists.txt. A folder of the user's is read and never written."""
    if Path(source).is_dir():
        return _found(Path(source), source)
    inside = work / "source"
    if not inside.is_dir():
        archive = Path(source)
        if source.startswith(("https://", "http://")):

            def listener(step: Progress) -> None:
                tell("the source" if not step.total else f"the source, {100 * step.done // step.total} %")

            archive = download(source, work / "fetch", "source.tar.gz", listener).path
        tell("the source")
        half = work / "half"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        release.extract(archive, half)
        half.rename(inside)
    return _found(inside, source)


def _found(folder: Path, source: str) -> Path:
    for path in (folder, *_below(folder, 3)):
        try:
            head = (path / "CMakeLists.txt").read_text(errors="replace")[:4000]
        except OSError:
            continue
        if _OURS.search(head):
            return path
    raise BadRequest(f"{source} does not hold the source of llama.cpp.", param="source")


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """The folders in it, the near ones first."""
    level = [folder]
    for _ in range(depth):
        level = [
            path for parent in level for path in sorted(parent.iterdir()) if path.is_dir() and not path.is_symlink()
        ]
        yield from level


def _compile(
    tree: Path, work: Path, tag: str, options: Sequence[str], tell: Tell, pip_args: Sequence[str]
) -> tuple[Path, ...]:
    """The programs, compiled and linked."""
    cmake, ninja = _tools(work, tell, pip_args)
    env = {
        name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
    search = env["PATH"] = os.pathsep.join([env.get("PATH", os.defpath), *_ALSO_IN])
    compilers = {name: shutil.which(name, path=search) for pairs in _COMPILERS.values() for name, _ in pairs}
    chosen = [*_ALWAYS, *gpu_options(hardware.gpus(), compilers), *options]
    out = work / "out"
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    # Those of the user come last, and so they win.
    configure = [cmake, "-S", str(tree), "-B", str(out), *generator, *(f"-D{option}" for option in chosen)]
    jobs = max(1, min(hardware.usable_cores(), hardware.available_memory() // _MEMORY_EACH))
    build = [cmake, "--build", str(out), "--parallel", str(jobs), "--target", *TARGETS]
    _forget(work, out, configure)
    try:
        run("cmake", configure, tell, f"{tag}: looking at this machine", env=env)
        run("the compiler", build, tell, lambda said: f"{tag}: {_percent(said)} compiled", env=env)
    except Failed as failed:
        raise ToolFailed(f"{tag} cannot be compiled here: {failed}") from failed
    return tuple(out / "bin" / target for target in TARGETS)


def _forget(work: Path, out: Path, configure: Sequence[str]) -> None:
    """What was compiled with other options goes: CMake remembers each that it was ever given."""
    noted, now = work / "configured", "\n".join(configure)
    if not noted.exists() or noted.read_text() != now:
        shutil.rmtree(out, ignore_errors=True)
        noted.write_text(now)


def _tools(work: Path, tell: Tell, pip_args: Sequence[str]) -> tuple[str, str]:
    """CMake and Ninja: those of this machine, else as wheels beside the work."""
    cmake, ninja = shutil.which("cmake"), shutil.which("ninja")
    if cmake is not None:
        return cmake, ninja or ""
    home = work / "tools"
    if not (home / "bin" / "ninja").exists():
        shutil.rmtree(home, ignore_errors=True)
        pypi.environment(home, ["cmake", "ninja"], tell, pip_args)
    return str(home / "bin" / "cmake"), str(home / "bin" / "ninja")


def _percent(said: str) -> str:
    """How far ninja or make says that it is."""
    steps = _STEP.findall(said)
    if not steps:
        return "0 %"
    done, total, percent = steps[-1]
    return f"{percent or 100 * int(done) // max(1, int(total))} %"
