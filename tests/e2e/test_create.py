"""Models made of others and of uploads, with Ollama's own package: no weight is copied, and what is set holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import ollama
import openai
import pytest

from tests.support import patient
from tests.support.server import Server, serving
from tests.support.tiny_model import write


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("create"), {"tiny": tiny}, BLAZAR_ENGINE_CONTEXT="512") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[ollama.Client]:
    one = ollama.Client(host=server.url)
    yield one
    one._client.close()


def test_a_model_of_another_behaves_as_made_and_shares_its_weights(server: Server, client: ollama.Client) -> None:
    steps = client.create(
        "poet", from_="tiny", system="Rhyme.", parameters={"num_predict": 3, "temperature": 0, "stop": ["zzz"]},
        messages=[{"role": "user", "content": "a"}], license="mine", stream=True,
    )  # fmt: skip
    assert [step.status for step in steps][-1] == "success"
    shown = client.show("poet")
    assert shown.parameters == f'{"num_predict":<30} 3\n{"temperature":<30} 0\n{"stop":<30} "zzz"'
    assert shown.details is not None
    assert shown.details.parent_model == "tiny"
    assert shown.license == "mine"
    assert 'SYSTEM """Rhyme."""' in (shown.modelfile or "")
    assert 'MESSAGE user """a"""' in (shown.modelfile or "")
    plain = client.chat("tiny", messages=[{"role": "user", "content": "Hi"}], options={"num_predict": 2})
    made = client.chat("poet", messages=[{"role": "user", "content": "Hi"}])
    assert made.eval_count == 3, "the parameter holds"
    assert made.prompt_eval_count is not None
    assert plain.prompt_eval_count is not None
    assert made.prompt_eval_count > plain.prompt_eval_count + len("Rhyme."), "the system prompt is there"
    assert client.chat("poet", messages=[{"role": "user", "content": "Hi"}], options={"num_predict": 2}).eval_count == 2
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as other:
        answer = other.chat.completions.create(model="poet", messages=[{"role": "user", "content": "Hi"}])
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 3, "in every dialect"
    assert len(server.ps()) == 1, "one set of weights in memory"
    files = {Path(row["blazar"]["files"][0]).stat().st_ino for row in map(show(server), ("tiny", "poet"))}
    assert len(files) == 1, "and one on the disk"


def show(server: Server):  # type: ignore[no-untyped-def]
    return lambda name: patient.post(f"{server.url}/api/show", json={"model": name}).json()


TEMPLATE = "{{ if .System }}S: {{ .System }}\n{{ end }}{{ if .Prompt }}U: {{ .Prompt }}\n{{ end }}A: {{ .Response }}\n"


def test_a_template_in_ollamas_language_takes_the_models_place(server: Server, client: ollama.Client) -> None:
    client.create("letters", from_="tiny", template=TEMPLATE, parameters={"temperature": 0, "num_predict": 8})
    assert TEMPLATE in (client.show("letters").modelfile or "")
    said = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "So"},
    ]
    made = client.chat("letters", messages=[{"role": "system", "content": "Be."}, *said])
    prompt = "S: Be.\nU: Hi\nA: Ho\nU: So\nA: "
    raw = client.generate("tiny", prompt=prompt, raw=True, options={"temperature": 0, "num_predict": 8})
    assert (made.message.content, made.prompt_eval_count) == (raw.response, raw.prompt_eval_count)
    asked = {"model": "letters", "system": "Be.", "messages": said}
    counted = patient.post(f"{server.url}/v1/messages/count_tokens", json=asked)
    assert counted.json() == {"input_tokens": raw.prompt_eval_count}
    client.create("picky", from_="tiny", template="{{ (index .Messages 0).Content }}")
    assert client.generate("picky", prompt="").done_reason == "load", "nothing is made of an empty conversation"
    once = client.generate(
        "tiny", prompt="So", template="A {{ .Prompt }}: ", options={"temperature": 0, "num_predict": 8}
    )
    same = client.generate("tiny", prompt="A So: ", raw=True, options={"temperature": 0, "num_predict": 8})
    assert once.response == same.response
    with pytest.raises(ollama.ResponseError, match="the function frob is not known") as refused:
        client.generate("tiny", prompt="So", template="{{ frob .Prompt }}")
    assert refused.value.status_code == 400


@pytest.mark.parametrize("stream", [True, False])
def test_a_conversation_goes_on_by_its_context(client: ollama.Client, stream: bool) -> None:
    options = {"temperature": 0, "num_predict": 6}
    if stream:
        parts = list(client.generate("tiny", prompt="Hi", options=options, stream=True))
        text, context = "".join(part.response or "" for part in parts), parts[-1].context
    else:
        first = client.generate("tiny", prompt="Hi", options=options)
        text, context = first.response or "", first.context
    assert context
    went_on = client.generate("tiny", prompt="So", context=context, options=options)
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": text}]
    chat = client.chat("tiny", messages=[*messages, {"role": "user", "content": "So"}], options=options)
    assert (went_on.response, went_on.prompt_eval_count) == (chat.message.content, chat.prompt_eval_count)
    with pytest.raises(ollama.ResponseError, match="not of this server"):
        client.generate("tiny", prompt="So", context=[1, 15043])


def test_what_is_made_of_what_was_made_keeps_what_it_does_not_set(client: ollama.Client) -> None:
    client.create("first", from_="tiny", system="One.", parameters={"num_predict": 3, "top_k": 5})
    client.create("second", from_="first", parameters={"num_predict": 2})
    parameters = client.show("second").parameters or ""
    assert f"{'num_predict':<30} 2" in parameters
    assert f"{'top_k':<30} 5" in parameters
    assert "One." in (client.show("second").modelfile or "")
    assert client.chat("second", messages=[{"role": "user", "content": "Hi"}]).eval_count == 2
    client.create("second", from_="second", system="Two.")
    assert "Two." in (client.show("second").modelfile or "")
    client.delete("first")
    assert client.chat("second", messages=[{"role": "user", "content": "Hi"}]).eval_count == 2


def test_an_upload_becomes_a_model(server: Server, client: ollama.Client, tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    write(path, seed=7)
    digest = client.create_blob(path)
    assert digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert patient.head(f"{server.url}/api/blobs/{digest}").status_code == 200
    assert patient.post(f"{server.url}/api/blobs/{digest}", content=b"again").status_code == 200
    client.create("uploaded", files={"new.gguf": digest}, system="Hi.")
    assert client.chat("uploaded", messages=[{"role": "user", "content": "x"}], options={"num_predict": 2}).done
    (file,) = show(server)("uploaded")["blazar"]["files"]
    assert Path(file).read_bytes() == path.read_bytes()
    assert patient.head(f"{server.url}/api/blobs/{digest}").status_code == 404, "the model has it now"


def test_uploads_larger_than_any_body_and_wrong_ones(server: Server) -> None:
    size = 60 * 1024 * 1024
    block = b"\0" * (1 << 20)
    wanted = hashlib.sha256(block * 60).hexdigest()
    answer = patient.post(f"{server.url}/api/blobs/sha256:{wanted}", content=iter([block] * 60), timeout=60)
    assert answer.status_code == 201
    stored = server.home / "data" / "models" / ".uploads" / f"sha256-{wanted}"
    assert stored.stat().st_size == size
    wrong = "0" * 64
    answer = patient.post(f"{server.url}/api/blobs/sha256:{wrong}", content=b"abc")
    assert answer.status_code == 400
    assert "digest mismatch" in answer.json()["error"]
    assert patient.head(f"{server.url}/api/blobs/sha256:{wrong}").status_code == 404
    assert patient.post(f"{server.url}/api/blobs/sha256:xyz", content=b"abc").status_code == 400
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"from": "tiny"}, 400, "model is required"),
        ({"model": "x"}, 400, "neither 'from' or 'files'"),
        ({"model": "x", "from": "nobody"}, 404, "nobody"),
        ({"model": "x", "from": "tiny", "template": "{{ if .Prompt }}"}, 400, "not closed"),
        ({"model": "x", "from": "tiny", "template": "{% for m in messages %}"}, 400, "Ollama's language"),
        ({"model": "x", "from": "tiny", "adapters": {"a": "b"}}, 400, "Adapters"),
        ({"model": "x", "from": "tiny", "quantize": "q4_0"}, 400, "blazar quantize"),
        ({"model": "x", "from": "tiny", "parameters": {"top_k": "many"}}, 400, "parameters.top_k"),
        ({"model": "x", "from": "tiny", "parameters": {"stop": [1]}}, 400, "parameters.stop"),
        ({"model": "x", "from": "tiny", "messages": [{"role": "me"}]}, 400, "messages[0].role"),
        ({"model": "x", "files": {"a.gguf": f"sha256:{'1' * 64}"}}, 404, "blob"),
        ({"model": "x", "files": {"a.safetensors": f"sha256:{'1' * 64}"}}, 400, "GGUF"),
        ({"model": "../x", "from": "tiny"}, 400, "name"),
    ],
)
def test_what_cannot_be_made_says_why(server: Server, body: dict[str, object], status: int, words: str) -> None:
    answer = patient.post(f"{server.url}/api/create", json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_models_are_not_pushed(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="stay on this machine") as refused:
        client.push("tiny")
    assert refused.value.status_code == 403


def test_everything_is_shown(server: Server) -> None:
    brief = patient.post(f"{server.url}/api/show", json={"name": "tiny"}).json()
    assert brief["capabilities"] == ["completion"]
    assert brief["model_info"]["general.parameter_count"] > 100_000
    assert brief["model_info"]["llama.context_length"] == 4096
    assert "tensors" not in brief
    whole = patient.post(f"{server.url}/api/show", json={"name": "tiny", "verbose": True}).json()
    assert {"name": "token_embd.weight", "type": "F32", "shape": [64, 260]} in whole["tensors"]
    assert len(whole["model_info"]["tokenizer.ggml.tokens"]) == 260
