"""Registry and hub: the real code against servers of ours that speak their protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar.config.paths import Paths
from blazar.config.schema import Config, Models
from blazar.errors import BadModelFile, BadRequest, DownloadFailed, ModelTooLarge, NoModelInside, NotFound
from blazar.models import overlay
from blazar.models.library import Library
from blazar.models.progress import Progress
from tests.support import tiny_model
from tests.support.shops import Hub, Registry
from tests.support.web import Web


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as it:
        yield it


@pytest.fixture
def registry(web: Web) -> Registry:
    return Registry(web)


@pytest.fixture
def hub(web: Web) -> Hub:
    return Hub(web)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "config", data=tmp_path / "data")
    found.data.mkdir()
    return found


@pytest.fixture
def library(paths: Paths, web: Web) -> Library:
    return Library(paths, Config(models=Models(registry=web.url, hub=web.url)))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("weights") / "tiny.gguf"
    tiny_model.write(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Further models, no two alike, by a name."""
    found = {}
    for number, name in enumerate("abcd"):
        path = tmp_path_factory.mktemp("weights") / "tiny.gguf"
        tiny_model.write(path, seed=100 + number)
        found[name] = path.read_bytes()
    return found


def test_a_model_of_the_registry_comes_with_all_that_it_sets(
    library: Library, registry: Registry, weights: bytes
) -> None:
    parameters = json.dumps({"temperature": 0.5, "stop": ["<|end|>"], "num_ctx": 256}).encode()
    registry.model(
        "library/fox", "0.5b", model=weights, system=b"Be brief.", params=parameters, license=[b"Free.", b"As in air."]
    )
    seen = list[Progress]()
    model = library.pull("fox:0.5b", seen.append)
    assert (model.name, model.source) == ("fox:0.5b", "ollama:fox:0.5b")
    assert Path(model.files[0]).read_bytes() == weights
    assert Path(model.files[0]).name == "fox-0.5b.gguf"
    sets = overlay.read(model.overlay)
    assert (sets.system, sets.license) == ("Be brief.", ["Free.", "As in air."])
    assert sets.parameters == {"temperature": 0.5, "stop": ["<|end|>"], "num_ctx": 256}
    assert {step.digest for step in seen if step.phase == "download"} == {model.digest}


def test_a_name_without_a_tag_means_latest_and_a_size_may_stand_behind_a_dash(
    library: Library, registry: Registry, weights: bytes, others: dict[str, bytes]
) -> None:
    registry.model("library/fox", "latest", model=weights)
    registry.model("library/fox", "1.5b", model=others["a"])
    assert library.pull("fox").name == "fox:latest"
    assert library.pull("fox-1.5b").name == "fox:1.5b"
    assert library.show("Fox-1.5B").name == "fox:1.5b"
    with pytest.raises(NoModelInside, match=r"holds no model named 'wolf-7b:latest' or 'wolf:7b'"):
        library.pull("wolf-7b")


def test_a_namespace_of_the_registry_is_said_in_so_many_words(
    library: Library, registry: Registry, weights: bytes
) -> None:
    registry.model("someone/fox", "latest", model=weights)
    assert library.pull("ollama:someone/fox").name == "someone/fox:latest"


def test_what_is_here_under_another_name_is_not_fetched_again(
    library: Library, registry: Registry, hub: Hub, web: Web, weights: bytes
) -> None:
    digests = registry.model("library/fox", "a", model=weights)
    registry.model("library/fox", "b", model=weights, system=b"Be long.")
    hub.repository("org/Fox-GGUF", {"fox.Q4_0.gguf": weights})
    first = library.pull("fox:a")
    web.requests.clear()
    second, third = library.pull("fox:b"), library.pull("hf.co/org/Fox-GGUF")
    assert not [path for path, _ in web.requests if digests["model"][7:] in path]
    inodes = {Path(model.files[0]).stat().st_ino for model in (first, second, third)}
    assert len(inodes) == 1
    library.remove(first.name)
    assert Path(second.files[0]).read_bytes() == weights


def test_an_adapter_comes_with_its_model(library: Library, registry: Registry, weights: bytes, tmp_path: Path) -> None:
    fits, other = tmp_path / "fits.gguf", tmp_path / "other.gguf"
    tiny_model.write_adapter(fits)
    tiny_model.write_adapter(other, of="qwen3")
    registry.model("library/poet", "latest", model=weights, adapter=[fits.read_bytes(), fits.read_bytes()[:-1] + b"x"])
    registry.model("library/odd", "latest", model=weights, adapter=other.read_bytes())
    worn = overlay.adapters(library.pull("poet").overlay)
    assert [Path(one.path).name for one in worn] == ["poet-latest.adapter.gguf", "poet-latest.adapter1.gguf"]
    assert Path(worn[0].path).read_bytes() == fits.read_bytes()
    with pytest.raises(BadModelFile, match="it is for qwen3 models, and this one is of llama"):
        library.pull("odd")
    assert [model.name for model in library.list()] == ["poet:latest"]
    library.remove("poet")
    assert not Path(worn[0].path).exists()


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ({"params": b"{}"}, "cloud model"),
        ({"tensor": b"x"}, "Ollama's own engine"),
        ({"model": [b"GGUF", b"GGUG"]}, "in parts"),
    ],
)
def test_what_cannot_run_is_not_fetched(
    library: Library, registry: Registry, web: Web, layers: dict[str, bytes], reason: str
) -> None:
    registry.model("library/odd", "latest", **layers)
    with pytest.raises(NoModelInside, match=reason):
        library.pull("odd")
    assert [path for path, _ in web.requests] == ["/v2/library/odd/manifests/latest"]


def test_a_blob_that_is_another_is_not_kept(library: Library, registry: Registry, web: Web, weights: bytes) -> None:
    digest = registry.model("library/fox", "latest", model=weights)["model"]
    web.files[f"/cdn/{digest[7:]}"] = weights[:-1] + b"?"
    with pytest.raises(DownloadFailed, match="thrown away"):
        library.pull("fox")
    assert library.list() == ()


def test_a_registry_that_was_not_allowed_is_not_asked(paths: Paths, web: Web, weights: bytes) -> None:
    Registry(web).model("team/fox", "latest", model=weights)
    host = web.url.removeprefix("http://")
    shut = Library(paths, Config())
    with pytest.raises(BadRequest, match="not among the registries"):
        shut.pull(f"{host}/team/fox")
    assert web.requests == []
    opened = Library(paths, Config(models=Models(registries=(host,))))
    assert opened.pull(f"{host}/team/fox").name == "team/fox:latest"


def test_a_registry_behind_a_login_is_told(library: Library, web: Web) -> None:
    web.guard = "Bearer x"
    with pytest.raises(DownloadFailed, match="asks for a login"):
        library.pull("fox")


# The hub.


def test_a_quantisation_is_found_in_any_case_and_in_folders(
    library: Library, hub: Hub, weights: bytes, others: dict[str, bytes]
) -> None:
    hub.repository(
        "Org/Fox-1B-GGUF",
        {
            "README.md": b"x",
            "Fox-1B.Q8_0.gguf": others["a"],
            "Q4_K_M/Fox-1B-Q4_K_M.gguf": weights,
            "imatrix.gguf": b"x",
        },
    )
    model = library.pull("hf.co/Org/Fox-1B-GGUF:q4_k_m")
    assert (model.name, model.source) == ("fox-1b:q4_k_m", "hf.co/Org/Fox-1B-GGUF:Q4_K_M")
    assert Path(model.files[0]).read_bytes() == weights
    assert library.pull("org/fox-1b-gguf:Q4_K_M").name == model.name
    assert library.show("hf.co/org/Fox-1B-gguf").name == model.name
    assert library.show("HF.co/Org/Fox-1B-GGUF:Q4_K_M").name == model.name
    file = library.pull("https://huggingface.co/Org/Fox-1B-GGUF/blob/main/Fox-1B.Q8_0.gguf")
    assert file.name == "fox-1b:q8_0"
    with pytest.raises(NoModelInside, match=r"has nothing for 'Q2_K'.*Q4_K_M, Q8_0"):
        library.pull("Org/Fox-1B-GGUF:Q2_K")


def test_without_a_word_the_usual_one_that_fits_is_taken(
    library: Library, hub: Hub, others: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "fox.Q8_0.gguf": others["a"] + bytes(3000),
        "fox.Q4_K_M.gguf": others["b"] + bytes(2000),
        "fox.Q2_K.gguf": others["c"] + bytes(1000),
    }
    hub.repository("org/fox", files)
    assert library.pull("org/fox").name == "fox:q4_k_m"
    library.remove("fox:q4_k_m")
    monkeypatch.setattr(Library, "_room", lambda _: len(files["fox.Q2_K.gguf"]))
    assert library.pull("hf.co/org/fox").name == "fox:q2_k"
    library.remove("fox:q2_k")
    monkeypatch.setattr(Library, "_room", lambda _: 1000)
    with pytest.raises(ModelTooLarge, match="at its smallest"):
        library.pull("org/fox")


def test_shards_come_together_and_half_a_model_is_none(library: Library, hub: Hub, others: dict[str, bytes]) -> None:
    hub.repository("org/half", {"big-Q4_0-00001-of-00002.gguf": others["a"]})
    with pytest.raises(NoModelInside, match="holds no GGUF file"):
        library.pull("org/half")


def test_a_projector_comes_with_its_model(library: Library, hub: Hub, weights: bytes, tmp_path: Path) -> None:
    tiny_model.write_projector(tmp_path / "eyes.gguf")
    eyes = (tmp_path / "eyes.gguf").read_bytes()
    hub.repository("org/seer", {"seer.Q4_0.gguf": weights, "mmproj-F32.gguf": b"GGUFx", "mmproj-F16.gguf": eyes})
    model = library.pull("org/seer")
    assert Path(model.projector).read_bytes() == eyes
    assert "vision" in model.capabilities
    library.remove(model.name)
    assert not Path(model.projector).exists()


def test_a_repository_of_another_form_is_not_fetched(library: Library, hub: Hub, web: Web) -> None:
    hub.repository("org/plain", {"model.safetensors": b"x" * 100, "config.json": b"{}"})
    with pytest.raises(NoModelInside, match=r"no GGUF file.*\.safetensors"):
        library.pull("org/plain")
    assert len(web.requests) == 1


def test_a_gated_repository_needs_the_token_which_no_other_host_sees(
    library: Library, hub: Hub, web: Web, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repository("org/gated", {"fox.Q4_0.gguf": weights})
    web.guard = "Bearer hf_secret"
    with pytest.raises(DownloadFailed, match="put a token into HF_TOKEN"):
        library.pull("org/gated")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(DownloadFailed, match="terms must be accepted") as refused:
        library.pull("org/gated")
    assert "hf_wrong" not in str(refused.value)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with Web() as cdn:
        (path,) = [path for path in web.files if path.startswith("/xet/")]
        cdn.files[path] = web.files.pop(path)
        web.redirects["/org/gated/resolve/main/fox.Q4_0.gguf"] = f"{cdn.url}{path}"
        assert library.pull("org/gated").name == "fox:q4_0"
        assert cdn.logins
        assert set(cdn.logins) == {None}


def test_a_mirror_is_named_by_the_usual_variable(
    paths: Paths, hub: Hub, web: Web, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repository("org/fox", {"fox.Q4_0.gguf": weights})
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    assert Library(paths, Config()).pull("org/fox").name == "fox:q4_0"


def test_no_such_repository(library: Library) -> None:
    with pytest.raises(DownloadFailed, match="no such repository"):
        library.pull("org/nothing")


def test_a_pull_that_was_cut_is_listed_with_what_came_and_goes_on(
    library: Library, hub: Hub, web: Web, weights: bytes
) -> None:
    hub.repository("org/fox", {"fox.Q4_0.gguf": weights})

    def stop(step: Progress) -> None:
        if step.phase == "download" and step.done:
            raise KeyboardInterrupt

    web.cut_after = [1 << 30, 100_000]  # the listing, then the file
    with pytest.raises(KeyboardInterrupt):
        library.pull("org/fox", stop)
    (partial,) = library.partials()
    assert (partial.source, partial.size) == ("hf.co/org/fox", 100_000)
    library.pull("org/fox")
    assert web.requests[-1][1] == f"bytes=100000-{len(weights) - 1}"
    assert library.partials() == ()


def test_a_modelfile_begins_with_a_model_a_file_or_a_source(
    library: Library, registry: Registry, weights: bytes, tmp_path: Path
) -> None:
    registry.model("library/fox", "latest", model=weights)
    (tmp_path / "tiny.gguf").write_bytes(weights)
    pulled, idle = library.create("brief", "FROM fox\nSYSTEM Be brief.\nPARSER x", tmp_path)
    assert (pulled.name, idle) == ("brief", ("PARSER",))
    assert overlay.read(pulled.overlay).system == "Be brief."
    assert [model.name for model in library.list()] == ["brief", "fox:latest"]
    again, _ = library.create("brief", "FROM brief\nPARAMETER seed 7", tmp_path)
    sets = overlay.read(again.overlay)
    assert (sets.system, sets.parameters) == ("Be brief.", {"seed": 7})
    filed, _ = library.create("filed", "FROM ./tiny.gguf\nSYSTEM Be long.", tmp_path)
    assert Path(filed.files[0]).samefile(tmp_path / "tiny.gguf")
    inodes = {Path(model.files[0]).stat().st_ino for model in (pulled, again)}
    assert len(inodes) == 1
    with pytest.raises(NotFound, match=str(tmp_path / "missing")):
        library.create("filed", "FROM ./missing", tmp_path)
    assert library.show("filed")


def test_a_search_says_what_there_is_in_which_quantisations(library: Library, hub: Hub, web: Web) -> None:
    hub.repository("org/fox", {"fox.Q4_0.gguf": b"GGUF", "fox-Q8_0.gguf": b"GGUF", "mmproj-F16.gguf": b"GGUF"})
    (found,) = library.search("fox", 5)
    assert (found.repository, found.downloads, found.quantizations) == ("org/fox", 3000, ("Q8_0", "Q4_0"))
    web.answers = [(403, {})]
    with pytest.raises(DownloadFailed, match="hub answered 403"):
        library.search("fox", 5)


@pytest.mark.parametrize("listing", [b"{}", b"[]", b"null", b"{", b'{"id": 7, "siblings": [{"rfilename": null}]}'])
def test_a_hub_that_talks_nonsense_is_told(library: Library, web: Web, listing: bytes) -> None:
    web.files["/api/models/org/odd"] = listing
    with pytest.raises((DownloadFailed, NoModelInside)):
        library.pull("org/odd")


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"layers": 7}',
        b'{"layers": [{"mediaType": 1}]}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]}',
    ],
)
def test_a_registry_that_talks_nonsense_is_told(library: Library, web: Web, manifest: bytes) -> None:
    web.files["/v2/library/odd/manifests/latest"] = manifest
    with pytest.raises((DownloadFailed, NoModelInside)):
        library.pull("odd")
    assert library.list() == ()


def test_names_in_a_repository_cannot_leave_our_folder(
    library: Library, paths: Paths, hub: Hub, web: Web, weights: bytes
) -> None:
    hub.repository("org/evil", {"../../../evil.Q4_0.gguf": weights})
    for path in list(web.redirects):
        web.redirects[path.replace("../", "")] = web.redirects[path]
        web.redirects["/evil.Q4_0.gguf"] = web.redirects[path]
    try:
        model = library.pull("org/evil")
    except DownloadFailed:
        pass
    else:
        assert Path(model.files[0]).is_relative_to(paths.models)
    assert not [path for path in paths.data.parent.rglob("evil*") if not path.is_relative_to(paths.models)]


def test_a_hub_or_a_registry_that_is_away_is_told(paths: Paths) -> None:
    away = Library(paths, Config(models=Models(registry="http://127.0.0.1:9", hub="http://127.0.0.1:9")))
    for target in ("org/fox", "fox:1b"):
        with pytest.raises(DownloadFailed, match="cannot be reached"):
            away.pull(target)
        with pytest.raises(DownloadFailed, match="cannot be reached"):
            away.candidates(target)
