"""Pictures in every dialect, on a real engine with a projector that is loaded when the first one comes."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.support import patient
from tests.support.picture import base64_png, png, webp
from tests.support.server import Server, serving
from tests.support.tiny_model import write_projector

PICTURE = base64_png()
URL = f"data:image/png;base64,{PICTURE}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("images")
    write_projector(folder / "eyes.gguf")
    with serving(folder / "home", {"sees": tiny, "blind": tiny}, BLAZAR_ENGINE_CONTEXT="1024") as running:
        running.cli("mmproj", "sees", str(folder / "eyes.gguf"))
        yield running


def row(server: Server, name: str = "sees") -> Any:
    return next(row["blazar"] for row in server.ps() if row["name"] == name)


def asked(route: str, model: str, picture: str = PICTURE) -> dict[str, Any]:
    url = picture if picture.startswith("http") else f"data:image/png;base64,{picture}"
    source: dict[str, str] = {"type": "base64", "media_type": "image/png", "data": picture}
    if picture.startswith("http"):
        source = {"type": "url", "url": picture}
    text = "What is this?"
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}],
                }
            ],
            "max_tokens": 3,
        },
        "/v1/responses": {
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url}],
                }
            ],
            "max_output_tokens": 3,
        },
        "/v1/messages": {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image", "source": source}]}
            ],
            "max_tokens": 3,
        },
        "/api/chat": {
            "messages": [{"role": "user", "content": text, "images": [picture]}],
            "options": {"num_predict": 3},
            "stream": False,
        },
        "/api/generate": {"prompt": text, "images": [picture], "options": {"num_predict": 3}, "stream": False},
    }
    return {"model": model, **bodies[route]}


ROUTES = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/generate"]


def test_the_projector_comes_with_the_first_picture_and_stays(server: Server) -> None:
    plain = {"model": "sees", "messages": [{"role": "user", "content": "What is this?"}], "max_tokens": 3}
    patient.post(f"{server.url}/v1/chat/completions", json=plain, timeout=120)
    first = row(server)["pid"]
    assert b"--mmproj" not in Path(f"/proc/{first}/cmdline").read_bytes()
    answer = patient.post(f"{server.url}/v1/chat/completions", json=asked("/v1/chat/completions", "sees"), timeout=120)
    assert answer.status_code == 200, answer.text
    second = row(server)["pid"]
    assert second != first
    assert b"--mmproj" in Path(f"/proc/{second}/cmdline").read_bytes()
    patient.post(f"{server.url}/v1/chat/completions", json=plain, timeout=120)
    assert row(server)["pid"] == second


@pytest.mark.parametrize("route", ROUTES)
def test_a_picture_costs_tokens_and_is_answered(server: Server, route: str) -> None:
    answer = patient.post(server.url + route, json=asked(route, "sees"), timeout=120)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    usage = body.get("usage", body)
    prompt = next(usage[key] for key in ("prompt_tokens", "input_tokens", "prompt_eval_count") if key in usage)
    # Anthropic counts what the engine had before apart.
    assert prompt + usage.get("cache_read_input_tokens", 0) > 40


@pytest.mark.parametrize("route", ROUTES)
def test_a_model_without_projector_says_so(server: Server, route: str) -> None:
    answer = patient.post(server.url + route, json=asked(route, "blind"), timeout=120)
    assert answer.status_code == 400
    assert "VISION_PROJECTOR_MISSING" in answer.text
    assert "blazar mmproj blind" in answer.text, "it names the cure"


def test_official_packages_send_pictures(server: Server) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
        content: Any = [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "This?"}]
        chat = client.chat.completions.create(
            model="sees", messages=[{"role": "user", "content": content}], max_tokens=2, temperature=0
        )
        assert chat.choices[0].finish_reason == "length"
    with anthropic.Anthropic(base_url=server.url, api_key="x") as claude:
        block: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
        assert claude.messages.create(model="sees", max_tokens=2, messages=[{"role": "user", "content": [block]}]).id
    told = ollama.Client(host=server.url)
    assert told.generate("sees", "This?", images=[png()], options={"num_predict": 2}).done
    assert "vision" in (told.show("sees").capabilities or [])
    told._client.close()


def test_a_broken_picture_is_the_clients_fault(server: Server) -> None:
    broken = PICTURE[:200] + "A" * 40
    answer = patient.post(
        f"{server.url}/v1/chat/completions", json=asked("/v1/chat/completions", "sees", broken), timeout=30
    )
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("kind", ["lossless", "lossy"])
@pytest.mark.parametrize("route", ROUTES)
def test_trap_48_webp_is_read_though_the_engine_cannot(server: Server, route: str, kind: str) -> None:
    def prompt(picture: str) -> Any:
        answer = patient.post(server.url + route, json=asked(route, "sees", picture), timeout=120)
        assert answer.status_code == 200, answer.text
        usage = answer.json().get("usage", answer.json())
        counts = ("prompt_tokens", "input_tokens", "prompt_eval_count", "cache_read_input_tokens")
        return sum(usage.get(key, 0) for key in counts)

    assert prompt(base64.b64encode(webp(kind)).decode()) == prompt(PICTURE)


def test_a_broken_webp_is_the_clients_fault(server: Server) -> None:
    broken = base64.b64encode(webp("lossy")[:-60]).decode()
    answer = patient.post(f"{server.url}/api/chat", json=asked("/api/chat", "sees", broken), timeout=120)
    assert answer.status_code == 400, answer.text
    assert "WebP" in answer.text


LINKED = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("/v1/chat/completions", "messages[0].content[1].image_url.url"),
        ("/v1/responses", "input[0].content[1].image_url"),
        ("/v1/messages", "messages[0].content[1].source.url"),
    ],
)
def test_links_are_not_followed_unless_the_owner_says_so(server: Server, route: str, path: str) -> None:
    answer = patient.post(server.url + route, json=asked(route, "sees", "http://127.0.0.1:9/a.png"), timeout=120)
    assert answer.status_code == 400
    assert "server.remote_images" in answer.text
    assert path in answer.text


@contextmanager
def pictures() -> Iterator[str]:
    """A web server with a picture, something else, and a way round."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/moved" else 200)
            if self.path == "/moved":
                self.send_header("location", "/a.png")
            self.end_headers()
            self.wfile.write(png() if self.path == "/a.png" else b"<html>")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_address[1]}"
        web.shutdown()


def test_links_are_followed_where_the_owner_says_so(tmp_path: Path, tiny: Path) -> None:
    write_projector(tmp_path / "eyes.gguf")
    for mode, good in (("any", 200), ("public", 400)):
        settings = {"BLAZAR_ENGINE_CONTEXT": "1024", "BLAZAR_SERVER_REMOTE_IMAGES": mode}
        with pictures() as web, serving(tmp_path / mode, {"sees": tiny}, **settings) as own:
            own.cli("mmproj", "sees", str(tmp_path / "eyes.gguf"))
            for route in LINKED:
                for path in ("/a.png", "/moved"):
                    answer = patient.post(own.url + route, json=asked(route, "sees", web + path), timeout=120)
                    assert answer.status_code == good, answer.text
                    if good != 200:
                        assert "no public address" in answer.text
            page = patient.post(own.url + LINKED[0], json=asked(LINKED[0], "sees", web + "/page"), timeout=120)
            assert page.status_code == 400
            gone = asked(LINKED[0], "sees", "http://127.0.0.1:9/a.png")
            assert patient.post(own.url + LINKED[0], json=gone, timeout=120).status_code == 400
