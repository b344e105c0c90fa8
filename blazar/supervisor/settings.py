"""How a model is to run, from the options and from what was asked: pure."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from blazar.engines.base import Settings
from blazar.errors import BadRequest
from blazar.models.overlay import adapters

if TYPE_CHECKING:
    from blazar.config.schema import Engine
    from blazar.models.catalogue import Model

_LARGEST_UNASKED = 8192
_STEP = 256
# Between two batches of a prompt the engine looks for clients that left and gives everybody else a token. A CPU is as
# fast with 128 as with 2048 (measured on two small models), with 64 up to a quarter slower; a GPU wants large ones.
_CPU_BATCH, _GPU_BATCH = 128, 2048


class Need(NamedTuple):
    """What a request wants of an instance: ``context`` is the least that will do in tokens, 0 for any; ``embeds``:
    vectors out of a model that generates; ``sees``: its projector.
    """

    context: int = 0
    embeds: bool = False
    sees: bool = False

    def met_by(self, settings: Settings) -> bool:
        """An instance with ``settings`` will do."""
        return (
            self.context <= settings.context
            and (settings.embeds or not self.embeds)
            and (bool(settings.projector) or not self.sees)
        )

    def joined(self, other: Need) -> Need:
        """What satisfies both."""
        return Need(max(self.context, other.context), self.embeds or other.embeds, self.sees or other.sees)

    @classmethod
    def of(cls, settings: Settings) -> Need:
        """What ``settings`` give."""
        return cls(settings.context, settings.embeds, bool(settings.projector))

    def words(self, settings: Settings) -> str:
        """What an instance with ``settings`` lacks, for people."""
        if self.context > settings.context:
            return f"a context of {self.context} was asked for"
        return "an image came" if self.sees and not settings.projector else "vectors were asked for"


def settings_for(options: Engine, model: Model, need: Need, cores: int, *, gpu: bool, sleep_s: float = 0) -> Settings:
    """The settings of a load for ``need``. ``cores`` are physical; ``gpu``: the build reaches one; engines count
    ``sleep_s`` in whole seconds.
    """
    usual = options.context or min(model.context_length or _LARGEST_UNASKED, _LARGEST_UNASKED)
    if model.context_length:
        usual = min(usual, model.context_length)
    return Settings(
        # Unset means any: somebody who asks for less shares what the others have.
        context=max(_rounded(usual), need.context),
        slots=options.slots,
        threads=options.threads or cores,
        batch=options.batch or (_GPU_BATCH if gpu and options.gpu_layers else _CPU_BATCH),
        gpu_layers=options.gpu_layers if gpu else 0,
        cache_type=options.cache_type,
        prompt_cache=options.prompt_cache_bytes,
        embeds=need.embeds,
        projector=model.projector if need.sees else "",
        sleep_s=ceil(sleep_s),
        adapters=tuple((one.path, one.scale) for one in adapters(model.overlay)),
    )


def context_asked(model: Model, context: int | None) -> int:
    """A wanted context as the engine would give it, 0 for any. Raises BadRequest when it is more than the model was
    made for.
    """
    if context is None or context <= 0:
        return 0
    if model.context_length and context > model.context_length:
        raise BadRequest(
            f"A context of {context} tokens was asked for and '{model.name}' was made for {model.context_length}.",
            param="num_ctx",
        )
    return _rounded(context)


def _rounded(context: int) -> int:
    """The engine rounds up to this step by itself; then the memory should be planned for what it takes."""
    return -(-context // _STEP) * _STEP
