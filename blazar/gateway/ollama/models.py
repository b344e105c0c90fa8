"""``/api/tags``, ``/api/ps``, ``/api/show``, ``/api/version`` and the greeting at ``/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from blazar import _native
from blazar.clock import rfc3339
from blazar.errors import BadRequest
from blazar.gateway.body import typed, whole
from blazar.gateway.due import chosen, visible
from blazar.models import overlay as overlays

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.models.catalogue import Model
    from blazar.models.header import Header
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
        models = sorted(visible(req.scope["blazar"], self._node.catalogue.list()), key=lambda model: -model.modified_ns)
        resp.media = {"models": [_row(model) | {"modified_at": rfc3339(model.modified_ns)} for model in models]}


class Ps:
    """What is in memory."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Ollama's fields, and Blazar's own under ``blazar``."""
        rows = []
        context = req.scope["blazar"]
        for view in self._node.fleet.snapshot():
            if not visible(context, (view.model,)):
                continue
            _, queued = self._node.gate.counts(view.generation)
            rows.append(
                _row(view.model)
                | {
                    "size": view.total_bytes,
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
                        "gpus": view.gpus,
                        "gpu_layers": view.gpu_layers,
                        "slots": view.slots,
                        "in_flight": view.in_flight,
                        "queued": queued,
                        "load_ms": view.load_duration_ns // 1_000_000,
                        "progress": view.progress,
                        "eta_s": None if view.eta_s is None else round(view.eta_s, 1),
                        "reason": view.reason,
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
        model = chosen(self._node, req.scope["blazar"], asked.model or asked.name)
        header = self._node.catalogue.header(model)
        overlay = overlays.read(model.overlay)
        template = overlay.template or header.chat_template or ""
        lines = [f"{name:<30} {value}" for name, value in overlays.parameter_lines(overlay.parameters)]
        shown: dict[str, object] = {
            "license": "\n".join(overlay.license) or header.license,
            "modelfile": overlays.modelfile(overlay, model.files[0], template),
            "parameters": "\n".join(lines),
            "template": template,
            "system": overlay.system,
            "messages": overlay.messages,
            "details": _details(model),
            "model_info": _facts(header, verbose=asked.verbose),
            "capabilities": list(model.capabilities),
            "modified_at": rfc3339(model.modified_ns),
            "blazar": {"name": model.name, "source": model.source, "files": list(model.files), "size": model.size},
        }
        if asked.verbose:
            shown["tensors"] = [
                {"name": name, "type": kind, "shape": list(shape)} for name, kind, shape in header.tensors()
            ]
        resp.media = {key: value for key, value in shown.items() if value or key in _ALWAYS}


_ALWAYS = frozenset({"modelfile", "parameters", "template", "details", "model_info", "capabilities", "modified_at"})


def _facts(header: Header, *, verbose: bool) -> dict[str, object]:
    """The header's keys, and the number of parameters, which clients of this dialect look for."""
    facts = header.metadata(verbose=verbose)
    facts.pop("tokenizer.chat_template", None)
    facts["general.parameter_count"] = header.parameters
    return facts


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
        "parent_model": overlays.read(model.overlay).base,
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
