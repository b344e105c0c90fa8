"""Adapters on a model: each variant answers as it should, over one copy of the weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.support import patient, tiny_model
from tests.support.server import Server, serving


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    path = tmp_path / "Poet.gguf"
    tiny_model.write_adapter(path)
    return path


def says(server: Server, model: str) -> str:
    options = {"temperature": 0, "num_predict": 12, "seed": 1}
    body = {"model": model, "prompt": "hello", "raw": True, "stream": False, "options": options}
    answer = patient.post(f"{server.url}/api/generate", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == model
    return str(answer.json()["response"])


def test_variants_beside_their_model(tmp_path: Path, tiny: Path, adapter: Path) -> None:
    with serving(tmp_path / "home", {"tiny": tiny}, BLAZAR_ENGINE_CONTEXT="512") as server:
        plain = says(server, "tiny")
        told = server.cli("lora", "add", "tiny", str(adapter)).stderr
        assert "Ready: tiny+poet" in told
        server.cli("lora", "add", "tiny", str(adapter), "--scale", "0", "--name", "none")
        adapter.unlink()  # it was linked
        assert says(server, "tiny+poet") != plain
        assert says(server, "TINY:latest+Poet") == says(server, "tiny+poet")
        assert says(server, "tiny+none") == plain, "an adapter that counts nothing"
        assert says(server, "tiny") == plain
        assert {row["name"] for row in server.ps()} == {"tiny", "tiny+poet", "tiny+none"}
        rows = [json.loads(line) for line in server.cli("lora", "list", "--json").stdout.splitlines()]
        assert {(row["name"], row["scale"]) for row in rows} == {("tiny+poet", 1), ("tiny+none", 0)}
        assert len({row["file"] for row in rows}) == 1, "on disk once"
        shown = patient.post(f"{server.url}/api/show", json={"model": "tiny+poet"}).json()
        assert "ADAPTER" in shown["modelfile"]
        assert shown["details"]["parent_model"] == "tiny"
        twice = server.cli("lora", "add", "tiny", str(tiny), check=False)
        assert twice.returncode == 1
        assert "it is no adapter" in twice.stderr
        server.cli("stop", "tiny+none")
        server.cli("lora", "rm", "tiny+none")
        assert server.cli("lora", "rm", "tiny", check=False).returncode == 1
        assert says(server, "tiny+poet") != plain, "the other's file stays"
        missing = patient.post(f"{server.url}/api/generate", json={"model": "tiny+none", "prompt": "x"})
        assert missing.status_code == 404
        assert "tiny+poet" in missing.text
        server.cli("stop", "tiny+poet")
        server.cli("lora", "rm", "tiny+poet")
        assert not list(server.home.rglob("*oet*.gguf"))
        assert says(server, "tiny") == plain


def test_adapters_of_a_modelfile_and_of_an_upload(tmp_path: Path, tiny: Path, adapter: Path) -> None:
    with serving(tmp_path / "home", {"tiny": tiny}, BLAZAR_ENGINE_CONTEXT="512") as server:
        server.cli("lora", "add", "tiny", str(adapter))
        worn = says(server, "tiny+poet")
        modelfile = tmp_path / "Modelfile"
        modelfile.write_text(f"FROM tiny\nADAPTER ./{adapter.name}\nPARAMETER seed 1\n")
        server.cli("create", "made", "-f", str(modelfile))
        assert says(server, "made") == worn
        server.cli("stop", "made")
        server.cli("create", "made", "-f", str(modelfile))
        assert says(server, "made") == worn, "made anew with the same adapter"
        data = adapter.read_bytes()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert patient.post(f"{server.url}/api/blobs/{digest}", content=data).status_code == 201
        body = {"model": "sent", "from": "tiny", "adapters": {"a.gguf": digest}, "stream": False}
        answer = patient.post(f"{server.url}/api/create", json=body)
        assert answer.json() == {"status": "success"}
        assert says(server, "sent") == worn
        body["adapters"] = {"a.gguf": f"sha256:{'0' * 64}"}
        assert patient.post(f"{server.url}/api/create", json=body).status_code == 404
        body["adapters"] = {"..": digest}
        assert patient.post(f"{server.url}/api/create", json=body).status_code == 400


def test_an_adapter_of_another_kind_of_model_is_refused(tmp_path: Path, tiny: Path) -> None:
    other = tmp_path / "other.gguf"
    tiny_model.write_adapter(other, of="qwen3")
    with serving(tmp_path / "home", {"tiny": tiny}) as server:
        told = server.cli("lora", "add", "tiny", str(other), check=False)
        assert told.returncode == 1
        assert "it is for qwen3 models, and this one is of llama" in told.stderr
        assert server.cli("lora", "add", "tiny", str(other), "--name", "a/b", check=False).returncode == 1
        assert server.cli("lora", "list").stdout == ""
