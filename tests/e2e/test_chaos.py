"""A seeded storm: clients that come, leave and ask for too much, children that are killed, models that are sent away,
keys that change; twenty models where four fit. Afterwards nothing is held, nothing is lost and nothing has grown.

``BLAZAR_CHAOS_S`` (seconds) and ``BLAZAR_CHAOS_SEED`` make it longer, or another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.support.server import Server, children_of, serving

SECONDS = float(os.environ.get("BLAZAR_CHAOS_S", "40"))
SEED = int(os.environ.get("BLAZAR_CHAOS_SEED", "1"))
MODELS = [f"m{number}" for number in range(20)]
CLIENTS = 16
LATE_MS = 30_000
# What a client may be told. A fault of ours (500) is never among it.
ALLOWED = {200, 401, 429, 499, 502, 503, 507}
MESSAGES = [{"role": "user", "content": "Say something."}]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/responses": {"input": "Say something."},
    "/v1/messages": {"messages": MESSAGES},
    "/api/chat": {"messages": MESSAGES},
}
ENDS = {
    "/v1/chat/completions": ("[DONE]", '"error"'),
    "/v1/responses": ("response.completed", "response.incomplete", "response.failed", '"error"'),
    "/v1/messages": ("message_stop", '"error"'),
    "/api/chat": ('"done":true', '"error"'),
}


class Storm:
    """One run. ``told`` counts what clients heard; ``wrong`` is what nobody should."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.keys: dict[str, str] = {}
        self.told: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.owner = ""
        self.over = False

    @property
    def admin(self) -> dict[str, str]:
        return {"x-api-key": self.owner}

    async def client(self, number: int) -> None:
        """Ask, one after the other, until it is over."""
        chance = random.Random(self.random.random() + number)
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60) as http:
            while not self.over:
                route = chance.choice(list(ROUTES))
                most = chance.choice([1, 5, 40])
                body = {
                    "model": chance.choice(MODELS[: chance.choice([3, 6, 20])]),
                    "stream": chance.random() < 0.7,
                    "max_tokens": most,
                    "max_output_tokens": max(16, most),
                    "options": {"num_predict": most},
                    **ROUTES[route],
                }
                headers = {"x-api-key": chance.choice([*self.keys.values(), "wrong-wrong-wrong"])}
                headers["x-blazar-priority"] = chance.choice(["high", "normal", "low"])
                leaves_after = chance.uniform(0, 1.5) if chance.random() < 0.3 else None
                try:
                    async with asyncio.timeout(leaves_after):
                        await self.ask(http, route, body, headers)
                except TimeoutError:
                    self.told["left"] += 1

    async def ask(self, http: httpx.AsyncClient, route: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        try:
            async with http.stream("POST", route, json=body, headers=headers) as answer:
                text = (await answer.aread()).decode()
        except httpx.TransportError as error:
            self.wrong.append(f"{route}: {error!r}")
            return
        self.told[str(answer.status_code)] += 1
        if answer.status_code not in ALLOWED:
            self.wrong.append(f"{route}: {answer.status_code} {text[:300]}")
        elif answer.status_code != 200:
            found = re.search(r'"blazar_code":\s*"(\w+)"', text)
            if found is None:
                self.wrong.append(f"{route}: an error without a code: {text[:300]}")
            else:
                self.told[found.group(1)] += 1
        elif body["stream"]:
            if not any(end in text[-600:] for end in ENDS[route]):
                self.wrong.append(f"{route}: a stream without an end: {text[-300:]}")
        else:
            json.loads(text)

    async def weather(self) -> None:
        """Everything that can happen to them."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60, headers=self.admin) as http:
            while not self.over:
                await asyncio.sleep(self.random.uniform(0.1, 0.6))
                await self.random.choice([self.kill, self.evict, self.cancel, self.rotate, self.change])(http)

    async def watch(self) -> None:
        """Nobody waits longer than the bounds on every wait together."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60, headers=self.admin) as http:
            while not self.over:
                await asyncio.sleep(1)
                rows = (await http.get("/v1/requests?state=live")).json()["data"]
                if late := [row for row in rows if row["age_ms"] > LATE_MS]:
                    self.wrong.append(f"{late} {(await http.get('/api/ps')).text}")

    async def kill(self, http: httpx.AsyncClient) -> None:
        rows = (await http.get("/api/ps")).json()["models"]
        if pids := [row["blazar"]["pid"] for row in rows if row["blazar"]["pid"]]:
            with contextlib.suppress(ProcessLookupError):
                how = self.random.choice([signal.SIGKILL, signal.SIGTERM])
                os.kill(self.random.choice(pids), how)
                self.told["killed"] += 1

    async def evict(self, http: httpx.AsyncClient) -> None:
        answer = await http.post("/api/evict", json={"model": self.random.choice(MODELS[:6])})
        assert answer.status_code in {200, 404, 409}, answer.text
        self.told["evicted"] += answer.status_code == 200

    async def cancel(self, http: httpx.AsyncClient) -> None:
        if rows := (await http.get("/v1/requests?state=live")).json()["data"]:
            answer = await http.delete(f"/v1/requests/{self.random.choice(rows)['id']}")
            assert answer.status_code in {200, 404}, answer.text
            self.told["cancelled"] += answer.status_code == 200

    async def rotate(self, http: httpx.AsyncClient) -> None:
        name = self.random.choice(list(self.keys))
        answer = await http.post(f"/api/keys/rotate?name={name}")
        assert answer.status_code == 200, answer.text
        self.keys[name] = answer.json()["key"]

    async def change(self, http: httpx.AsyncClient) -> None:
        """A key comes, or one goes."""
        if len(self.keys) > 3:
            name = self.random.choice(list(self.keys))
            assert (await http.delete(f"/api/keys?name={name}")).status_code == 200
            del self.keys[name]
            return
        name = f"key{self.random.randrange(1 << 30)}"
        asked = {
            "name": name,
            "models": self.random.choice([[], ["m*"]]),
            "rpm": self.random.choice([0, 200]),
            "tpm": self.random.choice([0, 20_000]),
            "max_concurrent": self.random.choice([0, 2]),
            "weight": self.random.randint(1, 4),
        }
        answer = await http.post("/api/keys", json=asked)
        assert answer.status_code == 200, answer.text
        self.keys[name] = answer.json()["key"]

    async def run(self, seconds: float) -> None:
        self.over = False
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self.client(number))
            group.create_task(self.weather())
            group.create_task(self.watch())
            await asyncio.sleep(seconds)
            self.over = True

    async def calm(self) -> None:
        """Nobody holds anything any more."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=10, headers=self.admin) as http:
            async with asyncio.timeout(20):
                while True:
                    live = (await http.get("/v1/requests?state=live")).json()["data"]
                    rows = [row["blazar"] for row in (await http.get("/api/ps")).json()["models"]]
                    health = (await http.get("/health")).json()
                    keys = (await http.get("/api/keys")).json()["keys"]
                    busy = [
                        row
                        for row in rows
                        if row["in_flight"] or row["queued"] or row["state"] not in {"ready", "sleeping"}
                    ]
                    held = health["answers_in_flight"] + sum(key["running"] for key in keys)
                    if not live and not busy and not held:
                        return
                    await asyncio.sleep(0.1)


def worker_of(server: Server) -> int:
    """The process that serves."""
    assert server.process is not None
    return max(
        (pid for pid in children_of(server.process.pid) if b"blazar" in Path(f"/proc/{pid}/cmdline").read_bytes()),
        key=resident,
    )


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_a_storm_leaves_nothing_behind(tmp_path: Path, tiny: Path) -> None:
    settings = {
        "BLAZAR_ENGINE_SLOTS": "2",
        "BLAZAR_ENGINE_CONTEXT": "512",
        "BLAZAR_RESIDENCY_MEMORY_BYTES": "200000000",
        "BLAZAR_RESIDENCY_SWAP_S": "1",
        "BLAZAR_RESIDENCY_SLEEP_S": "2",
        "BLAZAR_RESIDENCY_STOP_GRACE_S": "1",
        "BLAZAR_ADMISSION_WAIT_S": "20",
        "BLAZAR_RELAY_PING_S": "0.5",
    }
    with serving(tmp_path, dict.fromkeys(MODELS, tiny), **settings) as server:
        storm = Storm(server, SEED)
        storm.keys["first"] = server.cli("keys", "add", "first").stdout.strip()
        storm.owner = json.loads((tmp_path / "data" / "run" / "daemon.json").read_bytes())["secret"]
        await storm.run(SECONDS / 4)
        await storm.calm()
        worker = worker_of(server)
        held, memory = descriptors(worker), resident(worker)
        await storm.run(SECONDS * 3 / 4)
        await storm.calm()
        print(storm.told)
        assert not storm.wrong, storm.wrong[:5]
        assert storm.told["200"] > 20
        assert storm.told["left"] > 3
        assert descriptors(worker) <= held + 8
        assert resident(worker) < memory + 24 * 1024 * 1024
        assert "Traceback" not in server.log.read_text()
        assert server.process is not None
        everyone = children_of(server.process.pid)
        server.stop()
        assert not [pid for pid in everyone if Path(f"/proc/{pid}").exists()], "no orphan"
