"""Vectors and rankings from a real engine, through the official packages."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import ollama
import openai
import pytest

from tests.support import patient
from tests.support.server import Server, serving
from tests.support.tiny_model import write

CONTEXT = 512


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("vectors")
    write(folder / "embedder.gguf", pooling=gguf.PoolingType.MEAN)
    write(folder / "ranker.gguf", pooling=gguf.PoolingType.RANK)
    models = {"chat": tiny, "embedder": folder / "embedder.gguf", "ranker": folder / "ranker.gguf"}
    with serving(folder / "home", models, BLAZAR_ENGINE_CONTEXT=str(CONTEXT)) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one


@pytest.mark.parametrize("model", ["embedder", "chat"])
def test_vectors_are_the_same_in_every_form_and_dialect(server: Server, client: openai.OpenAI, model: str) -> None:
    texts = ["a fox", "an owl", "a fox"]
    floats = client.embeddings.create(model=model, input=texts, encoding_format="float")
    rows = np.array([row.embedding for row in floats.data])
    assert [row.index for row in floats.data] == [0, 1, 2]
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.allclose(rows[0], rows[2], atol=1e-5)
    assert not np.allclose(rows[0], rows[1], atol=1e-2)
    assert floats.usage.prompt_tokens == sum(map(len, texts))
    # The official package asks for base64 by itself and decodes it.
    default = client.embeddings.create(model=model, input=texts)
    assert np.allclose(np.array([row.embedding for row in default.data]), rows, atol=1e-5)
    raw = patient.post(f"{server.url}/v1/embeddings", json={"model": model, "input": "a fox"}).json()
    assert isinstance(raw["data"][0]["embedding"], list), "floats, unless base64 is asked for"
    coded = patient.post(
        f"{server.url}/v1/embeddings", json={"model": model, "input": "a fox", "encoding_format": "base64"}
    ).json()
    assert np.allclose(np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4"), rows[0], atol=1e-5)
    told = ollama.Client(host=server.url)
    new = told.embed(model, texts)
    assert np.allclose(np.array(new.embeddings), rows, atol=1e-5)
    assert new.prompt_eval_count == floats.usage.prompt_tokens
    assert np.allclose(told.embeddings(model, "an owl").embedding, rows[1], atol=1e-5)
    told._client.close()


def test_a_model_that_gives_vectors_still_chats_in_the_same_place(server: Server, client: openai.OpenAI) -> None:
    client.embeddings.create(model="chat", input="x")
    pid = next(row["blazar"]["pid"] for row in server.ps() if row["name"] == "chat")  # type: ignore[index]
    for _ in range(2):
        client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "x"}], max_tokens=2)
        client.embeddings.create(model="chat", input="x")
    assert next(row["blazar"]["pid"] for row in server.ps() if row["name"] == "chat") == pid  # type: ignore[index]


def test_fewer_dimensions_are_of_unit_length_and_more_are_refused(client: openai.OpenAI) -> None:
    whole = client.embeddings.create(model="embedder", input="a fox").data[0].embedding
    cut = client.embeddings.create(model="embedder", input="a fox", dimensions=8).data[0].embedding
    wanted = np.array(whole[:8]) / np.linalg.norm(whole[:8])
    assert np.allclose(cut, wanted, atol=1e-5)
    with pytest.raises(openai.BadRequestError, match="100000 dimensions") as refused:
        client.embeddings.create(model="embedder", input="a fox", dimensions=100_000)
    assert refused.value.param == "dimensions"


def test_the_input_that_is_too_long_is_named(client: openai.OpenAI) -> None:
    for model, longest in (("embedder", CONTEXT), ("chat", CONTEXT - 1)):
        with pytest.raises(openai.BadRequestError) as refused:
            client.embeddings.create(model=model, input=["a", "b" * (CONTEXT + 100), "c"])
        assert refused.value.param == "input[1]"
        assert refused.value.code == "context_length_exceeded"
        assert f"has {CONTEXT + 100} tokens and the context holds {longest}" in refused.value.message


@pytest.mark.parametrize(
    ("given", "param"),
    [([], "input"), (["a", ""], "input[1]"), (["a", {}], "input[1]"), ("", "input"), (["a", []], "input[1]")],
)
def test_wrong_inputs_are_named(server: Server, given: object, param: str) -> None:
    answer = patient.post(f"{server.url}/v1/embeddings", json={"model": "embedder", "input": given})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_tokens_are_inputs_too(client: openai.OpenAI) -> None:
    text, tokens = (
        client.embeddings.create(model="embedder", input=given).data[0].embedding for given in ("hi", [71, 72])
    )
    assert len(text) == len(tokens)


def test_ollama_cuts_what_is_too_long_unless_told_not_to(server: Server) -> None:
    told = ollama.Client(host=server.url)
    long = "x" * (CONTEXT + 100)
    for model in ("embedder", "chat"):
        cut = told.embed(model, ["a", long])
        assert cut.prompt_eval_count in {1 + CONTEXT, CONTEXT}
        with pytest.raises(ollama.ResponseError, match="tokens and the context holds") as refused:
            told.embed(model, ["a", long], truncate=False)
        assert refused.value.status_code == 400
        assert len(told.embed(model, "x", dimensions=4).embeddings[0]) == 4
        assert told.embed(model, []).embeddings == []
    told._client.close()


def test_documents_are_ranked(server: Server) -> None:
    asked = {"model": "ranker", "query": "fox", "documents": ["a", {"text": "fox fox"}, "c"], "return_documents": True}
    for route in ("/v1/rerank", "/v1/reranking", "/rerank", "/api/rerank"):
        answer = patient.post(server.url + route, json=asked).json()
        scores = [row["relevance_score"] for row in answer["results"]]
        assert scores == sorted(scores, reverse=True)
        assert {row["index"] for row in answer["results"]} == {0, 1, 2}
        assert all(row["document"]["text"] == ["a", "fox fox", "c"][row["index"]] for row in answer["results"])
        assert answer["usage"]["prompt_tokens"] > 0
    top = patient.post(f"{server.url}/v1/rerank", json=asked | {"top_n": 1}).json()["results"]
    assert [row["index"] for row in top] == [answer["results"][0]["index"]]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/rerank", {"model": "chat", "query": "x", "documents": ["y"]}),
        ("/v1/embeddings", {"model": "ranker", "input": "x"}),
        ("/api/embed", {"model": "ranker", "input": "x"}),
        ("/v1/chat/completions", {"model": "embedder", "messages": [{"role": "user", "content": "x"}]}),
        ("/api/generate", {"model": "ranker", "prompt": "x"}),
        ("/v1/messages", {"model": "embedder", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_a_model_says_what_it_cannot_do(server: Server, route: str, body: dict[str, object]) -> None:
    answer = patient.post(server.url + route, json=body)
    assert answer.status_code == 400
    assert "does not" in answer.text


def test_a_model_that_gives_vectors_is_loaded_and_unloaded_like_any(server: Server) -> None:
    for body, reason in (({}, "load"), ({"keep_alive": 0}, "unload")):
        answer = patient.post(f"{server.url}/api/generate", json={"model": "embedder", **body}, timeout=120)
        assert answer.json()["done_reason"] == reason, answer.text
