"""The face that every engine kind shows to the supervisor. Values here are data; nothing in this room starts a process
except ``install``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from blazar.models.catalogue import Model


# The vendors of the GPUs that a backend reaches; those that are not named reach any.
VENDORS = {"CUDA": "nvidia", "ROCm": "amd", "Metal": "apple", "MTL": "apple", "MUSA": "mthreads", "CANN": "huawei"}
# Backends whose runtime can be told by id which GPUs to show.
TOLD = {"CUDA": "CUDA_VISIBLE_DEVICES", "ROCm": "ROCR_VISIBLE_DEVICES"}


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """One installed build of an engine. ``path`` is the program, or for the channel ``pypi`` the interpreter that has
    the package. ``flags`` are the options that its help page names, empty when it was never probed; ``backends`` what
    it can reach GPUs with on this machine, as in ``CUDA``.
    """

    kind: str
    tag: str
    channel: str
    path: str
    version: str = ""
    flags: frozenset[str] = frozenset()
    backends: frozenset[str] = frozenset()
    fingerprint: str = ""
    active: bool = False

    def reaches(self, vendor: str) -> bool:
        """It has a backend for the GPUs of ``vendor``."""
        return any(VENDORS.get(backend, vendor) == vendor for backend in self.backends)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one model is to run. ``context`` is in tokens per slot; ``prompt_cache`` in bytes; ``batch`` in tokens of a
    prompt that are decoded in one go; ``gpu_layers`` -1 means as many as fit, and ``parts`` how many of them each of
    ``devices`` (ids of GPUs, none: any) has; ``embeds``: a model that generates gives
    vectors too; ``projector``: the file that lets it see, or nothing; ``sleep_s``: seconds without work after which the
    engine lets go of the model and keeps running, 0 for never; ``saves``: the folder for what slots hold, or
    nothing; ``adapters``: files that are put on the weights, and how strongly each counts.
    """

    context: int
    slots: int
    threads: int
    batch: int = 2048
    gpu_layers: int = -1
    devices: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()
    cache_type: str = "f16"
    prompt_cache: int = 0
    embeds: bool = False
    projector: str = ""
    sleep_s: int = 0
    saves: str = ""
    adapters: tuple[tuple[str, float], ...] = ()


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a child listens: the path of a Unix socket, or TCP. Port 0 asks the child to choose one and say it."""

    unix: str = ""
    host: str = "127.0.0.1"
    port: int = 0


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that starting a child takes. ``env`` is the whole environment, not an addition. ``dropped`` names the
    wanted options that this build does not know.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    alias: str
    address: Address
    secret: str
    dropped: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """Why a child ended: ``how`` continues the sentence "The engine that runs 'x' ..."."""

    cause: Literal["memory", "model", "engine", "settings"]
    how: str


class Adapter(Protocol):
    """One engine kind."""

    kind: str
    family: str
    formats: frozenset[str]
    vital: str
    """The path of a question that the engine's own loop answers, not only the threads that take connections."""

    def launch(
        self, model: Model, build: Build, settings: Settings, *, address: Address, secret: str, scratch: Path
    ) -> LaunchPlan:
        """The launch line of ``model``. ``scratch`` is a private empty folder that the child may see as its home."""

    def heard(self, line: str) -> Address | None:
        """The address that a line of the child's log announces."""

    def classify(self, lines: Sequence[str], code: int | None) -> Failure:
        """Why a child with these last lines and this return code (negative: minus the signal) ended."""

    def telling(self, lines: Sequence[str], count: int) -> tuple[str, ...]:
        """The few of these lines that a person wants to read after a failure."""

    def command(self, build: Build) -> tuple[str, ...]:
        """The program and the arguments that come before any option."""
