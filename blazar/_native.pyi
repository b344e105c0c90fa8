"""The compiled core: parsing, translation, framing, admission. Stubs are checked against the built module."""

from os import PathLike
from typing import Any, Final, final

VERSION: Final[str]

class BadInput(ValueError):
    """A request's body is wrong. ``args`` is ``(message, path)``; the path is empty for the whole body."""

@final
class Inbound:
    """One parsed request: the few facts that Python needs; the rest stays in Rust."""

    @property
    def route(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def stream(self) -> bool: ...
    @property
    def load_only(self) -> bool: ...
    @property
    def thinks(self) -> bool:
        """The client asks for reasoning, in whatever way."""
    @property
    def keep_alive_s(self) -> float | None:
        """Seconds; negative means for ever; None means unsaid."""
    @property
    def num_ctx(self) -> int | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def body_bytes(self) -> int: ...
    @property
    def cost(self) -> tuple[int, int]:
        """About how many tokens the prompt and the answer may come to."""
    @property
    def has_tools(self) -> bool: ...
    @property
    def has_images(self) -> bool: ...
    def has_foreign_pictures(self, family: str) -> bool:
        """Whether it has pictures that an engine of this family cannot decode and ``convert_pictures`` can."""
    def convert_pictures(self, family: str) -> None:
        """Make such pictures what the engine can decode. It may take a second. Raises BadInput."""
    @property
    def plain(self) -> bool:
        """Nothing about it is out of the ordinary: free text, no images, no tools left out."""
    @property
    def determined(self) -> bool:
        """Nothing in its answer is drawn at random, or by a seed that it names."""
    @property
    def seating(self) -> tuple[int, int, int, int] | None:
        """Digests of its conversation (tools, instructions, first turn) and of the head of that (0: none), bytes of the
        head and of the whole prompt; None where it takes several places of the engine.
        """
    def sit(self, seat: int | None) -> None:
        """Have it put into this place of the engine, or into whichever the engine chooses."""
    def likeness(self) -> tuple[str, str, str]:
        """The text that may differ a little from another's whose answer it is to get, what must be equal, and why it
        cannot be compared at all, or nothing.
        """
    @property
    def dropped_tools(self) -> list[str]:
        """Types of tools that were offered and that nobody here can run."""
    @property
    def schema(self) -> str | None:
        """JSON Schema of the answer that was asked for; None for free text."""
    @property
    def store(self) -> bool:
        """A response that is to be kept."""
    @property
    def background(self) -> bool:
        """A response that goes on without its client."""
    @property
    def previous(self) -> str | None:
        """The id of the response that this one goes on from."""
    @property
    def items(self) -> str:
        """A response's input as a JSON array of items."""
    def after(self, earlier: bytes) -> Inbound:
        """The same request after an earlier conversation, a JSON array of items. Raises BadInput."""
    @property
    def lane(self) -> int:
        """As :class:`Queue` counts them."""
    @property
    def must_call(self) -> bool:
        """An answer without a call is wrong."""
    @property
    def shaped_tools(self) -> list[tuple[str, str]]:
        """Name and schema of the tools whose arguments must follow their schema: strict ones, and those of which one
        must be called."""
    def normalise(self) -> list[str]:
        """Take out what differs between requests that are otherwise the same; the names of what went."""
    def unexpressed(self, family: str) -> list[tuple[str, str, bool]]:
        """``(path, keyword, refused)`` of what a schema of the request asks and this family of engines cannot hold to;
        ``refused``: it changes which shapes are right, and is not only a bound on values, and the schema is strict.
        """
    @property
    def links(self) -> list[str]:
        """Addresses of images that lie elsewhere, in their order."""
    def supply(self, images: list[str]) -> None:
        """Put the images, in base64, in the places of their links. Raises BadInput for what is none."""
    def dress(self, overlay: bytes) -> None:
        """Put on it what its model's Modelfile sets, as JSON. Raises BadInput."""
    @property
    def has_template(self) -> bool:
        """It, or its model's Modelfile, brings a template in Ollama's language."""
    def render(self, now_ns: int) -> None:
        """Make text of the conversation with that template. Raises BadInput."""
    def streamed(self, stream: bool) -> Inbound:
        """The same request, streamed or not."""

def check_template(template: str) -> None:
    """Raises BadInput where a template in Ollama's language cannot be read."""

def parse(route: str, body: bytes) -> Inbound:
    """Read a body. Routes: ``openai.chat``, ``openai.text``, ``openai.responses``, ``ollama.chat``,
    ``ollama.generate``, ``anthropic.messages``, ``anthropic.count``. Raises BadInput; ValueError for an unknown route.
    """

@final
class Prelude:
    """What a client's stream says before any engine does, in the request's dialect."""

    def __new__(cls, inbound: Inbound, *, id: str, created_ns: int, started_ns: int) -> Prelude: ...
    @property
    def content_type(self) -> str: ...
    def start(self, now_ns: int) -> bytes:
        """What a stream begins with."""
    def keep_alive(self, now_ns: int) -> bytes:
        """Something that keeps the stream open."""
    def fail(self, status: int, code: str, message: str, now_ns: int) -> bytes:
        """The dialect's error in a stream; nothing may follow it."""

def count_request(inbound: Inbound, family: str, alias: str) -> tuple[str, bytes]:
    """Path and body of the engine's request that counts the prompt's tokens."""

PHASE_HEAD: Final[int]
"""Nothing for the client yet."""
PHASE_BODY: Final[int]
"""Bytes for the client flow."""
PHASE_DONE: Final[int]
"""The answer is complete."""
PHASE_FAILED: Final[int]
"""``fault`` is set; if bytes flowed, the dialect's error event is the last of them."""

@final
class Exchange:
    """One request's way to an engine and back: HTTP/1.1, event stream, decoder, encoder. No I/O.

    ``feed`` takes what the engine's socket gave and returns the client's bytes. After ``PHASE_DONE`` or
    ``PHASE_FAILED``
    further input is ignored. Times are monotonic nanoseconds on the clock of ``started_ns``.
    """

    def __new__(
        cls,
        inbound: Inbound,
        *,
        family: str,
        alias: str,
        host: str,
        secret: str,
        id: str,
        created_ns: int,
        started_ns: int,
        load_ns: int,
    ) -> Exchange: ...
    @property
    def request(self) -> bytes | memoryview:
        """The whole HTTP request for the engine; a view of it where it is large."""
    @property
    def content_type(self) -> str: ...
    @property
    def phase(self) -> int: ...
    @property
    def reusable(self) -> bool:
        """After ``PHASE_DONE`` or ``PHASE_FAILED``: the engine's connection can carry another request.

        Never after a stream of llama-server: it hangs up then, though it announces to stay.
        """
    @property
    def ends_at_close(self) -> bool:
        """The engine's closing its side now would be the answer's proper end."""
    @property
    def fault(self) -> tuple[str, str, int | None, int | None] | None:
        """``(kind, message, tokens, context)``; kinds as in ``chat::FaultKind``."""
    @property
    def usage(self) -> tuple[int, int, int] | None:
        """Prompt, cached and completion tokens."""
    @property
    def pieces(self) -> int:
        """Pieces of the answer that came; engines send about one for each token."""
    @property
    def started(self) -> bool:
        """The client has been given bytes, so that a failure is an event in the stream."""
    @property
    def finish(self) -> str | None:
        """``stop``, ``length``, ``tool_calls`` or ``content_filter`` (choice 0)."""
    @property
    def first_ns(self) -> int | None:
        """When the first text, reasoning or call came."""
    def feed(self, data: bytes, now_ns: int) -> bytes: ...
    def eof(self, now_ns: int) -> bytes:
        """The engine closed its side."""
    def fail(self, kind: str, code: str, message: str, now_ns: int) -> bytes:
        """A failure that only the caller knows; returns the in-stream error if bytes flowed."""
    def keep_alive(self, now_ns: int) -> bytes:
        """Something that keeps an idle stream open."""
    @property
    def document(self) -> bytes:
        """The finished answer as an object to keep, where the client asked for that; else nothing."""
    @property
    def texts(self) -> list[str]:
        """The visible text of each choice, where the answer is whole and must have a shape; else none."""
    @property
    def calls(self) -> list[tuple[str, str]]:
        """Name and arguments of each call, where the answer is whole and they must have a shape; else none."""

@final
class Call:
    """A plain HTTP/1.1 request to an engine, its answer kept whole up to ``limit`` bytes."""

    def __new__(cls, method: str, path: str, body: bytes | None, *, host: str, secret: str, limit: int) -> Call: ...
    @property
    def request(self) -> bytes: ...
    @property
    def phase(self) -> int: ...
    @property
    def reusable(self) -> bool: ...
    @property
    def ends_at_close(self) -> bool:
        """The engine's closing its side now would be the answer's proper end."""
    @property
    def fault(self) -> tuple[str, str, int | None, int | None] | None: ...
    @property
    def status(self) -> int: ...
    @property
    def content_type(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    def feed(self, data: bytes, now_ns: int) -> bytes: ...
    def eof(self, now_ns: int) -> bytes: ...
    def fail(self, kind: str, code: str, message: str, now_ns: int) -> bytes: ...

@final
class Queue:
    """The waiting list of one instance: class, named deadline, share of the key, lane, arrival. Times are monotonic, in
    ns.
    """

    def __new__(cls, places: int, bound: int) -> Queue: ...
    def enter(
        self,
        now_ns: int,
        priority: int,
        lane: int,
        deadline_ns: int | None = None,
        key: int = 0,
        weight: int = 1,
        cost: int = 1,
    ) -> tuple[int, bool] | None:
        """``(ticket, granted)``. None: the list is full. Priority: 0 high, 1 normal, 2 low. Lane: 0 work with tools,
        1 the rest, 2 text without template or end, which never holds every place while others wait. ``key`` shares
        with others by ``weight``; ``cost`` is what it is expected to cost, in tokens.
        """

    def crowd_out(self, priority: int, key: int = 0, weight: int = 1) -> int | None:
        """The ticket of somebody who waits no more, since the list is full and one of this priority and key has more of
        a claim to a place in it; None where nobody has less.
        """

    def leave(self, ticket: int, used: int | None = None) -> int | None:
        """Over, or gave up waiting; ``used`` are the tokens that it came to, if known. The ticket that has a place now,
        if any.
        """

    def position(self, ticket: int) -> int | None:
        """How many stand before a request that waits; ``None`` for one that does not."""
    def resize(self, places: int) -> list[int]:
        """The tickets that have a place now."""

    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...

@final
class Budget:
    """What one key has used, and its bounds, of which 0 is none. Times are monotonic, in ns; ``civil_s`` are seconds
    since 1970 and ``day`` days since then, both UTC.
    """

    def __new__(cls, rpm: int, tpm: int, daily: int, concurrent: int, day: int, used_today: int) -> Budget: ...
    def limit(self, rpm: int, tpm: int, daily: int, concurrent: int) -> None:
        """The bounds changed; what is used stays used."""
    def take(self, now_ns: int, civil_s: int, tokens: int) -> tuple[str, int | None] | None:
        """None: a request that may cost ``tokens`` is let in, and charged. Else nothing is charged: the bound that
        refuses (``max_concurrent``, ``rpm``, ``tpm``, ``daily_tokens``), and the ns until it does not, if known.
        """
    def settle(self, now_ns: int, civil_s: int, reserved: int, used: int) -> None:
        """A request that was let in is over, and came to ``used`` tokens."""
    def used_today(self, civil_s: int) -> int: ...
    @property
    def running(self) -> int: ...
    def left(self, now_ns: int) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
        """Requests and tokens a minute: the bound, what is left, the ns until all is there again; None: no bound."""

class GgufError(ValueError):
    """A file that is no sound GGUF."""

    offset: int
    """Where in the file, in bytes."""
    kind: str
    """A short name of the fault: ``magic``, ``truncated``, ``overlap`` and so on."""

@final
class Gguf:
    """The header of a GGUF file, copied from it: the file may vanish afterwards."""

    @staticmethod
    def open(path: str | PathLike[str]) -> Gguf:
        """Raises GgufError, OSError."""
    @staticmethod
    def parse(data: bytes, size: int | None = None) -> Gguf:
        """From the bytes of a header, of a file of ``size`` bytes (default: exactly these). Raises GgufError."""
    @property
    def version(self) -> int: ...
    @property
    def byte_order(self) -> str:
        """``little`` or ``big``."""
    @property
    def alignment(self) -> int: ...
    @property
    def header_bytes(self) -> int: ...
    @property
    def data_start(self) -> int: ...
    @property
    def size(self) -> int:
        """Length of the file in bytes."""
    @property
    def tensor_count(self) -> int: ...
    def pairs(self, limit: int | None = None) -> dict[str, Any]:
        """Every key with its value; an array longer than ``limit`` is None."""
    def get(self, key: str) -> Any:
        """The value of a key, or None."""
    def array(self, key: str) -> tuple[str, int, int] | None:
        """Item type, length, and offset in the file of an array; None for anything else."""
    def tensors(self) -> list[tuple[str, str, tuple[int, ...], int, int]]:
        """Name, type, dimensions, bytes and offset in the file of every tensor."""
    def facts(self) -> dict[str, Any]:
        """What the header says about the model; ``blazar.models.header`` gives it types."""

def gguf_parts(name: str) -> tuple[int, list[str]] | None:
    """For a file name of the form ``NAME-00001-of-0000N.gguf``: its number from 1, and the names of all parts."""
