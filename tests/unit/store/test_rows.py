"""The table families: what is put comes back."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from blazar import store
from blazar.errors import NotFound
from blazar.store import BuildRow, MeasureRow, ModelRow, Store

MODEL = ModelRow(
    name="Tiny:q4_0",
    source="file:/tiny.gguf",
    files=("a/1.gguf", "a/2.gguf"),
    size=12,
    digest="sha256:" + "0" * 64,
    format="gguf",
    architecture="llama",
    parameters=7_000_000_000_000,
    context_length=4096,
    quantization="Q4_0",
    capabilities=("completion", "tools"),
    owned=True,
    added_ns=1_700_000_000_000_000_000,
    modified_ns=1_700_000_000_000_000_001,
)
BUILD = BuildRow("llamacpp", "b1", "pypi", "/x", "1.0", ("--port", "--host"), ("CUDA",), "f", active=True, added_ns=1)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Store]:
    with store.open(tmp_path / "blazar.db") as it:
        yield it


def test_a_model_comes_back_as_it_was_put_under_its_name_in_any_case(opened: Store) -> None:
    opened.models.put(MODEL)
    assert opened.models.get("tINY:Q4_0") == MODEL
    assert opened.models.list() == (MODEL,)
    assert opened.models.get("tiny") is None


def test_putting_a_name_again_replaces_it_and_keeps_its_measures(opened: Store) -> None:
    opened.models.put(MODEL)
    measure = MeasureRow("Tiny:q4_0", "llamacpp", "b1", 8192, 4, 1_000, 0.5, 9, 33, 500)
    assert opened.measures.put(measure)
    renewed = msgspec.structs.replace(MODEL, name="TINY:Q4_0", files=("b.gguf",))
    opened.models.put(renewed)
    assert opened.models.list() == (renewed,)
    assert opened.measures.get("tiny:q4_0", "llamacpp", "b1") == msgspec.structs.replace(measure, model="TINY:Q4_0")


def test_a_deleted_model_takes_files_and_measures_along(opened: Store) -> None:
    opened.models.put(MODEL)
    opened.measures.put(MeasureRow("Tiny:q4_0", "llamacpp", "b1", 8192, 4, 1_000, 0.5, 9, 33, 500))
    assert opened.models.users_of("a/2.gguf") == ("Tiny:q4_0",)
    assert opened.models.delete("tiny:q4_0")
    assert not opened.models.delete("tiny:q4_0")
    assert opened.models.users_of("a/2.gguf") == ()
    opened.models.put(MODEL)
    assert opened.measures.get("Tiny:q4_0", "llamacpp", "b1") is None


def test_a_measure_of_an_unknown_model_is_not_kept(opened: Store) -> None:
    assert not opened.measures.put(MeasureRow("nobody", "llamacpp", "b1", 8192, 4, 1_000, 0.5, 9, 33, 500))


def test_the_latest_measure_counts(opened: Store) -> None:
    opened.models.put(MODEL)
    for resident in (1_000, 2_000):
        opened.measures.put(MeasureRow("Tiny:q4_0", "llamacpp", "b1", 8192, 4, resident, 0.5, 9))
    found = opened.measures.get("Tiny:q4_0", "llamacpp", "b1")
    assert found is not None
    assert found.resident_bytes == 2_000


def test_one_build_of_a_kind_is_active(opened: Store) -> None:
    other = msgspec.structs.replace(BUILD, tag="b2", added_ns=2)
    opened.builds.put(BUILD)
    opened.builds.put(other)
    opened.builds.put(msgspec.structs.replace(BUILD, kind="mlx"))
    assert opened.builds.active("llamacpp") == other
    opened.builds.activate("llamacpp", "b1", 1)
    assert opened.builds.active("llamacpp") == msgspec.structs.replace(BUILD, used_ns=1)
    assert [b.active for b in opened.builds.list("llamacpp")] == [False, True]
    assert opened.builds.active("mlx") is not None
    assert len(opened.builds.list()) == 3


def test_activating_a_build_that_is_not_there_changes_nothing(opened: Store) -> None:
    opened.builds.put(BUILD)
    with pytest.raises(NotFound):
        opened.builds.activate("llamacpp", "b9", 1)
    assert opened.builds.active("llamacpp") == BUILD
    assert opened.builds.delete("llamacpp", "b1")
    assert opened.builds.get("llamacpp", "b1") is None


def test_writes_in_one_transaction_are_kept_together_or_not_at_all(opened: Store) -> None:
    def fail_after_writing() -> None:
        with opened.transaction():
            opened.models.put(MODEL)
            opened.builds.put(BUILD)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_writing()
    assert opened.models.list() == ()
    assert opened.builds.list() == ()
