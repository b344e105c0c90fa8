"""``/api/engines``: the builds of engines that are installed, which one is used, and how they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from blazar.engines.install.contest import opponent
from blazar.engines.install.keeper import Channel
from blazar.engines.install.source import Wanted
from blazar.errors import BadRequest, KeyScopeForbidden
from blazar.gateway.body import typed, whole
from blazar.gateway.due import is_owner
from blazar.gateway.work import NDJSON, Work
from blazar.models.progress import Listener, Phase, Progress

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.engines.install.keeper import InUse, Keeper, Outcome
    from blazar.models.catalogue import Model
    from blazar.node import Node


class _Asked(msgspec.Struct):
    """``tag`` names a build for ``use`` and ``rm``, and the one that ``build`` makes; ``version`` is for ``install``
    and ``update``, empty for the newest. Without ``gate`` a new build is used however slow it is. ``source`` and
    ``options`` are for ``build``, as :class:`Wanted` has them.
    """

    action: Literal["install", "update", "build", "use", "rollback", "rm", "prune"]
    kind: str = "llamacpp"
    tag: str = ""
    version: str = ""
    channel: Channel = "auto"
    gate: bool = True
    source: str = ""
    options: tuple[str, ...] = ()


class Engines:
    """The builds."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """All of them, the one that is used first."""
        keeper, in_use = self._node.builds, self._in_use()
        found = await asyncio.to_thread(keeper.builds)
        resp.media = {
            "builds": [
                {
                    "kind": build.kind,
                    "tag": build.tag,
                    "channel": build.channel,
                    "version": build.version,
                    "used": place == 0,
                    "owned": keeper.owned(build.tag),
                    "backends": sorted(build.backends),
                    "models": in_use.get(build.tag, ()),
                    "path": build.path,
                }
                for place, build in enumerate(found)
            ]
        }

    async def on_post(self, req: Request, resp: Response) -> None:
        """A line for each step, and one for what came of it. Raises BadRequest for a kind that cannot be installed."""
        asked = typed(await whole(self._node, req), _Asked, req.path)
        if asked.kind != "llamacpp":
            raise BadRequest(f"Blazar cannot install '{asked.kind}' yet; it can llamacpp.", param="kind")
        if asked.action in ("use", "rm") and not asked.tag:
            raise BadRequest("Say which build: its tag.", param="tag")
        context = req.scope["blazar"]
        if asked.action == "build" and not is_owner(self._node.keys, context):
            raise KeyScopeForbidden(
                context.key.name if context.key else "",
                "the compiler: what is compiled here runs here, so it takes who may read this installation's files "
                "(blazar engine build, on this machine, without BLAZAR_API_KEY)",
            )
        context.watch_client()
        work = Work(self._node, self._job(asked), context.trace)
        context.finally_do(work.stop)
        context.streaming = True
        resp.content_type = NDJSON
        resp.stream = work.lines(
            "looking", _step, lambda outcome: {"status": "success", **msgspec.to_builtins(outcome)}
        )

    def _job(self, asked: _Asked) -> Callable[[Listener], Outcome]:
        keeper, in_use = self._node.builds, self._in_use()
        models = self._node.catalogue.list()

        def run(listener: Listener) -> Outcome:
            def tell(what: str) -> None:
                phase: Phase = "test" if " with " in what else "unpack" if asked.action == "build" else "download"
                listener(Progress(phase, what))

            return _run(keeper, asked, in_use, opponent(models), tell)

        return run

    def _in_use(self) -> InUse:
        found: dict[str, tuple[str, ...]] = {}
        for view in self._node.fleet.snapshot():
            found[view.build] = (*found.get(view.build, ()), view.name)
        return found


def _run(keeper: Keeper, asked: _Asked, in_use: InUse, rival: Model | None, tell: Callable[[str], None]) -> Outcome:
    match asked.action:
        case "install" | "update":
            gate = asked.gate and asked.action == "update"
            return keeper.add(asked.version, rival, tell, gate=gate, channel=asked.channel)
        case "build":
            wanted = Wanted(asked.source, asked.tag, asked.options)
            return keeper.add("", rival, tell, gate=asked.gate, wanted=wanted)
        case "use":
            return keeper.use(asked.tag)
        case "rollback":
            return keeper.rollback()
        case "rm":
            return keeper.remove(asked.tag, in_use)
        case "prune":
            return keeper.prune(in_use)


_DOING = {"test": "measuring", "unpack": "building"}


def _step(step: Progress) -> dict[str, object]:
    return {"status": _DOING.get(step.phase, "fetching"), "what": step.what}
