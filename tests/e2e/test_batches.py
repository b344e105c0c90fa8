"""Files and batches with the official packages, on a real engine: each line has its own fate, a kill loses none."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.support import patient
from tests.support.server import Server, serving

PATIENCE_S = 40.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path, tiny_slow: Path) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("batches")
    with serving(home, {"tiny": tiny, "slow": tiny_slow}, BLAZAR_ENGINE_CONTEXT="1024") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one


@pytest.fixture
def claude(server: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as one:
        yield one


def lines(*values: dict[str, Any]) -> io.BytesIO:
    file = io.BytesIO(b"".join(json.dumps(value).encode() + b"\n" for value in values))
    file.name = "batch.jsonl"
    return file


def chat(custom_id: str, model: str = "tiny", **more: Any) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "temperature": 0}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body | more}


def until(look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not done(value := look()):
        assert time.monotonic() < deadline, value
        time.sleep(0.05)
    return value


def run(client: openai.OpenAI, file: io.BytesIO, endpoint: Any = "/v1/chat/completions") -> Any:
    uploaded = client.files.create(file=file, purpose="batch")
    batch = client.batches.create(input_file_id=uploaded.id, endpoint=endpoint, completion_window="24h")
    return until(lambda: client.batches.retrieve(batch.id), lambda seen: seen.status in {"completed", "failed"})


def test_files_come_back_as_they_went(client: openai.OpenAI) -> None:
    content = bytes(range(256)) * 5000
    uploaded = client.files.create(file=("data.bin", content), purpose="user_data")
    assert (uploaded.bytes, uploaded.filename, uploaded.purpose) == (len(content), "data.bin", "user_data")
    assert client.files.content(uploaded.id).read() == content
    assert uploaded.id in [file.id for file in client.files.list(purpose="user_data")]
    assert client.files.delete(uploaded.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(uploaded.id)


def test_every_line_has_its_own_fate(client: openai.OpenAI) -> None:
    batch = run(
        client, lines(chat("good"), chat("nobody", model="nobody"), chat("broken", temperature="hot"), chat("last"))
    )
    assert batch.status == "completed"
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (4, 2, 2)
    good = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    assert {line["custom_id"] for line in good} == {"good", "last"}
    assert all(line["response"]["body"]["choices"][0]["finish_reason"] == "length" for line in good)
    bad = [json.loads(line) for line in client.files.content(batch.error_file_id).text.splitlines()]
    assert {line["custom_id"]: line["response"]["status_code"] for line in bad} == {"nobody": 404, "broken": 400}
    assert (
        next(line for line in bad if line["custom_id"] == "broken")["response"]["body"]["error"]["param"]
        == "temperature"
    )


def test_responses_and_vectors_in_batches(client: openai.OpenAI) -> None:
    body = {"model": "tiny", "input": "Hi", "max_output_tokens": 2}
    for url, more in (("/v1/responses", {}), ("/v1/embeddings", {"input": ["a", "b"]})):
        batch = run(client, lines({"custom_id": "a", "method": "POST", "url": url, "body": body | more}), url)
        assert batch.request_counts.completed == 1, batch
        (line,) = client.files.content(batch.output_file_id).text.splitlines()
        answer = json.loads(line)["response"]["body"]
        assert answer["object"] == ("response" if url == "/v1/responses" else "list")


def test_a_file_with_faults_says_where(client: openai.OpenAI) -> None:
    file = lines(chat("a"), chat("a"), {"custom_id": "b", "url": "/v1/embeddings", "body": {}})
    file = io.BytesIO(file.getvalue() + b"no json\n")
    file.name = "broken.jsonl"
    batch = run(client, file)
    assert batch.status == "failed"
    assert [(fault.line, fault.code) for fault in batch.errors.data] == [
        (2, "duplicate_custom_id"),
        (3, "mismatched_endpoint"),
        (4, "invalid_json_line"),
    ]
    assert batch.output_file_id is None


def test_a_batch_can_be_cancelled(client: openai.OpenAI) -> None:
    file = lines(*(chat(f"n{number}", model="slow", max_tokens=200) for number in range(60)))
    uploaded = client.files.create(file=file, purpose="batch")
    batch = client.batches.create(
        input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"}
    )
    assert client.batches.cancel(batch.id).status == "cancelling"
    done = until(lambda: client.batches.retrieve(batch.id), lambda seen: seen.status == "cancelled")
    assert done.metadata == {"a": "b"}
    assert done.request_counts is not None
    assert done.request_counts.completed + done.request_counts.failed == 60
    assert batch.id in [one.id for one in client.batches.list()]


def test_a_batch_goes_on_after_a_kill(server: Server, client: openai.OpenAI) -> None:
    file = lines(*(chat(f"n{number}", model="slow", max_tokens=40) for number in range(60)))
    uploaded = client.files.create(file=file, purpose="batch")
    batch = client.batches.create(input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h")
    folder = server.home / "data" / "files"
    until(lambda: sum(len(path.read_bytes().splitlines()) for path in folder.iterdir()), lambda count: count > 80)
    server.kill()
    server.start()
    done = until(lambda: client.batches.retrieve(batch.id), lambda seen: seen.status == "completed")
    assert done.request_counts is not None
    assert done.request_counts.completed == 60
    assert done.output_file_id is not None
    ids = [json.loads(line)["custom_id"] for line in client.files.content(done.output_file_id).text.splitlines()]
    assert sorted(ids) == sorted(f"n{number}" for number in range(60)), "each once"


def test_message_batches(server: Server, claude: anthropic.Anthropic) -> None:
    def one(custom_id: str, model: str = "tiny") -> Any:
        params = {"model": model, "max_tokens": 3, "messages": [{"role": "user", "content": "Hi\nthere"}]}
        return {"custom_id": custom_id, "params": params}

    batch = claude.messages.batches.create(requests=[one("a"), one("b", "nobody"), one("c")])
    assert batch.processing_status == "in_progress"
    assert batch.request_counts.processing == 3
    ended = until(lambda: claude.messages.batches.retrieve(batch.id), lambda seen: seen.processing_status == "ended")
    assert (ended.request_counts.succeeded, ended.request_counts.errored) == (2, 1)
    results = {result.custom_id: result.result for result in claude.messages.batches.results(batch.id)}
    assert results["a"].type == "succeeded"
    assert results["a"].message.stop_reason == "max_tokens"
    assert results["b"].type == "errored"
    assert results["b"].error.error.type == "not_found_error"
    assert batch.id in [one.id for one in claude.messages.batches.list()]
    assert claude.messages.batches.delete(batch.id).id == batch.id
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.batches.retrieve(batch.id)
    twice = patient.post(f"{server.url}/v1/messages/batches", json={"requests": [one("a"), one("a")]})
    assert (twice.status_code, twice.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_message_batch_can_be_cancelled(claude: anthropic.Anthropic) -> None:
    params: Any = {"model": "slow", "max_tokens": 200, "messages": [{"role": "user", "content": "Hi"}]}
    batch = claude.messages.batches.create(requests=[{"custom_id": f"n{n}", "params": params} for n in range(40)])
    with pytest.raises(anthropic.ConflictError):
        claude.messages.batches.delete(batch.id)
    assert claude.messages.batches.cancel(batch.id).processing_status == "canceling"
    ended = until(lambda: claude.messages.batches.retrieve(batch.id), lambda seen: seen.processing_status == "ended")
    assert ended.request_counts.canceled + ended.request_counts.succeeded == 40
    assert ended.request_counts.canceled > 0
