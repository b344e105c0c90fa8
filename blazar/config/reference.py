"""The table of options as people read it: a commented file of defaults, and a page of reference."""

from __future__ import annotations

from itertools import groupby

from blazar.config import options
from blazar.config.schema import Config


def toml(value: options.Value) -> str:
    """One value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def defaults() -> str:
    """A config.toml that says only what holds anyway: each option commented out, under its help."""
    parts = []
    for section, group in groupby(options.table().values(), key=lambda option: option.section):
        lines = [f"# {purpose(section)}", f"[{section}]"]
        for option in group:
            lines += [f"# {option.help} ({option.type_words})", f"# {option.name} = {toml(option.default)}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def markdown() -> str:
    """The page of reference: a table of options for each section."""
    parts = []
    for section, group in groupby(options.table().values(), key=lambda option: option.section):
        rows = ["| key | type | unit | default | variable | meaning |", "|---|---|---|---|---|---|"]
        for option in group:
            kind = option.type_words.replace("|", "\\|")
            cells = (f"`{option.key}`", kind, option.unit, f"`{toml(option.default)}`", f"`{option.env}`", option.help)
            rows.append(f"| {' | '.join(cells)} |")
        parts.append(f"## {section}\n\n{purpose(section)}\n\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def purpose(section: str) -> str:
    """The sentence that says what a section is about."""
    kind = type(getattr(Config(), section))
    return (kind.__doc__ or "").strip().splitlines()[0]
