"""How fast a model reads and writes, measured from outside: the same requests straight to its engine and through the
gateway, by the same code.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from blazar.errors import BadGateway, BlazarError

_SILENCE_S = 600.0
_TRIAL = 64
_WORDS = (
    "river", "stone", "light", "wind", "paper", "house", "green", "seven", "walk", "under", "morning", "glass", "bread",
    "story", "winter", "small", "engine", "cloud", "question", "garden", "metal", "silver", "north", "yellow", "bridge",
)  # fmt: skip


class Way(msgspec.Struct, frozen=True):
    """Where to ask: a Unix socket, or ``host`` and ``port``; under which name, and with which key."""

    name: str
    model: str
    key: str = ""
    unix: str = ""
    host: str = "127.0.0.1"
    port: int = 0


class Scenario(msgspec.Struct, frozen=True):
    """``at_once`` requests, each with a prompt of about ``prompt`` tokens and at most ``tokens`` of answer."""

    prompt: int
    at_once: int
    tokens: int


class Sample(msgspec.Struct, frozen=True):
    """One request: real tokens, seconds to the first text, seconds to the end."""

    prompt: int
    written: int
    first_s: float
    total_s: float


class Result(msgspec.Struct, frozen=True):
    """Of one scenario on one way, the medians of the rounds. ``read`` and ``write`` are tokens a second, of all
    requests together (0 where answers were too short to tell); ``first_ms`` is to the first text of one.
    """

    way: str
    prompt: int
    at_once: int
    read: float
    write: float
    first_ms: float


_ENOUGH = 8
"""Tokens of an answer from which on its speed says something."""


def measure(
    ways: Sequence[Way], scenarios: Sequence[Scenario], rounds: int, tell: Callable[[str], None]
) -> list[Result]:
    """All scenarios on all ways, the ways in turn within each round. Raises BadGateway, or what the gateway says."""
    found: list[Result] = []
    # Once read, a text of words tells how many tokens a word has for this model.
    words_per_token = _TRIAL / max(1, _ask(ways[0], _prompt(_TRIAL), 1).prompt)
    for scenario in scenarios:
        taken: dict[str, list[list[Sample]]] = {way.name: [] for way in ways}
        tell(f"{scenario.prompt} tokens, {scenario.at_once} at once")
        for number in range(rounds + 1):
            for way in sorted(ways, key=lambda way: way.name, reverse=bool(number % 2)):
                samples = _together(way, scenario, words_per_token)
                if number:  # the first one warms up
                    taken[way.name].append(samples)
        found += [_result(way.name, scenario, taken[way.name]) for way in ways]
    return found


def _result(way: str, scenario: Scenario, rounds: Sequence[list[Sample]]) -> Result:
    def median(of: Callable[[list[Sample]], float]) -> float:
        return statistics.median(of(samples) for samples in rounds)

    return Result(
        way=way,
        prompt=int(median(lambda samples: samples[0].prompt)),
        at_once=scenario.at_once,
        read=median(lambda samples: sum(one.prompt for one in samples) / max(one.first_s for one in samples)),
        write=median(_writing),
        first_ms=1000 * median(lambda samples: statistics.median(one.first_s for one in samples)),
    )


def _writing(samples: list[Sample]) -> float:
    seconds = max(one.total_s for one in samples) - min(one.first_s for one in samples)
    if min(one.written for one in samples) < _ENOUGH or seconds <= 0:
        return 0.0
    return sum(one.written - 1 for one in samples) / seconds


def _together(way: Way, scenario: Scenario, words_per_token: float) -> list[Sample]:
    samples, faults = list[Sample](), list[BaseException]()

    def one(prompt: str) -> None:
        try:
            samples.append(_ask(way, prompt, scenario.tokens))
        except Exception as fault:  # noqa: BLE001  (raised below, where somebody hears it)
            faults.append(fault)

    # No two begin alike: what an engine has read before, it does not read again.
    prompts = [_prompt(round(scenario.prompt * words_per_token)) for _ in range(scenario.at_once)]
    threads = [threading.Thread(target=one, args=(prompt,), daemon=True) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return samples


def _prompt(words: int) -> str:
    """So many common words."""
    chance = random.Random()
    return " ".join(chance.choice(_WORDS) for _ in range(max(1, words)))


def _ask(way: Way, prompt: str, tokens: int) -> Sample:
    body = {
        "model": way.model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {way.key}"} if way.key else {})}
    connection = _connection(way)
    began = time.perf_counter()
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise _refusal(way, answer.status, answer.read())
        return _read(way, answer, began)
    except (OSError, http.client.HTTPException) as error:
        raise BadGateway(f"The {way.name} does not answer: {error}") from error
    finally:
        connection.close()


def _read(way: Way, answer: http.client.HTTPResponse, began: float) -> Sample:
    first, usage, pieces = 0.0, dict[str, Any](), 0
    for line in answer:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise BadGateway(f"The {way.name} gave up: {event['error']}")
        if any(choice.get("text") for choice in event.get("choices") or ()):
            pieces += 1
            first = first or time.perf_counter() - began
        usage = event.get("usage") or usage
    total = time.perf_counter() - began
    written = int(usage.get("completion_tokens", pieces))
    return Sample(int(usage.get("prompt_tokens", 0)), written, first or total, total)


def _refusal(way: Way, status: int, body: bytes) -> BlazarError:
    try:
        said = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = body[:200].decode(errors="replace")
    return BadGateway(f"The {way.name} refuses with {status}: {said}")


def _connection(way: Way) -> http.client.HTTPConnection:
    if not way.unix:
        return http.client.HTTPConnection(way.host, way.port, timeout=_SILENCE_S)
    return _Unix(way.unix)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SILENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
