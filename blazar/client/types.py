"""What the gateway answers, as far as the command line reads it. Unknown fields are ignored."""

from __future__ import annotations

import msgspec


class Health(msgspec.Struct, frozen=True):
    """Who answers at the address."""

    status: str
    version: str = ""
    pid: int | None = None


class Details(msgspec.Struct, frozen=True):
    """What a model is made of, in Ollama's words."""

    format: str = ""
    family: str = ""
    parameter_size: str = ""
    quantization_level: str = ""


class Runtime(msgspec.Struct, frozen=True):
    """What Blazar knows of a running instance beyond Ollama's fields. ``slots`` and the counts are of requests;
    ``progress`` (0 to 1) and ``eta_s`` are of a load, where they are known; ``reason`` says why it waits or leaves;
    ``gpus`` are those that hold ``gpu_layers`` of it, -1 for all.
    """

    state: str = ""
    pid: int | None = None
    port: int | None = None
    engine: str = ""
    build: str = ""
    slots: int = 0
    in_flight: int = 0
    queued: int = 0
    progress: float | None = None
    eta_s: float | None = None
    reason: str = ""
    gpus: tuple[str, ...] = ()
    gpu_layers: int = -1


class Running(msgspec.Struct, frozen=True):
    """One row of ``/api/ps``. ``size`` and ``size_vram`` are bytes, ``expires_at`` is RFC 3339."""

    name: str
    size: int = 0
    size_vram: int = 0
    context_length: int = 0
    expires_at: str = ""
    details: Details = Details()
    blazar: Runtime = Runtime()


class Checkpoint(msgspec.Struct, frozen=True):
    """What was saved of a model's conversations: ``size`` in bytes, ``saved_at`` as RFC 3339; without a name, what was
    saved by itself.
    """

    name: str = ""
    model: str = ""
    size: int = 0
    tokens: int = 0
    slots: int = 0
    context: int = 0
    cache_type: str = ""
    build: str = ""
    saved_at: str = ""


class Residence(msgspec.Struct, frozen=True):
    """One model in a plan of who fits together; ``need`` and ``left`` in bytes, ``why`` for what cannot be planned;
    ``pools`` are the ids of the GPUs that have some of it.
    """

    name: str
    act: str
    need: int = 0
    left: int = 0
    without: tuple[str, ...] = ()
    measured: bool = False
    loaded: bool = False
    pinned: bool = False
    why: str = ""
    pools: tuple[str, ...] = ()


class Coreside(msgspec.Struct, frozen=True):
    """A plan for ``budget`` bytes of main memory, and for those of each of ``gpus``, by their ids."""

    budget: int
    gpus: dict[str, int] = {}
    models: tuple[Residence, ...] = ()


class Candidate(msgspec.Struct, frozen=True):
    """A build (or a kind without one) and what it lacks to run a model; nothing where it is the one."""

    kind: str
    tag: str = ""
    lacks: str = ""


class Placing(msgspec.Struct, frozen=True):
    """Where a model would go, in words and in bytes."""

    why: str = ""
    fits: bool = True
    need: int = 0
    memory: int = 0
    gpus: dict[str, int] = {}
    measured: bool = False


class Explanation(msgspec.Struct, frozen=True):
    """Which build runs a model and why. ``tag`` is empty where none can."""

    model: str
    format: str = ""
    kind: str = ""
    tag: str = ""
    why: str = ""
    candidates: tuple[Candidate, ...] = ()
    place: Placing | None = None


class EngineBuild(msgspec.Struct, frozen=True):
    """An installed build: ``used`` for what is loaded from now on, ``owned`` if Blazar may remove it; ``models`` run on
    it now.
    """

    kind: str
    tag: str
    channel: str = ""
    version: str = ""
    used: bool = False
    owned: bool = False
    backends: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    path: str = ""


class Speeds(msgspec.Struct, frozen=True):
    """Tokens a second that two builds wrote with ``model``."""

    model: str = ""
    old: float = 0
    new: float = 0


class Step(msgspec.Struct, frozen=True):
    """A line about long work: what is done now, or of status ``success``: that it is done."""

    status: str = ""
    what: str = ""
    error: str | None = None
    blazar_code: str = ""


class EngineStep(Step, frozen=True):
    """About builds; the last one says what came of it."""

    tag: str = ""
    before: str = ""
    kept: bool = True
    speeds: Speeds | None = None
    note: str = ""
    removed: tuple[str, ...] = ()


class QuantizeStep(Step, frozen=True):
    """About a smaller model; the last one says what came of it. Perplexities are 0 where they were not measured."""

    model: str = ""
    size: int = 0
    before_size: int = 0
    perplexity: float = 0
    before_perplexity: float = 0


class Choice(msgspec.Struct, frozen=True):
    """One quantisation, and in which kind of place it fits (``gpu``, ``gpus``, ``partly``, ``memory``, ``no``).
    ``size`` and ``need`` in bytes; ``context`` tokens fit, of ``trained``; ``layers`` of ``of`` are on GPUs; ``slots``
    conversations of ``each`` tokens at once; ``speed`` in tokens a second, where that can be told. ``exact`` is false
    where it was reckoned from another quantisation.
    """

    target: str
    quantization: str = ""
    size: int = 0
    here: bool = False
    exact: bool = True
    recommended: bool = False
    fits: str = "no"
    need: int = 0
    context: int = 0
    trained: int = 0
    layers: int = 0
    of: int = 0
    slots: int = 0
    each: int = 0
    speed: float | None = None


class Fit(msgspec.Struct, frozen=True):
    """What may be meant by ``model``, for ``memory`` bytes of main memory and those of each of ``gpus``."""

    model: str
    architecture: str = ""
    parameters: int = 0
    memory: int = 0
    gpus: dict[str, int] = {}
    cache_type: str = ""
    choices: tuple[Choice, ...] = ()


class Installed(msgspec.Struct, frozen=True):
    """One row of ``/api/tags``. ``size`` is bytes, ``modified_at`` is RFC 3339."""

    name: str
    size: int = 0
    digest: str = ""
    modified_at: str = ""
    details: Details = Details()
    capabilities: tuple[str, ...] = ()


class Message(msgspec.Struct, omit_defaults=True):
    """One turn of a conversation."""

    role: str
    content: str = ""
    thinking: str = ""


class Said(msgspec.Struct, frozen=True):
    """What one line of an answer adds."""

    content: str = ""
    thinking: str = ""


class Part(msgspec.Struct, frozen=True):
    """One line of a streamed answer; the last has ``done`` and the figures. Durations are nanoseconds."""

    message: Said = Said()
    done: bool = False
    done_reason: str = ""
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    prompt_eval_duration: int = 0
    eval_count: int = 0
    eval_duration: int = 0
    error: str | None = None
    blazar_code: str = ""


class ChatRequest(msgspec.Struct, omit_defaults=True):
    """The body of ``/api/chat``. ``keep_alive`` is seconds or a duration such as ``5m``; negative means forever."""

    model: str
    messages: list[Message]
    stream: bool | None = None
    options: dict[str, int | float | str | bool | list[str]] | None = None
    think: bool | str | None = None
    format: str | None = None
    keep_alive: int | float | str | None = None


class Problem(msgspec.Struct, frozen=True):
    """The body of an error."""

    error: str = ""
    blazar_code: str = ""
