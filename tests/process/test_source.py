"""Builds compiled from source: CMake and a compiler for real, on a source that is done in a second."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from blazar import hardware, store
from blazar.config.paths import Paths
from blazar.config.schema import Config, Engine
from blazar.engines.install import folders
from blazar.engines.install.keeper import Keeper
from blazar.engines.install.source import Wanted, gpu_options
from blazar.errors import BadRequest, Conflict, DownloadFailed, ToolFailed
from blazar.hardware import Gpu
from tests.support.fleets import model
from tests.support.sources import source_tree
from tests.support.web import Web


def ignored(what: str) -> None:
    """Told of nothing."""


@pytest.fixture
def paths(home: Path) -> Paths:
    (home / "data").mkdir()
    return Paths(config=home / "config", data=home / "data")


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as it:
        yield it


@pytest.fixture
def keeper(paths: Paths, web: Web, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    monkeypatch.setattr(hardware, "gpus", tuple)
    with store.open(paths.database) as rows:
        yield Keeper(Config(engine=Engine(llamacpp_releases=f"{web.url}/releases")), paths, rows.builds)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return source_tree(tmp_path / "llama.cpp")


def build(keeper: Keeper, source: object = "", *, tag: str = "", options: tuple[str, ...] = ()) -> str:
    """Compile and use; the tag of what is used then."""
    return keeper.add("", None, ignored, gate=False, wanted=Wanted(str(source), tag, options)).tag


def packed(tree: Path, top: str) -> bytes:
    """As an archive with one folder in it."""
    path = tree.parent / f"{top}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tree, arcname=top)
    return path.read_bytes()


def inside(paths: Paths) -> list[str]:
    return sorted(path.name for path in (paths.engines / "llamacpp").iterdir())


def test_a_folder_is_compiled_tried_and_used(keeper: Keeper, tree: Path, paths: Paths, tiny: Path) -> None:
    before, told = keeper.builds()[0].tag, list[str]()
    wanted = Wanted(str(tree), "mine", ("CMAKE_C_FLAGS=-O0",))
    outcome = keeper.add("", model("tiny", tiny), told.append, gate=False, wanted=wanted)
    assert (outcome.tag, outcome.before) == ("mine", before)
    assert told[-1] == "mine with tiny"
    used = keeper.builds()[0]
    assert (used.tag, used.channel, used.active) == ("mine", "source", True)
    assert {"llama-server", "llama-quantize", "llama-perplexity"} <= {
        one.name for one in Path(used.path).parent.iterdir()
    }
    assert sorted(path.name for path in tree.iterdir()) == ["CMakeLists.txt", "main.c"], "a user's folder is read only"
    assert inside(paths) == ["mine"]
    with pytest.raises(Conflict, match=r"mine of llama\.cpp is installed already"):
        build(keeper, tree, tag="mine")
    assert keeper.rollback().tag == before
    assert keeper.builds()[0].tag == before, "what is compiled here is used when it was asked for"
    assert keeper.remove("mine", {}).removed == ("mine",)
    assert inside(paths) == []


def test_an_archive_an_address_a_release(keeper: Keeper, tree: Path, paths: Paths, web: Web) -> None:
    data = packed(tree, "llama.cpp-b7")
    assert build(keeper, tree.parent / "llama.cpp-b7.tar.gz") == "source-llama.cpp-b7"
    web.files["/far/b8.tar.gz"] = web.files["/source/b9"] = data
    assert build(keeper, f"{web.url}/far/b8.tar.gz") == "source-b8"
    told = {"tag_name": "b9", "assets": [], "tarball_url": f"{web.url}/source/b9"}
    web.files["/releases/tags/b9"] = json.dumps(told).encode()
    assert build(keeper, "b9") == "source-b9"
    told["tarball_url"] = ""
    web.files["/releases/tags/b9"] = json.dumps(told).encode()
    with pytest.raises(DownloadFailed, match="says nothing of it"):
        build(keeper, "b9", tag="again")
    assert inside(paths) == ["source-b8", "source-b9", "source-llama.cpp-b7"]


def test_what_does_not_compile_says_why_and_can_be_gone_on_with(keeper: Keeper, tree: Path, paths: Paths) -> None:
    used, text = keeper.builds()[0].tag, (tree / "main.c").read_text()
    (tree / "main.c").write_text(text.replace("return execv", "return nonsense"))
    with pytest.raises(ToolFailed, match=r"source-llama\.cpp cannot be compiled here: the compiler ended with code"):
        build(keeper, tree, options=("CMAKE_C_FLAGS=-Werror",))
    assert keeper.builds()[0].tag == used
    assert inside(paths) == [".build-source-llama.cpp"]
    (tree / "main.c").write_text(text)
    assert build(keeper, tree) == "source-llama.cpp"
    assert inside(paths) == ["source-llama.cpp"]


def test_an_archive_that_was_mended_is_unpacked_anew(keeper: Keeper, tree: Path, paths: Paths) -> None:
    text, archive = (tree / "main.c").read_text(), tree.parent / "llama.tar.gz"
    (tree / "main.c").write_text("no program")
    packed(tree, "llama")
    with pytest.raises(ToolFailed):
        build(keeper, archive)
    (tree / "main.c").write_text(text)
    packed(tree, "llama")
    assert build(keeper, archive) == "source-llama"


def test_what_was_compiled_stays_when_its_trial_is_broken_off(keeper: Keeper, tree: Path, tiny: Path) -> None:
    def stop(what: str) -> None:
        if " with tiny" in what:
            raise KeyboardInterrupt

    used = keeper.builds()[0].tag
    with pytest.raises(KeyboardInterrupt):
        keeper.add("", model("tiny", tiny), stop, gate=True, wanted=Wanted(str(tree)))
    assert [build.tag for build in keeper.builds()] == [used, "source-llama.cpp"]


def test_what_was_broken_off_is_swept_and_what_is_worked_on_is_not(keeper: Keeper, tree: Path, paths: Paths) -> None:
    kept = list[tuple[str, ...]]()

    def stop(what: str) -> None:
        if "looking at this machine" in what:
            kept.append(keeper.prune({}).removed)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keeper.add("", None, stop, gate=False, wanted=Wanted(str(tree)))
    assert kept == [()]
    assert inside(paths) == [".build-source-llama.cpp"]
    assert keeper.prune({}).removed == (".build-source-llama.cpp",)
    assert inside(paths) == []


def test_a_compiler_dies_with_who_waits_for_it(tree: Path, home: Path) -> None:
    """Whatever ends that: nobody is left to end the compiler by hand."""
    (tree / "CMakeLists.txt").write_text((tree / "CMakeLists.txt").read_text() + "execute_process(COMMAND sleep 987)\n")
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from blazar import store\n"
        "from blazar.config.paths import Paths\n"
        "from blazar.engines.install import source\n"
        "home = Path(sys.argv[1])\n"
        "paths = Paths(config=home / 'config', data=home / 'data')\n"
        "rows = store.open(paths.database).builds\n"
        "tell = lambda what: print(what, flush=True)\n"
        "source.install(paths, rows, tell, wanted=source.Wanted(sys.argv[2]), index='')\n"
    )
    (home / "data").mkdir()
    waiting = subprocess.Popen([sys.executable, "-c", script, str(home), str(tree)], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    with waiting:
        while "looking at this machine" not in waiting.stdout.readline():
            assert waiting.poll() is None
        until = time.monotonic() + 60
        while not _sleepers() and time.monotonic() < until:
            time.sleep(0.05)
        assert _sleepers()
        waiting.kill()
    until = time.monotonic() + 30
    while _sleepers() and time.monotonic() < until:
        time.sleep(0.05)
    assert _sleepers() == []


def _sleepers() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == b"sleep\x00987\x00":
                found.append(int(path.parent.name))
    return found


def test_what_is_no_source_is_said(keeper: Keeper, tree: Path, tmp_path: Path, paths: Paths) -> None:
    other = tmp_path / "other"
    shutil.copytree(tree, other / "deep")
    (other / "deep/CMakeLists.txt").write_text("project(something)")
    (tmp_path / "not.tar.gz").write_bytes(b"no archive")
    for wanted, words in [
        (Wanted(str(other)), "does not hold the source"),
        (Wanted("relative/folder"), "neither a whole path"),
        (Wanted(str(tmp_path / "nowhere")), "There is nothing at"),
        (Wanted(str(tree), "../out"), "no name for a build"),
        (Wanted(str(tree), ".hidden"), "no name for a build"),
        (Wanted(str(tree), "", ("--graphviz=x",)), "no option of CMake"),
    ]:
        with pytest.raises(BadRequest, match=words):
            keeper.add("", None, ignored, gate=False, wanted=wanted)
    with pytest.raises(DownloadFailed, match="cannot be unpacked"):
        build(keeper, tmp_path / "not.tar.gz")
    assert [name for name in inside(paths) if not name.startswith(".build-")] == []
    assert not folders.owned(paths, "../out")


def gpu(vendor: str) -> Gpu:
    return Gpu(vendor=vendor, index=0, name="GPU", id="0", total=1, free=1)


@pytest.mark.parametrize(
    ("vendors", "compilers", "chosen"),
    [
        ((), ("nvcc", "hipcc"), ()),
        (("nvidia",), ("nvcc", "glslc"), ("GGML_CUDA=ON",)),
        (("nvidia",), ("glslc",), ("GGML_VULKAN=ON",)),
        (("amd", "amd"), ("nvcc", "hipcc"), ("GGML_HIP=ON",)),
        (("amd",), (), ()),
        (("intel", "nvidia"), ("nvcc",), ("GGML_CUDA=ON",)),
    ],
)
def test_the_gpu_s_compiler_where_it_is_there(
    vendors: tuple[str, ...], compilers: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    there = {name: f"/usr/bin/{name}" for name in compilers}
    assert gpu_options([gpu(vendor) for vendor in vendors], there) == chosen
