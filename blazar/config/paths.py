"""Where things lie: one value made from the environment, handed to whoever needs a place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Paths(msgspec.Struct, frozen=True):
    """The two roots. ``BLAZAR_HOME`` moves both into one folder, for tests and portable use."""

    config: Path
    data: Path

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Paths:
        """From ``BLAZAR_HOME``, else the XDG folders."""
        env = os.environ if env is None else env
        if home := env.get("BLAZAR_HOME"):
            root = Path(home).expanduser().absolute()
            return cls(config=root / "config", data=root / "data")
        user = Path(env.get("HOME") or "~").expanduser()
        config = Path(env.get("XDG_CONFIG_HOME") or user / ".config")
        data = Path(env.get("XDG_DATA_HOME") or user / ".local" / "share")
        return cls(config=config / "blazar", data=data / "blazar")

    @property
    def config_file(self) -> Path:
        """The TOML file of settings."""
        return self.config / "config.toml"

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.data / "blazar.db"

    @property
    def models(self) -> Path:
        """Weights, as plain files."""
        return self.data / "models"

    @property
    def files(self) -> Path:
        """What clients upload, and what batches write."""
        return self.data / "files"

    @property
    def engines(self) -> Path:
        """``engines/<kind>/<tag>/``: builds side by side."""
        return self.data / "engines"

    @property
    def sessions(self) -> Path:
        """What engines had read when they left; open to this user alone."""
        return self.data / "sessions"

    @property
    def snapshots(self) -> Path:
        """Copies of the database and the settings."""
        return self.data / "snapshots"

    @property
    def run(self) -> Path:
        """Pidfiles and secrets of what runs now; mode 0700."""
        return self.data / "run"

    @property
    def log(self) -> Path:
        """The daemon's log and each child's."""
        return self.data / "log"
