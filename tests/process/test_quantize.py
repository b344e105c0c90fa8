"""Smaller models: the tools stand in for llama.cpp's own, which take minutes to compile, and say what those say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from blazar import store
from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.engines.base import Build
from blazar.engines.quantize import Wanted, quantize
from blazar.errors import BadRequest, Conflict, InsufficientStorage, NotFound, ToolFailed
from blazar.models.catalogue import Catalogue
from blazar.models.library import Library

_HELP = """usage: llama-quantize [--help] [--allow-requantize] model-f32.gguf [model-quant.gguf] type [nthreads]
                                      WARNING: this can severely reduce quality compared to quantizing
-----------------------------------------------------------------------------
 allowed quantization types
-----------------------------------------------------------------------------

   2  or  Q4_0    :  4.34G, +0.4685 ppl @ Llama-3-8B
          Q4_K    : alias for Q4_K_M
  15  or  Q4_K_M  :  4.58G, +0.1754 ppl @ Llama-3-8B
   7  or  Q8_0    :  7.96G, +0.0026 ppl @ Llama-3-8B
          COPY    : only copy tensors, no quantizing
"""
_QUANTIZE = f"""#!{sys.executable}
import shutil, sys, time
if "--help" in sys.argv:
    print({_HELP!r})
    sys.exit(1)
*options, source, target, kind, threads = sys.argv[1:]
print("[   1/  21] token_embd.weight", flush=True)
shutil.copyfile(source, target)
if kind == "Q4_0":
    print("main: failed to quantize model: out of luck", file=sys.stderr)
    sys.exit(1)
if kind == "Q4_K":
    time.sleep(60)
print("[  21/  21] output.weight", options, flush=True)
"""
_PERPLEXITY = f"""#!{sys.executable}
import sys
words = sys.argv
text = open(words[words.index("-f") + 1]).read()
assert len(text) > 1000, "too short"
value = 12.0 if "Q" in words[words.index("-m") + 1].rpartition("/")[2] else 10.0
print(f"[1]9.1,[2]{{value}},", flush=True)
print(f"Final estimate: PPL = {{value:.4f}} +/- 0.5", file=sys.stderr)
"""


def ignored(what: str) -> None:
    """Told of nothing."""


@pytest.fixture
def builds(tmp_path: Path) -> tuple[Build, ...]:
    folder = tmp_path / "build"
    folder.mkdir()
    for name, text in (("llama-quantize", _QUANTIZE), ("llama-perplexity", _PERPLEXITY)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    wheel = Build(kind="llamacpp", tag="w", channel="pypi", path=sys.executable)
    return wheel, Build(kind="llamacpp", tag="b", channel="release", path=str(folder / "llama-server"))


@pytest.fixture
def library(home: Path, tiny: Path) -> Iterator[Library]:
    paths = Paths(config=home / "config", data=home / "data")
    paths.models.mkdir(parents=True)
    with store.open(paths.database) as rows:
        library = Library(paths, Config(), Catalogue(rows))
        library.import_(tiny, "tiny")
        yield library


def make(library: Library, builds: tuple[Build, ...], kind: str, **fields: object) -> str:
    wanted = msgspec.convert({"type": kind, **fields}, Wanted)
    return quantize(library, library.show("tiny"), wanted, builds, ignored).model


def names(library: Library) -> list[str]:
    return sorted(model.name for model in library.list())


def test_a_smaller_model_is_made_measured_and_named(library: Library, builds: tuple[Build, ...]) -> None:
    told: list[str] = []
    outcome = quantize(library, library.show("tiny"), Wanted(type="q8_0", loss=0.2), builds, told.append)
    assert (outcome.model, outcome.before_perplexity, outcome.perplexity) == ("tiny:q8_0", 10, 12)
    made = library.show("tiny:q8_0")
    assert Path(made.files[0]).name == "tiny.Q8_0.gguf"
    assert made.owned
    assert any(what.startswith("how well it reads after") for what in told)
    assert make(library, builds, "Q4_K_M", name="mine", gate=False) == "mine"
    assert names(library) == ["mine", "tiny", "tiny:q8_0"]


def test_one_that_reads_worse_is_not_kept(library: Library, builds: tuple[Build, ...], home: Path) -> None:
    with pytest.raises(ToolFailed, match=r"from 10.00 to 12.00 \(\+20.0%, at most \+10.0%\)"):
        make(library, builds, "Q8_0")
    assert names(library) == ["tiny"]
    assert [path.name for path in (home / "data/models").rglob("*.gguf")] == ["tiny.gguf"]


def test_what_cannot_be_made_says_why_and_leaves_nothing(
    library: Library, builds: tuple[Build, ...], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadRequest, match="none of the types that this build makes: Q4_0, Q4_K, Q4_K_M, Q8_0"):
        make(library, builds, "WARNING")
    with pytest.raises(ToolFailed, match=r"llama-quantize ended with code 1: .*out of luck"):
        make(library, builds, "Q4_0")
    with pytest.raises(NotFound, match="blazar engine build"):
        make(library, builds[:1], "Q8_0")
    with pytest.raises(BadRequest, match="no file at"):
        make(library, builds, "Q8_0", imatrix="/nowhere")
    with pytest.raises(BadRequest, match="model name"):
        make(library, builds, "Q8_0", name="../x")
    with pytest.raises(Conflict, match="'tiny' already"):
        make(library, builds, "Q8_0", name="Tiny")

    def stop(what: str) -> None:
        if "written" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize(library, library.show("tiny"), Wanted(type="Q4_K"), builds, stop)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(InsufficientStorage):
        make(library, builds, "Q8_0")
    assert names(library) == ["tiny"]
    assert [path.name for path in (home / "data/models").rglob("*.gguf")] == ["tiny.gguf"]


def test_a_quantised_model_is_done_again_only_when_that_is_wanted(library: Library, builds: tuple[Build, ...]) -> None:
    model = msgspec.structs.replace(library.show("tiny"), quantization="Q4_1")
    with pytest.raises(BadRequest, match="quantised already"):
        quantize(library, model, Wanted(type="Q8_0"), builds, ignored)
    again = Wanted(type="Q8_0", again=True, gate=False)
    assert quantize(library, model, again, builds, ignored).perplexity == 0
