"""What a Modelfile sets over a model's own: kept as JSON in its row, put on every request to it."""

from __future__ import annotations

from typing import Any

import msgspec

from blazar import _native
from blazar.errors import BadRequest

# Of these a Modelfile names several.
_LISTS = frozenset({"stop"})
_INTEGERS = frozenset(
    {
        "num_ctx", "num_predict", "num_keep", "seed", "top_k", "repeat_last_n", "mirostat", "num_batch", "num_gpu",
        "num_thread",
    }
)  # fmt: skip
_NUMBERS = frozenset(
    {
        "temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty",
        "mirostat_eta", "mirostat_tau", "tfs_z",
    }
)  # fmt: skip


class Said(msgspec.Struct, omit_defaults=True):
    """A message of an example conversation."""

    role: str
    content: str = ""


class Lora(msgspec.Struct, frozen=True, omit_defaults=True):
    """An adapter over the weights: its file, and how strongly it counts."""

    path: str
    scale: float = 1.0


class Overlay(msgspec.Struct, omit_defaults=True, rename={"base": "from"}):
    """``base`` is the model that it was made from; ``template`` is in Ollama's language and takes the place of the
    model's own; ``parameters`` are Ollama's options.
    """

    base: str = ""
    template: str = ""
    system: str = ""
    parameters: dict[str, Any] = {}
    messages: list[Said] = []
    license: list[str] = []
    adapters: tuple[Lora, ...] = ()

    @property
    def said(self) -> bool:
        """It sets something."""
        return self != Overlay()

    def over(self, base: Overlay) -> Overlay:
        """What is set here, and what ``base`` sets where nothing is set here."""
        return Overlay(
            base=self.base,
            template=self.template or base.template,
            system=self.system or base.system,
            parameters=base.parameters | self.parameters,
            messages=self.messages or base.messages,
            license=self.license or base.license,
            adapters=self.adapters or base.adapters,
        )


def read(text: str) -> Overlay:
    """The overlay of a catalogue row; an empty one where there is none."""
    return msgspec.json.decode(text, type=Overlay) if text else Overlay()


def adapters(text: str) -> tuple[Lora, ...]:
    """Those that are put on the weights of a catalogue row."""
    return read(text).adapters if '"adapters"' in text else ()


def write(overlay: Overlay) -> str:
    """As ``read`` takes it."""
    return msgspec.json.encode(overlay).decode()


def checked_template(template: str, own: str) -> str:
    """The template that is set over a model whose own is ``own``: nothing where it is the same, since that one does
    more. Raises BadRequest for one that is not in Ollama's language.
    """
    if not template or template.strip() == own.strip():
        return ""
    try:
        _native.check_template(template)
    except _native.BadInput as bad:
        raise BadRequest(
            f"{bad.args[0]} Templates here are in Ollama's language; leave it out, and the model's own is used.",
            param="template",
        ) from None
    return template


def checked(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the types that requests take. Raises BadRequest for one that has another."""
    return {name: _checked(name, value) for name, value in parameters.items() if value is not None}


def _checked(name: str, value: Any) -> Any:
    path = f"parameters.{name}"
    if name in _LISTS:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise BadRequest("Expected a text, or a list of texts.", param=path)
        return values
    number = value
    if isinstance(value, str) and name in _INTEGERS | _NUMBERS:
        try:
            number = float(value)
        except ValueError:
            raise BadRequest(f"Expected a number, found '{value[:40]}'.", param=path) from None
    if name in _INTEGERS:
        if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
            raise BadRequest(f"Expected a whole number, found {value!r:.40}.", param=path)
        return int(number)
    if name in _NUMBERS and (isinstance(number, bool) or not isinstance(number, int | float)):
        raise BadRequest(f"Expected a number, found {value!r:.40}.", param=path)
    return number


def parameter_lines(parameters: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value as a Modelfile has them: texts in quotes, numbers bare, one line for each of several."""
    lines = []
    for name, value in parameters.items():
        for item in value if isinstance(value, list) else [value]:
            lines.append((name, msgspec.json.encode(item).decode()))
    return lines


def modelfile(overlay: Overlay, file: str, template: str) -> str:
    """The Modelfile that makes this model again."""
    lines = [f"FROM {file}", *(f"ADAPTER {adapter.path}" for adapter in overlay.adapters)]
    if template:
        lines.append(f'TEMPLATE """{template}"""')
    if overlay.system:
        lines.append(f'SYSTEM """{overlay.system}"""')
    lines += [f"PARAMETER {name} {value}" for name, value in parameter_lines(overlay.parameters)]
    lines += [f'MESSAGE {said.role} """{said.content}"""' for said in overlay.messages]
    lines += [f'LICENSE """{text}"""' for text in overlay.license]
    return "\n".join(lines) + "\n"
