"""``/api/keys``: the API keys, over HTTP, for a key that may manage. The first is made on the machine itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.config import keys as keyring
from blazar.config.schema import KeyEntry
from blazar.errors import BadRequest, Conflict, KeyScopeForbidden, KeysOff
from blazar.gateway.body import typed, whole

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.admission.keys import Key
    from blazar.node import Node
    from blazar.store import UsageRow


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    models: tuple[str, ...] = ()
    rpm: int = 0
    tpm: int = 0
    daily_tokens: int = 0
    max_concurrent: int = 0
    weight: int = 1


class ApiKeys:
    """All of them."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Each with its bounds and what it used today. Secrets are known to nobody but who has them."""
        _manager(req)
        keys = self._node.keys
        today = await keys.today()
        resp.media = {"keys": [card(key, today.get(key.name), fixed=keys.is_fixed(key)) for key in keys.all()]}

    async def on_post(self, req: Request, resp: Response) -> None:
        """Make one. Its secret is in the answer, and never again."""
        _manager(req)
        asked = typed(await whole(self._node, req), _Asked, req.path)
        try:
            entry = msgspec.convert(msgspec.structs.asdict(asked) | {"key": ""}, KeyEntry)
        except msgspec.ValidationError as fault:
            raise BadRequest(f"The key cannot be as asked: {fault}.") from None
        if self._node.keys.named(asked.name) is not None:
            raise Conflict(f"There is a key '{asked.name}' already.")
        secret = await asyncio.to_thread(keyring.add, self._node.paths, entry)
        _tell(self._node, resp, asked.name, secret)

    async def on_delete(self, req: Request, resp: Response) -> None:
        """Take ``?name=`` away. Raises NotFound, and Conflict for the last one."""
        _manager(req)
        name = _name(req)
        await asyncio.to_thread(keyring.remove, self._node.paths, name)
        self._node.keys.changed()
        resp.media = {"name": name, "deleted": True}


class RotateKey:
    """A new secret for an old key."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """The new secret of ``?name=`` is in the answer; the old one is worth nothing from now on."""
        _manager(req)
        name = _name(req)
        secret = await asyncio.to_thread(keyring.rotate, self._node.paths, name)
        _tell(self._node, resp, name, secret)


def _tell(node: Node, resp: Response, name: str, secret: str) -> None:
    node.keys.changed()
    key = node.keys.named(name)
    resp.set_header("cache-control", "no-store")
    resp.media = ({} if key is None else card(key, None, fixed=False)) | {"key": secret}


def card(key: Key, today: UsageRow | None, *, fixed: bool) -> dict[str, Any]:
    """A key as people see it."""
    entry = key.entry
    return {
        "name": key.name,
        "hint": keyring.hint(entry),
        "models": list(entry.models),
        "rpm": entry.rpm,
        "tpm": entry.tpm,
        "daily_tokens": entry.daily_tokens,
        "max_concurrent": entry.max_concurrent,
        "weight": entry.weight,
        "running": key.running,
        "fixed": fixed,
        "today": {
            "requests": today.requests if today else 0,
            "prompt_tokens": today.prompt if today else 0,
            "completion_tokens": today.completion if today else 0,
        },
    }


def _manager(req: Request) -> None:
    key: Key | None = req.scope["blazar"].key
    if key is None:
        raise KeysOff
    if not key.admin:
        raise KeyScopeForbidden(key.name, req.path)


def _name(req: Request) -> str:
    name = req.get_param("name")
    if not name:
        raise BadRequest("Say which key, with ?name=.", param="name")
    return name
