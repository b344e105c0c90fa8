"""OpenAI's Responses with the official package: streamed, kept, gone on from, in the background."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support import patient
from tests.support.server import Server, serving

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("responses")


@pytest.fixture(scope="module")
def server(home: Path, tiny: Path, tiny_slow: Path) -> Iterator[Server]:
    with serving(home, {"tiny": tiny, "slow": tiny_slow}, BLAZAR_ENGINE_CONTEXT="4096") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one


def until(client: openai.OpenAI, begun: str, *statuses: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while (response := client.responses.retrieve(begun)).status not in statuses:
        assert time.monotonic() < deadline, response.status
        time.sleep(0.02)
    return response


def test_a_stream_is_numbered_and_its_helper_accepts_it(client: openai.OpenAI) -> None:
    with client.responses.stream(
        model="tiny", input="Hi", instructions="Be brief.", max_output_tokens=12, temperature=0
    ) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.incomplete"
    response = events[-1].response
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.instructions == "Be brief."
    assert response.usage is not None
    assert response.usage.output_tokens == 12
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == response.output_text


def test_what_was_streamed_is_kept_and_found_at_once(client: openai.OpenAI) -> None:
    said: Any = {}
    with client.responses.create(model="tiny", input="Hi", max_output_tokens=4, stream=True) as stream:
        for event in stream:
            if event.type == "response.incomplete":
                said = client.responses.retrieve(event.response.id).to_dict()
                assert said == event.response.to_dict()
    assert said["status"] == "incomplete"


def test_a_conversation_goes_on_by_id_and_survives_a_restart(server: Server, client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="one two three", max_output_tokens=4)
    second = client.responses.create(
        model="tiny", input="four", previous_response_id=first.id, max_output_tokens=4, instructions="Now."
    )
    assert second.previous_response_id == first.id
    count = client.responses.input_tokens.count(model="tiny", input="five", previous_response_id=second.id)
    alone = client.responses.input_tokens.count(model="tiny", input="five")
    assert count.input_tokens > alone.input_tokens + len("one two three") + len("four")
    server.kill()
    server.start()
    after = client.responses.input_tokens.count(model="tiny", input="five", previous_response_id=second.id)
    assert after.input_tokens == count.input_tokens
    items = client.responses.input_items.list(second.id).data
    (item,) = [item.to_dict() for item in items]
    assert item["content"] == [{"type": "input_text", "text": "four"}]
    assert item["id"]
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError, match="goes on from") as gone:
        client.responses.create(model="tiny", input="x", previous_response_id=second.id)
    assert gone.value.param == "previous_response_id"


def test_what_is_not_to_be_kept_is_not(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="Hi", max_output_tokens=2, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_in_the_background_it_goes_on_alone_and_can_be_listened_to_again(client: openai.OpenAI) -> None:
    begun = client.responses.create(model="tiny", input="Hi", max_output_tokens=8, background=True)
    assert begun.status == "queued"
    done = until(client, begun.id, "incomplete", "completed")
    assert done.id == begun.id
    assert done.usage.output_tokens == 8
    with client.responses.retrieve(begun.id, stream=True, starting_after=2) as stream:
        numbers = [event.sequence_number for event in stream]
    assert numbers == list(range(3, 3 + len(numbers)))
    assert client.responses.cancel(begun.id).status == done.status


def test_it_can_be_cancelled_and_the_engine_stops(server: Server, client: openai.OpenAI) -> None:
    begun = client.responses.create(model="slow", input="Hi", background=True)
    deadline = time.monotonic() + PATIENCE_S
    while not any(row["name"] == "slow" and row["blazar"]["in_flight"] for row in server.ps()):  # type: ignore[index]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert client.responses.cancel(begun.id).status == "cancelled"
    assert client.responses.retrieve(begun.id).status == "cancelled"
    while server.busy_slots("slow"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    foreground = client.responses.create(model="tiny", input="Hi", max_output_tokens=2)
    with pytest.raises(openai.BadRequestError, match="background"):
        client.responses.cancel(foreground.id)


def test_a_listener_that_leaves_does_not_stop_it(server: Server, client: openai.OpenAI) -> None:
    asked = {
        "model": "slow",
        "input": "Hi",
        "background": True,
        "stream": True,
        "temperature": 0,
        "max_output_tokens": 400,
    }
    with httpx.stream("POST", f"{server.url}/v1/responses", json=asked, timeout=20) as answer:
        lines = answer.iter_lines()
        while not (line := next(lines)).startswith("data: "):
            pass
        begun = json.loads(line.removeprefix("data: "))["response"]["id"]
    assert until(client, begun, "incomplete", "completed").usage.output_tokens == 400


def test_what_a_kill_cut_off_is_said_to_have_failed(server: Server, client: openai.OpenAI) -> None:
    begun = client.responses.create(model="slow", input="Hi", background=True)
    server.kill()
    server.start()
    response = client.responses.retrieve(begun.id)
    assert response.status == "failed"
    assert response.error is not None
    assert "stopped" in response.error.message


def test_tools_that_nobody_here_runs_are_named(server: Server) -> None:
    asked = {"model": "tiny", "input": "Hi", "max_output_tokens": 2, "tools": [{"type": "web_search"}]}
    answer = patient.post(f"{server.url}/v1/responses", json=asked)
    assert answer.status_code == 200
    assert answer.headers["x-blazar-dropped-tools"] == "web_search"


def test_an_unknown_model_in_the_background_is_refused_at_once(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="nobody", input="x", background=True)
