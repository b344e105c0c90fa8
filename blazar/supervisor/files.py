"""Names of files that stand for models."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 80


def log_name(model: str) -> str:
    """A file name for a model's log: readable, and different for different models."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", model)[:_LONGEST]
    return f"engine-{safe}-{hashlib.sha256(model.encode()).hexdigest()[:8]}.log"
