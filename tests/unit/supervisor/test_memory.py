"""What a model is planned to take, by its header where there is one."""

from __future__ import annotations

from pathlib import Path

from blazar import hardware
from blazar.engines.base import Settings
from blazar.memory.footprint import Pieces, footprint
from blazar.models import header
from blazar.supervisor.memory import HostMemory
from tests.support import tiny_model
from tests.support.fleets import Files, model

SETTINGS = Settings(context=2048, slots=4, threads=2, cache_type="q8_0")


def test_a_model_takes_what_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_model.write(path)
    memory = HostMemory(Files().header)
    expected = footprint(header.read(path), 2048, 4, "q8_0").total
    assert memory.pieces(model("tiny", path), SETTINGS).host == expected
    assert expected > path.stat().st_size


def test_a_file_without_a_readable_header_is_planned_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(b"no model")
    assert HostMemory(Files().header).pieces(model("odd", path, size=1000), SETTINGS) == Pieces(host=1100)


def test_no_more_is_available_than_there_is() -> None:
    memory = HostMemory(Files().header)
    assert 0 < memory.available() <= memory.total()
    assert memory.total() == hardware.total_memory()
