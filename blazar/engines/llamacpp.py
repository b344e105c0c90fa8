"""llama.cpp's server: the launch line, what its log says, and why it ended.

Two channels give the same HTTP surface from the same options: ``local`` is an official ``llama-server``; ``pypi`` is
the package ``xllamacpp``, which holds the server's code, run by the script ``llamacpp_child.py``.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.engines.base import TOLD, Address, Build, Failure, LaunchPlan, Settings
from blazar.errors import ModelUnsupportedEngine

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

SHIM = Path(__file__).with_name("llamacpp_child.py")
_PING_S = 5
_ADAPTERS = "--lora-scaled"
_MICRO_BATCH = 512
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "TMPDIR")
_KEPT_PREFIXES = ("CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "VK_", "GGML_", "OMP_")
_LISTENING = re.compile(r"listening on (?:http://(?P<host>\[[^]]+\]|[^:/\s]+):(?P<port>\d+)|unix://(?P<unix>\S+))")

# In this order: the first text that the log holds wins. From llama.cpp's own messages, which are all that tell one
# cause from another, since nearly every failure ends with code 1.
_CAUSES: tuple[tuple[re.Pattern[str], Failure], ...] = tuple(
    (re.compile(text, re.IGNORECASE), failure)
    for text, failure in (
        (
            r"failed to allocate|unable to allocate|out of memory|insufficient memory|memory allocation of size|"
            r"ErrorOutOfDeviceMemory|failed to fit params",
            Failure("memory", "ran out of memory while loading"),
        ),
        (
            r"unknown model architecture",
            Failure("model", "does not know this model's architecture; a newer build of it may"),
        ),
        (r"unknown pre-tokenizer", Failure("model", "does not know this model's tokenizer; a newer build of it may")),
        (
            r"No such file or directory|failed to open GGUF",
            Failure("model", "could not open the model's file; was it moved or deleted?"),
        ),
        (r"invalid magic", Failure("model", "found that the file is no GGUF model")),
        (
            r"not within the file bounds|corrupted or incomplete",
            Failure("model", "found the model's file damaged or incomplete; pull it again"),
        ),
        (
            r"missing tensor|wrong number of tensors|wrong shape",
            Failure("model", "found other tensors in the file than this architecture has"),
        ),
        (
            r"quantized V cache|V cache quantization",
            Failure("settings", "cannot use this engine.cache_type without flash attention"),
        ),
        (
            r"invalid argument|error while handling argument|argument has been removed",
            Failure("settings", "does not take an option of its launch line"),
        ),
        (r"couldn't bind", Failure("engine", "could not listen on its address")),
        (r"No module named|ImportError|cannot open shared object", Failure("engine", "is not installed completely")),
        (r"failed to load model|model loading error|Failed to init server", Failure("model", "could not load it")),
    )
)
_ERROR = re.compile(r"^[\d.]+ E |error|fatal|GGML_ASSERT|Traceback", re.IGNORECASE)
_SIGNALS = {
    signal.SIGILL: Failure("engine", "was built for another CPU (illegal instruction)"),
    signal.SIGKILL: Failure("engine", "was killed (SIGKILL: by hand, or by the system for want of memory)"),
}


class LlamaCpp:
    """The engine kind ``llamacpp``."""

    kind = "llamacpp"
    family = "llama"
    formats = frozenset({"gguf"})
    # Its answer comes from the queue that the model's loop works off.
    vital = "/slots"

    def command(self, build: Build) -> tuple[str, ...]:
        """The program and the arguments that come before any option."""
        return (build.path, "-I", str(SHIM)) if build.channel == "pypi" else (build.path,)

    def launch(
        self, model: Model, build: Build, settings: Settings, *, address: Address, secret: str, scratch: Path
    ) -> LaunchPlan:
        """The launch line. Every option that matters is given, so that no file on the machine can set it otherwise."""
        # The engine reads a comma as the start of a second name.
        alias = model.name.replace(",", "_")
        if settings.adapters and build.flags and _ADAPTERS not in build.flags:
            # Without its adapters it would be another model.
            raise ModelUnsupportedEngine(
                model.name,
                f"the build {build.tag} puts no adapters on models",
                "A newer one does: blazar engine update",
            )
        wanted = [("--model", model.files[0]), ("--alias", alias), *_where(address)]
        wanted += [*_size(model, settings), *_batch(model, settings), *_talents(model, settings), *_conduct(settings)]
        known = [option for option in wanted if not build.flags or option[0] in build.flags]
        return LaunchPlan(
            argv=(*self.command(build), *(word for option in known for word in option)),
            env=_environment(secret, scratch) | _gpus(build, settings),
            cwd=scratch,
            alias=alias,
            address=address,
            secret=secret,
            dropped=tuple(option[0] for option in wanted if option not in known),
        )

    def heard(self, line: str) -> Address | None:
        """The address in ``listening on ...``."""
        found = _LISTENING.search(line)
        if found is None:
            return None
        if found["unix"]:
            return Address(unix=found["unix"])
        return Address(host=found["host"].strip("[]"), port=int(found["port"]))

    def classify(self, lines: Sequence[str], code: int | None) -> Failure:
        """By the text of the log first, then by the signal."""
        text = "\n".join(lines)
        for pattern, failure in _CAUSES:
            if pattern.search(text):
                return failure
        if code is not None and code < 0:
            known = next((failure for number, failure in _SIGNALS.items() if number == -code), None)
            return known or Failure("engine", f"died of {_signal_name(-code)}")
        return Failure("engine", f"ended with code {code}")

    def telling(self, lines: Sequence[str], count: int) -> tuple[str, ...]:
        """The first lines that complain, since the cause comes before its consequences; without any, the newest."""
        complaints = [line for line in lines if _ERROR.search(line)]
        return tuple(complaints[:count] or lines[-count:])


def _where(address: Address) -> list[tuple[str, ...]]:
    if address.unix:
        return [("--host", address.unix)]
    return [("--host", address.host), ("--port", str(address.port))]


def _size(model: Model, settings: Settings) -> list[tuple[str, ...]]:
    """Slots with a context of their own each: in a shared pool, one long request fails all the others. Texts of unequal
    length for one vector each need the pool, though: without it, the engine decodes what is longer in pieces and takes
    the mean of the last one.
    """
    layers = "auto" if settings.gpu_layers < 0 else str(settings.gpu_layers)
    return [
        ("--ctx-size", str(settings.context * settings.slots)),
        ("--parallel", str(settings.slots)),
        ("--kv-unified" if _encodes(model) else "--no-kv-unified",),
        ("--threads", str(settings.threads)),
        ("--threads-batch", str(settings.threads)),
        # An open connection holds one of these threads, and pooled ones stay open between requests.
        ("--threads-http", str(2 * settings.slots + 8)),
        ("--n-gpu-layers", layers),
        *([("--tensor-split", ",".join(map(str, settings.parts)))] if settings.parts else []),
        ("--fit", "off"),
        ("--flash-attn", "auto"),
        ("--cache-type-k", settings.cache_type),
        ("--cache-type-v", settings.cache_type),
        ("--cache-ram", str(settings.prompt_cache // 2**20)),
    ]


def _batch(model: Model, settings: Settings) -> list[tuple[str, ...]]:
    # An encoder sees its whole text at once or refuses it.
    whole = settings.context if _encodes(model) else 0
    micro = whole or min(settings.batch, _MICRO_BATCH)
    return [("--batch-size", str(whole or settings.batch)), ("--ubatch-size", str(micro))]


def _encodes(model: Model) -> bool:
    return not {"embedding", "rerank"}.isdisjoint(model.capabilities) and "completion" not in model.capabilities


def _talents(model: Model, settings: Settings) -> list[tuple[str, ...]]:
    options: list[tuple[str, ...]] = []
    if "rerank" in model.capabilities:
        options += [("--embeddings",), ("--pooling", "rank")]
    elif _encodes(model):
        options += [("--embeddings",)]
    elif settings.embeds:
        # A model that generates says nothing of pooling; its last token has seen all the others.
        options += [("--embeddings",), ("--pooling", "last")]
    if settings.projector:
        options += [("--mmproj", settings.projector)]
    if settings.adapters:
        options += [(_ADAPTERS, ",".join(f"{path}:{scale:g}" for path, scale in settings.adapters))]
    return options


def _conduct(settings: Settings) -> list[tuple[str, ...]]:
    return [
        ("--metrics",),
        ("--slots",),
        ("--no-ui",),
        # The engine notices a client that left, and a stop that was asked for, at the next of these at the latest.
        ("--sse-ping-interval", str(_PING_S)),
        ("--offline",),
        ("--sleep-idle-seconds", str(settings.sleep_s or -1)),
        *([("--slot-save-path", settings.saves)] if settings.saves else []),
    ]


def _environment(secret: str, scratch: Path) -> dict[str, str]:
    """Built from nothing: nearly every option has a variable, and a user's shell must not change a child."""
    env = {
        name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
    return env | {
        "LLAMA_API_KEY": secret,
        # An abort would otherwise start a debugger, which can hang.
        "GGML_NO_BACKTRACE": "1",
        "HOME": str(scratch),
        "XDG_CONFIG_HOME": str(scratch),
        "LLAMA_CACHE": str(scratch),
    }


def _gpus(build: Build, settings: Settings) -> dict[str, str]:
    """The GPUs that a child may see, in the order of its ``tensor_split``. One that uses none would still take some
    hundred MiB of the first.
    """
    seen = ",".join(settings.devices) if settings.gpu_layers else "-1"
    shown = {variable: seen for backend, variable in TOLD.items() if backend in build.backends and seen}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **shown}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
