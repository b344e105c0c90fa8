"""What other tools hold is found where they keep it and used where it lies; their folders as they make them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.models import adopt, overlay
from blazar.models.library import Library
from tests.support import tiny_model

IMAGE = "application/vnd.ollama.image."


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("weights") / "tiny.gguf"
    tiny_model.write(path)
    return path.read_bytes()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "user"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    paths = Paths.from_env({"BLAZAR_HOME": str(tmp_path / "ours")})
    paths.data.mkdir(parents=True)
    return Library(paths, Config())


class Ollama:
    """Its folder: manifests that name layers, blobs by their hash."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs").mkdir(parents=True)

    def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (self.root / "blobs" / f"sha256-{digest}").write_bytes(data)
        return f"sha256:{digest}"

    def model(self, path: str, **layers: bytes) -> dict[str, str]:
        digests = {kind: self.blob(data) for kind, data in layers.items()}
        rows = [{"mediaType": f"{IMAGE}{kind}", "digest": digest, "size": 1} for kind, digest in digests.items()]
        manifest = self.root / "manifests" / path
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"schemaVersion": 2, "config": {"digest": "x"}, "layers": rows}))
        return digests


@pytest.fixture
def ollama(home: Path) -> Ollama:
    return Ollama(home / ".ollama/models")


def found(tool: str, home: Path, **env: str) -> dict[str, adopt.Held]:
    return {held.name: held for held in adopt.find(tool, {"HOME": str(home), **env})}


def test_ollamas_models_have_their_names_and_all_that_was_set(ollama: Ollama, home: Path, weights: bytes) -> None:
    parameters = json.dumps({"stop": ["<end>"], "temperature": 0.2, "num_ctx": 512, "odd": None}).encode()
    digests = ollama.model(
        "registry.example/library/tiny/latest",
        model=weights,
        system=b"Be brief.",
        params=parameters,
        template=b"{{ .Prompt }}",
    )
    ollama.model("registry.example/someone/tiny/q8", model=weights)
    ollama.model("hub.example/org/Repo-GGUF/Q4_K_M", model=weights)
    held = found("ollama", home)
    assert set(held) == {"tiny:latest", "someone/tiny:q8", "hub.example/org/Repo-GGUF:Q4_K_M"}
    first = held["tiny:latest"]
    assert first.digest == digests["model"]
    assert first.overlay.system == "Be brief."
    assert first.overlay.parameters == {"stop": ["<end>"], "temperature": 0.2, "num_ctx": 512}
    assert first.overlay.template == "", "the model's own does more"


def test_what_cannot_be_used_says_why(ollama: Ollama, home: Path, weights: bytes) -> None:
    ollama.model("registry.example/library/cloud/latest", params=b"{}")
    gone = ollama.model("registry.example/library/gone/latest", model=b"another")
    (ollama.root / "blobs" / gone["model"].replace(":", "-")).unlink()
    ollama.model("registry.example/library/junk/latest", model=b"no model")
    ollama.model("registry.example/library/odd/latest", model=weights, params=b"{broken")
    (ollama.root / "manifests/registry.example/library/torn").mkdir()
    (ollama.root / "manifests/registry.example/library/torn/latest").write_bytes(b'{"layers": [')
    why = {name.partition(":")[0]: held.why for name, held in found("ollama", home).items()}
    assert "cloud model" in why["cloud"]
    assert "is missing" in why["gone"]
    assert all(why[name] for name in ("junk", "odd", "torn")), why


def test_it_costs_nothing_and_is_done_once(ollama: Ollama, home: Path, weights: bytes, library: Library) -> None:
    digests = ollama.model("registry.example/library/tiny/latest", model=weights, system=b"Be brief.")
    (held,) = found("ollama", home).values()
    model, new = library.adopt(held)
    assert new
    assert (model.name, model.digest) == ("tiny:latest", digests["model"])
    assert overlay.read(model.overlay).system == "Be brief."
    theirs = ollama.root / "blobs" / digests["model"].replace(":", "-")
    assert Path(model.files[0]).samefile(theirs), "a second name, not a copy"
    assert model.files[0].endswith(".gguf")
    assert library.adopt(held) == (model, False)
    library.remove(model.name)
    assert theirs.exists(), "what is theirs stays"


def test_a_file_that_went_away_is_shown_as_missing(
    ollama: Ollama, home: Path, weights: bytes, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blazar.models.sources.file.os.link", _no_links)
    digests = ollama.model("registry.example/library/tiny/latest", model=weights)
    model, _ = library.adopt(next(iter(found("ollama", home).values())))
    theirs = ollama.root / "blobs" / digests["model"].replace(":", "-")
    assert model.files == (str(theirs),)
    theirs.unlink()
    assert library.missing(library.show("tiny"))


def _no_links(*_: Any) -> None:
    raise OSError("another disk")


def test_the_hubs_cache_by_its_newest_commit(home: Path, weights: bytes, library: Library) -> None:
    repository = home / ".cache/huggingface/hub/models--org--Tiny-GGUF"
    digest = hashlib.sha256(weights).hexdigest()
    (repository / "blobs").mkdir(parents=True)
    (repository / "blobs" / digest).write_bytes(weights)
    for commit in ("old", "new"):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / f"Tiny-{commit}.Q4_K_M.gguf").symlink_to(f"../../blobs/{digest}")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("new")
    held = found("hf", home)
    assert set(held) == {"tiny-new:q4_k_m"}
    model, _ = library.adopt(held["tiny-new:q4_k_m"])
    assert model.digest == f"sha256:{digest}", "the cache names it so; nothing is read for that"
    assert Path(model.files[0]).samefile(repository / "blobs" / digest)
    elsewhere = home / "elsewhere"
    (home / ".cache/huggingface/hub").rename(elsewhere)
    assert set(found("hf", home, HF_HUB_CACHE=str(elsewhere))) == {"tiny-new:q4_k_m"}


def test_lm_studio_and_llama_cpp(home: Path, weights: bytes, library: Library) -> None:
    studio = home / ".lmstudio/models/publisher/Tiny-GGUF"
    studio.mkdir(parents=True)
    (studio / "Tiny-Q8_0.gguf").write_bytes(weights)
    (studio / "broken.gguf").write_bytes(b"GGUF")
    llama = home / ".cache/llama.cpp"
    llama.mkdir(parents=True)
    (llama / "org_Tiny_tiny-F16.gguf").write_bytes(weights)
    held = found("lmstudio", home)
    assert set(held) == {"tiny:q8_0", "broken"}
    assert held["broken"].why
    model, _ = library.adopt(held["tiny:q8_0"])
    assert model.digest == f"sha256:{hashlib.sha256(weights).hexdigest()}"
    other = found("llamacpp", home)
    assert set(other) == {"org_tiny_tiny:f16"}


@pytest.mark.parametrize("tool", adopt.TOOLS)
def test_nothing_there_is_nothing(tool: str, home: Path) -> None:
    assert found(tool, home) == {}
