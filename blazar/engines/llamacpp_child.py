"""Serve llama.cpp's HTTP API out of the package ``xllamacpp``, with the options of ``llama-server``.

Run by path as a child process, also by interpreters in which Blazar is not installed: standard library and
``xllamacpp`` only. The secret comes in ``LLAMA_API_KEY``. Codes: 0 stopped when asked, 1 anything else.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib.metadata import version
from typing import Any, NoReturn

_SWITCH_VALUES = {"on": 1, "off": 0, "auto": -1}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _fail(f"error: invalid argument: {message}")


def _fail(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    # The ordinary way out: the engine writes its log from a thread of its own, which is flushed on exit.
    sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="llamacpp_child", allow_abbrev=False, description="llama-server's options, served by xllamacpp"
    )
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--list-devices", action="store_true")
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("-a", "--alias", default="")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("-c", "--ctx-size", type=int, default=0)
    parser.add_argument("-np", "--parallel", type=int, default=1)
    parser.add_argument("-kvu", "--kv-unified", action="store_true")
    parser.add_argument("-no-kvu", "--no-kv-unified", action="store_true")
    parser.add_argument("-b", "--batch-size", type=int, default=2048)
    parser.add_argument("-ub", "--ubatch-size", type=int, default=512)
    parser.add_argument("-t", "--threads", type=int, default=-1)
    parser.add_argument("-tb", "--threads-batch", type=int, default=-1)
    parser.add_argument("--threads-http", type=int, default=-1)
    parser.add_argument("-ngl", "--n-gpu-layers", default="auto")
    parser.add_argument("-ts", "--tensor-split", type=_shares, default=[])
    parser.add_argument("-fit", "--fit", choices=("on", "off"), default="off")
    parser.add_argument("-fa", "--flash-attn", choices=tuple(_SWITCH_VALUES), default="auto")
    parser.add_argument("-ctk", "--cache-type-k", default="f16")
    parser.add_argument("-ctv", "--cache-type-v", default="f16")
    parser.add_argument("-cram", "--cache-ram", type=int, default=0)
    parser.add_argument("-mm", "--mmproj", default="")
    parser.add_argument("--lora-scaled", type=_scaled, default=[])
    parser.add_argument("--embeddings", action="store_true")
    parser.add_argument("--pooling", choices=("none", "mean", "cls", "last", "rank"), default="")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    parser.add_argument("--no-ui", action="store_true")
    parser.add_argument("--sse-ping-interval", type=int, default=5)
    parser.add_argument("--slot-save-path", default="")
    parser.add_argument("--sleep-idle-seconds", type=int, default=-1)
    parser.add_argument("--offline", action="store_true")
    return parser


def _params(module: Any, options: argparse.Namespace) -> Any:
    params = module.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias} if options.alias else set()
    if hasattr(params, "hostnames"):
        params.hostnames = [options.host]
    else:  # before 2026.10
        params.hostname = options.host
    params.port = options.port
    params.api_keys = [key for key in os.environ.get("LLAMA_API_KEY", "").split(",") if key]
    params.n_ctx, params.n_parallel, params.kv_unified = options.ctx_size, options.parallel, options.kv_unified
    params.n_batch, params.n_ubatch = options.batch_size, options.ubatch_size
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads_batch
    params.n_threads_http = options.threads_http
    params.n_gpu_layers = {"auto": -1, "all": -2}.get(options.n_gpu_layers) or int(options.n_gpu_layers)
    if options.tensor_split:
        params.tensor_split = [*options.tensor_split, *params.tensor_split[len(options.tensor_split) :]]
    params.fit_params = options.fit == "on"
    params.flash_attn_type = {
        "on": module.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
        "off": module.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        "auto": module.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
    }[options.flash_attn]
    params.cache_type_k = _cache_type(module, options.cache_type_k)
    params.cache_type_v = _cache_type(module, options.cache_type_v)
    params.cache_ram_mib = options.cache_ram
    params.embedding = options.embeddings
    if options.pooling:
        params.pooling_type = getattr(module.llama_pooling_type, f"LLAMA_POOLING_TYPE_{options.pooling.upper()}")
    params.endpoint_metrics, params.endpoint_slots = options.metrics, options.slots
    params.ui = not options.no_ui
    params.sse_ping_interval = options.sse_ping_interval
    params.offline = options.offline
    params.sleep_idle_seconds = options.sleep_idle_seconds
    if options.mmproj:
        params.mmproj.path = options.mmproj
    if options.lora_scaled:
        params.lora_adapters = [_adapter(module, path, scale) for path, scale in options.lora_scaled]
    if options.slot_save_path:
        params.slot_save_path = options.slot_save_path.rstrip("/") + "/"
    return params


def _scaled(text: str) -> list[tuple[str, float]]:
    pairs = (item.rpartition(":") for item in text.split(","))
    return [(path, float(scale)) for path, _, scale in pairs]


def _adapter(module: Any, path: str, scale: float) -> Any:
    adapter = module.CommonAdapterLoraInfo()
    adapter.path, adapter.scale = path, scale
    return adapter


def _shares(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def _list_devices(module: Any) -> None:
    """As llama-server does it: whatever is no processor."""
    sys.stdout.write("Available devices:\n")
    for device in module.get_device_info():
        if device["type"] != module.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU:
            total, free = device["memory_total"] >> 20, device["memory_free"] >> 20
            sys.stdout.write(f"  {device['name']}: {device['description']} ({total} MiB, {free} MiB free)\n")


def _cache_type(module: Any, name: str) -> Any:
    try:
        return getattr(module.ggml_type, f"GGML_TYPE_{name.upper()}")
    except AttributeError:
        _fail(f"error: invalid argument: Unsupported cache type: {name}")


def _wait_to_be_stopped() -> None:
    """Block until SIGTERM or SIGINT. The engine's own threads may be the ones that catch it, so a pipe tells us."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    os.read(reader, 1)
    # Stopping waits for open streams with the interpreter locked: a second signal must still end the process.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """Parse, load, serve, stop."""
    options = _parser().parse_args()
    if options.version:
        sys.stdout.write(f"version: xllamacpp {version('xllamacpp')}\n")
        return
    # With this variable set, the engine takes orders from its standard input.
    os.environ.pop("LLAMA_SERVER_ROUTER_PORT", None)
    import xllamacpp  # noqa: PLC0415  (not needed for the help page)

    if options.list_devices:
        _list_devices(xllamacpp)
        return
    try:
        server = xllamacpp.Server(_params(xllamacpp, options))
    except (RuntimeError, ValueError, TypeError) as error:
        _fail(f"fatal: {error}")
    sys.stderr.write(f"ready: listening on {server.listening_address}\n")
    sys.stderr.flush()
    _wait_to_be_stopped()
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
