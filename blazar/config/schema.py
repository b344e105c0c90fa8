"""The one table of options. File key, environment variable, default, unit and help all come from these structs.

A key ``section.name`` of ``config.toml`` is the variable ``BLAZAR_SECTION_NAME``. Structs are frozen: a config is read
once and handed round as a value.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file; an unknown key in it is refused."""


class Server(Section, frozen=True):
    """Where Blazar listens."""

    host: Annotated[str, Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="port to listen on")] = 11435
    allowed_hosts: Annotated[
        tuple[str, ...], Meta(description="further names that the Host header may carry on a loopback bind")
    ] = ()
    max_body_bytes: Annotated[Bytes, Meta(description="largest request body, in bytes")] = 50 * 1024 * 1024
    cors_origins: Annotated[tuple[str, ...], Meta(description="origins that web pages may call from; '*' for any")] = ()
    remote_images: Annotated[
        Literal["off", "public", "any"],
        Meta(description="whether links to images in requests are followed: never, to public addresses, or to any"),
    ] = "off"
    normalise: Annotated[
        bool,
        Meta(
            description="take changing lines out of the front of agents' instructions, so that engines need not read "
            "the instructions anew"
        ),
    ] = True
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least serious line that is logged")
    ] = "info"


class Engine(Section, frozen=True):
    """How models run."""

    llamacpp_channel: Annotated[
        Literal["auto", "pypi", "release", "local"],
        Meta(description="which llama.cpp build runs models: a wheel, an official release or a local binary"),
    ] = "auto"
    llamacpp_path: Annotated[str, Meta(description="path of an official llama-server, for the channel 'local'")] = ""
    llamacpp_releases: Annotated[str, Meta(description="address of the list of llama.cpp's releases")] = (
        "https://api.github.com/repos/ggml-org/llama.cpp/releases"
    )
    context: Annotated[Count, Meta(description="tokens of context per slot; 0 means the model's own, at most 8192")] = 0
    slots: Annotated[int, Meta(ge=1, le=256, description="sequences that one model decodes at once")] = 4
    threads: Annotated[Count, Meta(description="CPU threads per model; 0 means the physical cores")] = 0
    batch: Annotated[
        int,
        Meta(ge=0, le=65536, description="prompt tokens decoded in one go; 0 means 128 on a CPU, 2048 on a GPU"),
    ] = 0
    gpu_layers: Annotated[int, Meta(ge=-1, description="layers on the GPU; -1 means as many as fit")] = -1
    cache_type: Annotated[
        Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"],
        Meta(description="element type of the KV cache"),
    ] = "f16"
    prompt_cache_bytes: Annotated[Bytes, Meta(description="RAM that one model may keep old prompts in, in bytes")] = 0


class Residency(Section, frozen=True):
    """Who stays in memory, and for how long."""

    keep_alive_s: Annotated[
        float, Meta(description="seconds that an idle model stays loaded; negative means forever")
    ] = 1800
    sleep_s: Annotated[
        float,
        Meta(
            ge=-1,
            description="seconds after which an idle model's engine lets go of its memory and stays, where it can; 0: "
            "never; -1: 300 with a GPU, never without. Pinned models, those of a session and those that stay forever "
            "do not sleep",
        ),
    ] = -1
    load_stall_s: Annotated[Seconds, Meta(description="a load that shows no progress for this long is given up")] = 120
    stop_grace_s: Annotated[Seconds, Meta(description="seconds between asking an engine to stop and killing it")] = 5
    swap_s: Annotated[
        Seconds,
        Meta(description="a model in use keeps its memory this long before another that waits for it has its turn"),
    ] = 10
    pinned: Annotated[tuple[str, ...], Meta(description="models that never leave to make room for others")] = ()
    preload: Annotated[tuple[str, ...], Meta(description="models that are loaded when Blazar starts")] = ()
    session_keep_s: Annotated[
        Seconds, Meta(description="a model stays this long after a request with the header x-blazar-session; 0: never")
    ] = 900
    session_bank_bytes: Annotated[
        Bytes,
        Meta(
            description="disk for what the engines had read of the conversations of sessions when their model left, so "
            "that it need not be read again, in bytes; 0: nothing is kept"
        ),
    ] = 512 * 1024 * 1024
    memory_bytes: Annotated[
        Bytes, Meta(description="RAM that models may use together, in bytes; 0 means what is available when one loads")
    ] = 0


class Health(Section, frozen=True):
    """When an engine that runs is replaced."""

    silent_s: Annotated[
        Seconds,
        Meta(description="an engine that owes answers, says nothing and uses no processor for this long is replaced"),
    ] = 30
    finish_s: Annotated[
        Seconds, Meta(description="time that an engine which takes no connection any more has to end its answers")
    ] = 30
    errors: Annotated[
        Count, Meta(description="failed answers in a row after which an engine is replaced; 0: never")
    ] = 5
    growth_bytes: Annotated[
        Bytes, Meta(description="an engine that grows by this beyond its plan is replaced once idle; 0: never")
    ] = 4 * 1024 * 1024 * 1024


class Admission(Section, frozen=True):
    """Who waits, and how long."""

    queue_per_model: Annotated[Count, Meta(description="requests that may wait for one model")] = 1024
    wait_s: Annotated[Seconds, Meta(description="longest wait for a slot")] = 120
    single_flight: Annotated[
        Literal["determined", "all", "off"],
        Meta(
            description="which equal whole answers that are wanted at once are made once: those in which nothing is "
            "drawn at random (temperature 0, or a seed), all, or none"
        ),
    ] = "determined"


class Relay(Section, frozen=True):
    """The way to an engine and back."""

    connect_s: Annotated[Seconds, Meta(description="longest wait for an engine to take a connection")] = 5
    head_s: Annotated[Seconds, Meta(description="longest wait for the first byte of an engine's answer")] = 600
    idle_s: Annotated[Seconds, Meta(description="longest silence in the middle of an engine's answer")] = 120
    ping_s: Annotated[
        Seconds, Meta(description="silence after which a stream gets a sign of life, be it queued or loading; 0: never")
    ] = 5
    buffer_bytes: Annotated[
        int, Meta(ge=4096, description="bytes kept for a slow client before its engine is held back")
    ] = 256 * 1024


class Models(Section, frozen=True):
    """Where models come from."""

    pip_args: Annotated[tuple[str, ...], Meta(description="further arguments for pip when it fetches a model")] = ()
    registry: Annotated[
        str, Meta(description="address of the registry that plain names are pulled from, in Ollama's protocol")
    ] = "https://registry.ollama.ai"
    registries: Annotated[
        tuple[str, ...], Meta(description="further registries that may be pulled from, as HOST or HOST:PORT")
    ] = ()
    hub: Annotated[
        str,
        Meta(
            description="address of the Hugging Face hub; empty: what HF_ENDPOINT says, else its own. The token for "
            "gated models is read from HF_TOKEN, or from where the hub's own tool keeps it"
        ),
    ] = ""
    lines: Annotated[int, Meta(ge=1, le=32, description="connections that fetch one file, side by side")] = 4
    rate_bytes: Annotated[
        Bytes, Meta(description="bytes a second that all pulls of one process may fetch together; 0: no bound")
    ] = 0


class Responses(Section, frozen=True):
    """Responses that clients of OpenAI's Responses API have kept."""

    keep_bytes: Annotated[Bytes, Meta(description="bytes of kept responses; the oldest leave first")] = (
        256 * 1024 * 1024
    )
    keep_days: Annotated[float, Meta(ge=0, description="days that a kept response stays")] = 30


class SemanticCache(Section, frozen=True):
    """Answers given again to who asks nearly the same."""

    mode: Annotated[
        Literal["off", "asked", "on"],
        Meta(
            description="who may get an answer that was made for a request of the same key which says nearly the same: "
            "nobody, who sends the header x-blazar-cache: on, or all who do not send off"
        ),
    ] = "off"
    model: Annotated[str, Meta(description="the embedding model that tells what is nearly the same")] = ""
    threshold: Annotated[
        float, Meta(ge=0.01, le=1, description="least cosine of two texts that count as nearly the same")
    ] = 0.9
    ttl_s: Annotated[float, Meta(ge=1, le=86400, description="seconds that an answer is given again")] = 600
    max_entries: Annotated[int, Meta(ge=1, le=65536, description="answers that are kept; the oldest leave first")] = 256
    max_bytes: Annotated[Bytes, Meta(description="bytes of answers that are kept")] = 64 * 1024 * 1024


class KeyEntry(Section, frozen=True):
    """One API key. As soon as there is one, nothing is answered without."""

    name: Annotated[str, Meta(description="what the key is called")]
    key: Annotated[str, Meta(description="the SHA-256 of its secret, as 'sha256:...', or the secret itself")]
    hint: Annotated[str, Meta(description="the first characters of the secret, to know it by")] = ""
    models: Annotated[
        tuple[str, ...], Meta(description="models that it may use, with * for any characters; none: all, and manage")
    ] = ()
    rpm: Annotated[Count, Meta(description="requests a minute; 0: no bound")] = 0
    tpm: Annotated[Count, Meta(description="tokens a minute; 0: no bound")] = 0
    daily_tokens: Annotated[Count, Meta(description="tokens in a day of UTC; 0: no bound")] = 0
    max_concurrent: Annotated[Count, Meta(description="requests at once; 0: no bound")] = 0
    weight: Annotated[int, Meta(ge=1, le=1000, description="share of a busy model, beside other keys'")] = 1


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    server: Server = Server()
    engine: Engine = Engine()
    residency: Residency = Residency()
    health: Health = Health()
    admission: Admission = Admission()
    relay: Relay = Relay()
    models: Models = Models()
    responses: Responses = Responses()
    semantic_cache: SemanticCache = SemanticCache()
    keys: tuple[KeyEntry, ...] = ()
