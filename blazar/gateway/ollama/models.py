"""``/api/tags``, ``/api/ps``, ``/api/show``, ``/api/version`` and the greeting at ``/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from blazar import _native
from blazar.clock import rfc3339
from blazar.errors import BadRequest
from blazar.gateway.body import typed, whole

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.models.catalogue import Model
    from blazar.node import Node

_FOREVER = "2318-01-01T00:00:00Z"  # Ollama's own clients read a far date as "Forever"


class Greeting:
    """What Ollama says at its root; clients use it to see whether somebody is there."""

    async def on_get(self, req: Request, resp: Response) -> None:
        """Say it."""
        resp.content_type = "text/plain; charset=utf-8"
        resp.text = "Ollama is running"

    on_head = on_get


class Version:
    """The version."""

    async def on_get(self, req: Request, resp: Response) -> None:
        """Blazar's own."""
        resp.media = {"version": _native.VERSION}


class Tags:
    """The catalogue."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Every model, the newest first, as Ollama orders them."""
        models = sorted(self._node.catalogue.list(), key=lambda model: -model.modified_ns)
        resp.media = {"models": [_row(model) | {"modified_at": rfc3339(model.modified_ns)} for model in models]}


class Ps:
    """What is in memory."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Ollama's fields, and Blazar's own under ``blazar``."""
        rows = []
        for view in self._node.fleet.snapshot():
            _, queued = self._node.gate.counts(view.generation)
            rows.append(
                _row(view.model)
                | {
                    "size": view.resident_bytes,
                    "size_vram": view.vram_bytes,
                    "context_length": view.context,
                    "expires_at": _FOREVER if view.expires_at_ns is None else rfc3339(view.expires_at_ns),
                    "blazar": {
                        "state": view.state,
                        "pid": view.pid,
                        "port": view.port,
                        "socket": view.unix,
                        "engine": view.kind,
                        "build": view.build,
                        "slots": view.slots,
                        "in_flight": view.in_flight,
                        "queued": queued,
                        "load_ms": view.load_duration_ns // 1_000_000,
                        "progress": view.progress,
                    },
                }
            )
        resp.media = {"models": rows}


class _ShowRequest(msgspec.Struct):
    model: str = ""
    name: str = ""
    verbose: bool = False


class Show:
    """All that is known of a model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Details from its header; long arrays only with ``verbose``."""
        asked = typed(await whole(self._node, req), _ShowRequest, req.path)
        if not (asked.model or asked.name):
            raise BadRequest("model is required", param="model")
        model = self._node.catalogue.find(asked.model or asked.name)
        header = self._node.catalogue.header(model)
        resp.media = {
            "modelfile": f"FROM {model.files[0]}\n",
            "parameters": "",
            "template": header.chat_template or "",
            "details": _details(model),
            "model_info": header.metadata(verbose=asked.verbose),
            "capabilities": list(model.capabilities),
            "modified_at": rfc3339(model.modified_ns),
            "blazar": {"name": model.name, "source": model.source, "files": list(model.files), "size": model.size},
        }


def _row(model: Model) -> dict[str, object]:
    return {
        "name": model.name,
        "model": model.name,
        "size": model.size,
        "digest": model.digest.removeprefix("sha256:"),
        "details": _details(model),
    }


def _details(model: Model) -> dict[str, object]:
    return {
        "parent_model": "",
        "format": model.format,
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": _parameters(model.parameters),
        "quantization_level": model.quantization,
        "context_length": model.context_length,
    }


def _parameters(count: int) -> str:
    """As Ollama writes it: ``134.52M``, ``7.6B``."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f}B"
    if count >= 1_000_000:
        return f"{count / 1e6:.2f}M"
    return f"{count / 1e3:.2f}K" if count >= 1000 else str(count)
