"""What a conversation is asked with: sampling parameters by their names, checked before the daemon sees them."""

from __future__ import annotations

import difflib

from blazar.errors import BadRequest

Parameter = int | float | str | bool | list[str]

INTEGERS = ("num_ctx", "num_predict", "num_keep", "seed", "top_k", "repeat_last_n")
NUMBERS = ("temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
NAMES = (*INTEGERS, *NUMBERS, "stop")


def check_name(name: str) -> None:
    """Raise ``BadRequest``, with the nearest name, if there is no such parameter."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"There are {', '.join(NAMES)}."
        raise BadRequest(f"There is no parameter '{name}'. {hint}")


def parameter(name: str, texts: list[str]) -> Parameter:
    """The value of parameter ``name``; ``stop`` takes several texts. Raises ``BadRequest`` for what is wrong."""
    check_name(name)
    if name == "stop":
        return texts
    try:
        (text,) = texts
        return int(text) if name in INTEGERS else float(text)
    except ValueError as fault:
        wanted = "a whole number" if name in INTEGERS else "a number"
        raise BadRequest(f"'{name}' takes {wanted}, not '{' '.join(texts)}'.") from fault
