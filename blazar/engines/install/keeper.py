"""Every verb about builds: what is installed, which is used, and how they come and go. There is always one to use."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from blazar import hardware
from blazar.engines.install import channels, folders, pypi, release, source
from blazar.engines.install.builds import installed
from blazar.engines.install.contest import Speeds, contest, trial
from blazar.engines.routing import preferred
from blazar.errors import ConfigError, Conflict, NotFound

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Config
    from blazar.engines.base import Build
    from blazar.engines.install.source import Wanted
    from blazar.models.catalogue import Model
    from blazar.store.builds import BuildRows

Tell = Callable[[str], None]
Channel = Literal["auto", "pypi", "release"]
InUse = Mapping[str, tuple[str, ...]]
"""The models that run now, by the tag of their build."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the build that is used now, the one before, and what was measured, where that was done."""

    tag: str
    before: str = ""
    kept: bool = True
    speeds: Speeds | None = None
    note: str = ""
    removed: tuple[str, ...] = ()


class Keeper:
    """Builds of llama.cpp. Blocks: to be called from a thread."""

    def __init__(self, config: Config, paths: Paths, rows: BuildRows) -> None:
        self._options, self._pip_args = config.engine, config.models.pip_args
        self._paths = paths
        self._rows = rows

    def builds(self) -> tuple[Build, ...]:
        """All that are there, the one that is used first."""
        found = installed(self._options, self._paths, self._rows)
        first = preferred(found) if found else None
        return tuple(sorted(found, key=lambda build: build is not first))

    def owned(self, tag: str) -> bool:
        """It is ours to remove."""
        return folders.owned(self._paths, tag)

    def use(self, tag: str) -> Outcome:
        """Use this one from now on. Raises NotFound."""
        before = self._used()
        build = self._find(tag)
        self._rows.activate(channels.KIND, build.tag, time.time_ns())
        return Outcome(tag=build.tag, before=before)

    def rollback(self) -> Outcome:
        """Use the one that was used before. Raises NotFound."""
        there = {build.tag for build in self.builds()}
        earlier = [row for row in self._rows.list(channels.KIND) if row.used_ns and not row.active and row.tag in there]
        if not earlier:
            raise NotFound("earlier build to go back to")
        return self.use(max(earlier, key=lambda row: row.used_ns).tag)

    def add(
        self,
        version: str,
        rival: Model | None,
        tell: Tell,
        *,
        gate: bool,
        channel: Channel = "auto",
        wanted: Wanted | None = None,
    ) -> Outcome:
        """Fetch a build (the newest where ``version`` is empty) from ``channel``, or compile the one that is
        ``wanted``, beside those that are there; have it write with the model ``rival``, and use it from then on; with
        ``gate`` unless it writes slower than the one that is used now. Without a model nothing is tried.

        Raises as the channels' own ``install`` does; Conflict when it is installed already, ConfigError when it does
        not run. It is removed again then.
        """
        there = self.builds()
        before = {row.tag: row for row in self._rows.list(channels.KIND)}
        new = self._new(version, channel, wanted, there, tell)
        if new.tag in {build.tag for build in there}:  # in the environment that Blazar runs in
            self._discard(new.tag)
            if new.tag in before:
                self._rows.put(before[new.tag])
            raise Conflict(f"The build {new.tag} of llama.cpp is installed already.")
        old = there[0] if there else None
        try:
            speeds = self._try(rival, old if gate else None, new, tell)
            if speeds is not None and speeds.slower and old is not None:
                if wanted is None:
                    self._discard(new.tag)
                    return Outcome(tag=old.tag, before=old.tag, kept=False, speeds=speeds)
                note = f"it took long to compile, and so it is kept: blazar engine use {new.tag}, or rm"
                return Outcome(tag=old.tag, before=old.tag, kept=False, speeds=speeds, note=note)
            # What was used is written down, so that there is a way back to it.
            if old is not None and not old.active:
                self._rows.activate(channels.KIND, old.tag, time.time_ns())
            self._rows.activate(channels.KIND, new.tag, time.time_ns())
        except BaseException as fault:
            if wanted is None or isinstance(fault, ConfigError):  # what took long to compile, and runs, is kept
                self._discard(new.tag)
            raise
        note = "" if rival is not None else "it was not tried: that takes a model that writes, and memory for two of it"
        return Outcome(tag=new.tag, before=old.tag if old else "", speeds=speeds, note=note)

    def _new(
        self, version: str, channel: Channel, wanted: Wanted | None, there: tuple[Build, ...], tell: Tell
    ) -> Build:
        index = self._options.llamacpp_releases
        if wanted is not None:
            return source.install(self._paths, self._rows, tell, wanted=wanted, index=index, pip_args=self._pip_args)
        if self._channel(channel, there) == "release":
            return release.install(self._paths, self._rows, tell, index=index, version=version)
        return pypi.install(self._paths, self._rows, tell, version=version, pip_args=self._pip_args)

    @staticmethod
    def _channel(wanted: Channel, there: tuple[Build, ...]) -> Channel:
        """That of the build that is used; without one, and where a wheel would leave GPUs alone, a release."""
        if wanted != "auto":
            return wanted
        if there and there[0].channel == "release":
            return "release"
        reached = any(build.backends for build in there)
        return "release" if not reached and any(gpu.vendor in ("nvidia", "amd") for gpu in hardware.gpus()) else "pypi"

    @staticmethod
    def _try(rival: Model | None, old: Build | None, new: Build, tell: Tell) -> Speeds | None:
        if rival is None:
            return None
        if old is not None:
            return contest(rival, old, new, tell)
        trial(rival, new, tell)
        return None

    def remove(self, tag: str, in_use: InUse) -> Outcome:
        """Let a build go. Raises NotFound; Conflict for the one that is used, for one that runs a model, and for what
        is not ours.
        """
        build = self._find(tag)
        used = self._used()
        if build.tag == used:
            raise Conflict(f"'{tag}' is the build that is used. Use another first: blazar engine use TAG")
        if models := in_use.get(build.tag):
            raise Conflict(f"'{tag}' runs {', '.join(models)}. Take that out of memory first: blazar stop {models[0]}")
        if not self.owned(build.tag):
            cure = (
                "unset engine.llamacpp_path"
                if build.channel == "local"
                else f"it belongs to the environment of {build.path}: pip uninstall {channels.PACKAGE}"
            )
            raise Conflict(f"'{tag}' was not installed by Blazar; {cure}.")
        self._discard(build.tag)
        return Outcome(tag=used, removed=(build.tag,))

    def prune(self, in_use: InUse) -> Outcome:
        """Let all go that are ours, neither used nor the way back, and run nothing; and what work that was broken off
        left.
        """
        used = self._used()
        rows = [row for row in self._rows.list(channels.KIND) if row.tag != used and row.used_ns]
        back = max(rows, key=lambda row: row.used_ns).tag if rows else ""
        old = [build.tag for build in self.builds() if build.tag not in (used, back) and build.tag not in in_use]
        old = [tag for tag in old if self.owned(tag)]
        for tag in old:
            self._discard(tag)
        return Outcome(tag=used, removed=(*old, *folders.sweep(self._paths)))

    def _used(self) -> str:
        found = self.builds()
        return found[0].tag if found else ""

    def _find(self, tag: str) -> Build:
        found = self.builds()
        build = next((build for build in found if build.tag == tag), None)
        if build is None:
            there = ", ".join(build.tag for build in found) or "none"
            raise NotFound(f"build '{tag}' of {channels.KIND} (installed: {there})")
        return build

    def _discard(self, tag: str) -> None:
        self._rows.delete(channels.KIND, tag)
        folders.discard(self._paths, tag)
