"""``blazar ps`` and ``blazar stop``: what is in memory, and taking it out."""

from __future__ import annotations

import threading

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import client, here
from blazar.client.types import Running, Runtime
from blazar.errors import BlazarError, Conflict, DaemonUnreachable

_HEAD = ("NAME", "STATE", "ENGINE", "ON", "SIZE", "CONTEXT", "BUSY", "QUEUED", "LEAVES IN", "PID")
_LOOK_S = 0.2
_RIGHT = frozenset({"SIZE", "CONTEXT", "BUSY", "QUEUED", "PID"})


@click.command()
@click.option("--reset", metavar="MODEL", type=ModelName(), help="Let MODEL be started again after its crashes.")
@output.json_option
def ps(reset: str | None, as_json: bool) -> None:
    """List the models in memory: what they are doing, and when they leave."""
    daemon = client(*here())
    if reset is not None:
        daemon.reset(reset)
        output.notes().line(f"The crashes of {reset} are forgotten.")
        return
    running = daemon.ps()
    if as_json:
        output.json_lines(running)
    elif running:
        output.table(_HEAD, [_row(model) for model in running], _RIGHT)
    else:
        output.notes().line("No model is in memory.")


@click.command()
@click.argument("model", type=ModelName(), required=False)
def stop(model: str | None) -> None:
    """Take MODEL out of memory; without MODEL, stop the daemon and all that it runs."""
    paths, config = here()
    if model is not None:
        client(paths, config).unload(model)
        output.notes().line(f"{model} is out of memory.")
        return
    from blazar.supervisor import detach  # noqa: PLC0415 (only to stop the daemon)

    stopped = detach.stop(paths)
    if stopped is not None:
        output.notes().line(f"Stopped the Blazar daemon (pid {stopped.pid}).")
        return
    other = client(paths, config)
    try:
        other.health()
    except DaemonUnreachable:
        output.notes().line("No Blazar daemon runs.")
    else:
        raise Conflict(f"The daemon at {other.address} does not belong to {paths.data}. Stop it where it was started.")


@click.command()
@click.argument("model", type=ModelName())
def warm(model: str) -> None:
    """Bring MODEL into memory, so that its first answer comes at once."""
    from blazar.cli.progress import Bar  # noqa: PLC0415 (only to wait)
    from blazar.models.progress import Progress  # noqa: PLC0415
    from blazar.models.reference import fold  # noqa: PLC0415

    daemon = client(*here())
    outcome: list[BlazarError | None] = []

    def load() -> None:
        try:
            daemon.load(model)
        except BlazarError as error:
            outcome.append(error)
        else:
            outcome.append(None)

    # Nobody waits for this thread: Ctrl-C ends the command at once, and the load goes on without it.
    loading = threading.Thread(target=load, daemon=True)
    with Bar(output.notes()) as bar:
        loading.start()
        while loading.is_alive():
            loading.join(_LOOK_S)
            for row in daemon.ps() if loading.is_alive() else ():
                if (share := row.blazar.progress) and fold(row.name) == fold(model):
                    # Bytes that are read, and all of them, as far as the share tells.
                    total = int(row.size / share)
                    bar(Progress("load", row.name, done=row.size, total=total, eta=row.blazar.eta_s))
    if outcome and outcome[0] is not None:
        raise outcome[0]
    output.notes().line(f"{model} is in memory.")


def _state(facts: Runtime) -> str:
    """What it does, and how far that is."""
    if facts.state == "loading":
        how = [f"{facts.progress:.0%}"] if facts.progress else []
        how += [f"{output.duration(facts.eta_s)} left"] if facts.eta_s is not None else []
        return f"loading ({', '.join(how)})" if how else "loading"
    if facts.reason and facts.state in {"waiting", "ready"}:
        return f"{facts.state} ({facts.reason})"
    return facts.state or "-"


def _place(facts: Runtime) -> str:
    """Main memory, or how many GPUs, and how much of it where that is not all."""
    if not facts.gpus:
        return "memory"
    gpus = "a GPU" if len(facts.gpus) == 1 else f"{len(facts.gpus)} GPUs"
    return gpus if facts.gpu_layers < 0 else f"{gpus} ({facts.gpu_layers} layers)"


def _row(model: Running) -> tuple[str, ...]:
    facts = model.blazar
    return (
        model.name,
        _state(facts),
        " ".join(word for word in (facts.engine, facts.build) if word) or "-",
        _place(facts),
        output.size(model.size),
        f"{model.context_length}" if model.context_length else "-",
        f"{facts.in_flight}/{facts.slots}" if facts.slots else str(facts.in_flight),
        str(facts.queued),
        output.until(model.expires_at),
        str(facts.pid or "-"),
    )
