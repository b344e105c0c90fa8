"""The ``/`` commands of the prompt."""

from __future__ import annotations

import difflib
import re
import shlex
from typing import TYPE_CHECKING, Any

from blazar.errors import BadRequest
from blazar.repl import settings

if TYPE_CHECKING:
    from blazar.repl.chat import Chat

HELP = (
    ("/set system TEXT", "set the system message; without TEXT, none"),
    ("/set parameter NAME VALUE", "set a sampling parameter; without VALUE, the model's own"),
    ("/set think | nothink", "ask the model to reason first, or not to"),
    ("/set verbose | quiet", "show figures after each answer, or not"),
    ("/show", "show what this conversation is asked with"),
    ("/show model", "show what the model is"),
    ("/load MODEL", "go on with another model; the conversation stays"),
    ("/clear", "forget the conversation; the settings stay"),
    ("/help", "show this"),
    ("/bye", "leave (or Ctrl-D)"),
)
WORDS = (
    "/set system",
    *(f"/set parameter {name}" for name in settings.NAMES),
    *(f"/set {word}" for word in ("think", "nothink", "verbose", "quiet")),
    *("/show", "/show model", "/load", "/clear", "/help", "/bye"),
)
_COMMAND = re.compile(r"/[a-z?]+(?=\s|$)", re.IGNORECASE)
_CARD = (
    ("general.architecture", "architecture"),
    ("general.parameter_count", "parameters"),
    ("{arch}.context_length", "context"),
    ("{arch}.embedding_length", "embedding"),
)


def is_command(line: str) -> bool:
    """Whether a line is meant for the prompt; a path such as ``/usr/bin/env`` is not."""
    return _COMMAND.match(line) is not None


def obey(chat: Chat, line: str) -> bool:
    """Do what a ``/`` line says; ``False`` when it says to leave. Raises ``BadRequest`` for what it cannot mean."""
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match word.lower():
        case "/bye" | "/exit" | "/quit":
            return False
        case "/help" | "/?":
            width = max(len(form) for form, _ in HELP)
            for form, meaning in HELP:
                chat.out.line(f"  {form:<{width}}  {chat.out.dim(meaning)}")
            chat.out.line(chat.out.dim('Several lines: begin and end with """. Ctrl-C stops an answer.'))
        case "/clear":
            chat.messages.clear()
            chat.out.line(chat.out.dim("The conversation is forgotten."))
        case "/load":
            _load(chat, rest)
        case "/show":
            _show(chat, rest)
        case "/set":
            _set(chat, rest)
        case _:
            known = [form.split(" ")[0] for form, _ in HELP]
            near = difflib.get_close_matches(word, known, n=1)
            raise BadRequest(f"There is no command '{word}'.{f' Did you mean {near[0]}?' if near else ' See /help.'}")
    return True


def _load(chat: Chat, name: str) -> None:
    if not name:
        raise BadRequest("Say which model: /load MODEL")
    # Asked first, so that a wrong name leaves the conversation with the model that it has.
    chat.client.show(name)
    chat.model = name
    chat.out.line(chat.out.dim(f"Going on with {name}."))


def _set(chat: Chat, rest: str) -> None:
    what, _, text = rest.partition(" ")
    text = text.strip()
    match what:
        case "system":
            chat.system = _unquoted(text)
            said = "The system message is set." if chat.system else "There is no system message now."
        case "parameter":
            said = _set_parameter(chat, text)
        case "think" | "nothink":
            chat.think = what == "think"
            said = "The model is asked to reason first." if chat.think else "The model is asked not to reason first."
        case "verbose" | "quiet":
            chat.verbose = what == "verbose"
            said = "Figures follow each answer." if chat.verbose else "Figures are off."
        case _:
            raise BadRequest("There are /set system, parameter, think, nothink, verbose and quiet.")
    chat.out.line(chat.out.dim(said))


def _set_parameter(chat: Chat, text: str) -> str:
    try:
        name, *values = shlex.split(text)
    except ValueError as fault:
        raise BadRequest("Say which: /set parameter NAME VALUE") from fault
    if not values:
        settings.check_name(name)
        chat.options.pop(name, None)
        return f"{name} is the model's own."
    chat.options[name] = settings.parameter(name, values)
    return f"{name} is {' '.join(values)}."


def _show(chat: Chat, what: str) -> None:
    if what not in ("", "model"):
        raise BadRequest("There are /show and /show model.")
    rows = _model_rows(chat.client.show(chat.model), chat.model) if what else _chat_rows(chat)
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        chat.out.line(f"  {chat.out.dim(f'{label:<{width}}')}  {chat.out.safe(value)}")


def _chat_rows(chat: Chat) -> list[tuple[str, str]]:
    rows = [("model", chat.model), ("system", chat.system or "none")]
    rows += [(name, str(value)) for name, value in chat.options.items()]
    if chat.think is not None:
        rows.append(("think", "yes" if chat.think else "no"))
    rows.append(("messages", str(len(chat.messages))))
    return rows


def _model_rows(shown: dict[str, Any], name: str) -> list[tuple[str, str]]:
    info = shown.get("model_info") or {}
    details = shown.get("details") or {}
    arch = str(info.get("general.architecture", ""))
    rows = [("model", name)]
    for key, label in _CARD:
        value = info.get(key.format(arch=arch))
        if value is not None:
            rows.append((label, f"{value:,}" if isinstance(value, int) else str(value)))
    if quantization := details.get("quantization_level"):
        rows.append(("quantization", str(quantization)))
    if capabilities := shown.get("capabilities"):
        rows.append(("can", ", ".join(str(word) for word in capabilities)))
    return rows


def _unquoted(text: str) -> str:
    for quotes in ('"""', '"', "'"):
        if len(text) >= 2 * len(quotes) and text.startswith(quotes) and text.endswith(quotes):
            return text[len(quotes) : -len(quotes)]
    return text
