"""``/api/create`` and ``/api/blobs``: models made of uploads, or of another model and what a Modelfile sets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import BadRequest, ModelNotFound
from blazar.gateway.body import typed, whole
from blazar.models import overlay as overlays
from blazar.models.overlay import Overlay, Said

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node

_BLOCK = 1 << 20
_ROLES = frozenset({"system", "user", "assistant"})


class _Asked(msgspec.Struct, rename={"base": "from"}):
    model: str = ""
    name: str = ""
    base: str = ""
    files: dict[str, str] = {}
    adapters: dict[str, str] = {}
    template: str = ""
    system: str = ""
    license: str | list[str] | None = None
    parameters: dict[str, Any] = {}
    messages: list[Said] = []
    quantize: str = ""
    quantization: str = ""
    stream: bool = True


class Create:
    """Makes a model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Lines as Ollama tells them, or with ``stream: false`` the last alone. Weights are never copied."""
        asked = typed(await whole(self._node, req), _Asked, req.path)
        name = asked.model or asked.name
        if not name:
            raise BadRequest("model is required", param="model")
        if not (asked.base or asked.files):
            raise BadRequest("neither 'from' or 'files' was specified", param="from")
        self._check(asked)
        overlay = _overlay(asked, self._template(asked))
        library = self._node.library
        await self._node.fleet.unload(name, "it is made anew")
        if asked.files:
            await asyncio.to_thread(library.from_blobs, name, asked.files, overlay)
        else:
            await asyncio.to_thread(self._derive, name, asked, overlay)
        self._node.catalogue.refresh()
        steps = ["parsing GGUF"] if asked.files else [f"using existing layer {self._node.catalogue.find(name).digest}"]
        steps += ["writing manifest", "success"]
        if asked.stream:
            resp.content_type = "application/x-ndjson"
            resp.data = b"".join(msgspec.json.encode({"status": step}) + b"\n" for step in steps)
        else:
            resp.media = {"status": "success"}

    def _check(self, asked: _Asked) -> None:
        """What cannot be done here is refused, not left out."""
        if asked.adapters and asked.files:
            raise BadRequest("Adapters are put on a model that is here: name it in 'from'.", param="adapters")
        if not all(Path(file).suffix.lower() == ".gguf" for file in asked.adapters):
            raise BadRequest("Adapters are GGUF files here; convert this one first.", param="adapters")
        if asked.quantize or asked.quantization:
            raise BadRequest("Quantise it first: blazar quantize MODEL TYPE, or /api/quantize.", param="quantize")

    def _derive(self, name: str, asked: _Asked, overlay: Overlay) -> None:
        """Of another model; uploaded adapters get their names for as long as it takes to link them."""
        library, paths = self._node.library, []
        with library.making(f"create:{name}", lambda: None) as folder:
            for number, (file, digest) in enumerate(asked.adapters.items()):
                (folder / str(number)).mkdir()
                paths.append(folder / str(number) / Path(file).name)
                os.link(library.blobs.find(digest), paths[-1])
            library.derive(name, asked.base, overlay, paths)
        for digest in asked.adapters.values():
            library.blobs.path(digest).unlink(missing_ok=True)

    def _template(self, asked: _Asked) -> str:
        """The template that is set: none where it is the model's own, which ``/api/show`` writes into Modelfiles."""
        own = ""
        if asked.template and asked.base:
            try:
                own = self._node.catalogue.header(self._node.catalogue.find(asked.base)).chat_template or ""
            except ModelNotFound as missing:
                missing.param = "from"
                raise
        return overlays.checked_template(asked.template, own)


def _overlay(asked: _Asked, template: str) -> Overlay:
    for place, said in enumerate(asked.messages):
        if said.role not in _ROLES:
            raise BadRequest("Expected system, user or assistant.", param=f"messages[{place}].role")
    license_ = [asked.license] if isinstance(asked.license, str) else asked.license or []
    return Overlay(
        template=template,
        system=asked.system,
        parameters=overlays.checked(asked.parameters),
        messages=asked.messages,
        license=[text for text in license_ if text],
    )


class Blob:
    """A file that is uploaded under its hash."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_head(self, req: Request, resp: Response, digest: str) -> None:
        """200 where it is here, 404 where not."""
        self._node.library.blobs.find(digest)

    async def on_post(self, req: Request, resp: Response, digest: str) -> None:
        """Straight to the disk, hashed on the way, of any size: 201, or 200 where it was here already."""
        blobs = self._node.library.blobs
        if blobs.has(digest):
            return
        with blobs.receiving(digest, req.content_length or 0) as writer:
            while piece := await req.stream.read(_BLOCK):
                await asyncio.to_thread(writer.write, piece)
        resp.status = 201
