"""The error catalogue: one class per ``blazar_code``, attributes as data, the sentence built here and nowhere else.

The gateway renders these in the dialect that was spoken, the command line prints them; both show the same sentence.
A code never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class BlazarError(Exception):
    """A failure with a stable code. Subclasses build ``message`` from their attributes.

    ``retry_after`` is in seconds, and set only where waiting helps. ``param`` is the JSON path of the fault, as in
    ``messages[2].content``.
    """

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    summary: ClassVar[str] = "a fault of Blazar's own"

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.retry_after = message, param, retry_after


class KeysOff(BlazarError):
    """Keys are managed by keys, and there is none yet."""

    code, status, summary = "KEYS_OFF", 403, "there are no keys yet, so nobody may manage them over HTTP"

    def __init__(self) -> None:
        super().__init__("There are no API keys yet. The first is made on the machine itself: blazar keys add NAME")


class Internal(BlazarError):
    """A fault of ours. The trace id leads to the log; the reader gets no traceback."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"Something went wrong inside Blazar. The log has it under trace {trace}.")
        self.trace = trace


class BadRequest(BlazarError):
    """The request cannot be understood; ``param`` says where."""

    code, status, summary = "BAD_REQUEST", 400, "malformed body, with the JSON path of the fault"


class ConfigError(BlazarError):
    """A setting is wrong. The sentence names the file, the key and the cure."""

    code, status, summary = "BAD_CONFIG", 400, "a setting is unknown or has a value that it cannot have"


class PromptTooLong(BlazarError):
    """More prompt than context."""

    code, status, summary = "PROMPT_TOO_LONG", 400, "prompt tokens exceed the context; says both numbers and the levers"

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(
            f"The prompt has {tokens} tokens and the context holds {context}. Shorten the prompt, or give the model a "
            f"larger context (Ollama option num_ctx, or the header x-blazar-num-ctx)."
        )
        self.tokens = tokens
        self.context = context


class ModelUnsupportedEngine(BlazarError):
    """No installed engine runs this model's format."""

    code, status, summary = "MODEL_UNSUPPORTED_ENGINE", 400, "no installed engine can run this format"

    def __init__(self, model: str, reason: str, cure: str) -> None:
        super().__init__(f"No installed engine can run '{model}': {reason}. {cure}")
        self.model = model


class VisionProjectorMissing(BlazarError):
    """An image came for a model that cannot see."""

    code, status, summary = "VISION_PROJECTOR_MISSING", 400, "an image for a model without a projector"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"'{model}' has no vision projector, so it cannot take images. Give it one: blazar mmproj {model} FILE"
        )
        self.model = model


class DiffusionTextRefusal(BlazarError):
    """A text request for an image model, or the other way round."""

    code, status, summary = "DIFFUSION_TEXT_REFUSAL", 400, "a text request for an image model, or the other way round"

    def __init__(self, model: str, does: str, asked: str) -> None:
        super().__init__(f"'{model}' is for {does}; it cannot answer a request for {asked}.")
        self.model = model


class Unauthorized(BlazarError):
    """No key, or one that does not exist."""

    code, status, summary = "UNAUTHORIZED", 401, "no key, or a wrong one"

    def __init__(self) -> None:
        super().__init__("A valid API key is needed: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'.")


class KeyScopeForbidden(BlazarError):
    """The key exists and may not do this."""

    code, status, summary = "KEY_SCOPE_FORBIDDEN", 403, "the key may not use this model or route"

    def __init__(self, key: str, what: str) -> None:
        who = f"The key '{key}'" if key else "A request without a key"
        super().__init__(f"{who} may not use {what}.")


class HostForbidden(BlazarError):
    """A browser was led here by a foreign name (DNS rebinding)."""

    code, status, summary = "HOST_FORBIDDEN", 403, "Host header not ours on a loopback bind"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"The Host header '{host}' is not one of this server's. It listens on this machine only; use localhost or "
            f"127.0.0.1, or add the name to server.allowed_hosts."
        )


class OriginForbidden(BlazarError):
    """A web page of somebody else's asks in its visitor's name."""

    code, status, summary = "ORIGIN_FORBIDDEN", 403, "a web page of another site asks"

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"Pages of '{origin[:200]}' may not ask this server. If they should, add it to server.cors_origins."
        )


class LocalOnly(BlazarError):
    """Something that other tools do and Blazar never will."""

    code, status, summary = "LOCAL_ONLY", 403, "something that would leave this machine, or needs an account"

    def __init__(self, what: str) -> None:
        super().__init__(
            "Blazar uploads nothing: models stay on this machine. They are plain files, so copy them where you like; "
            "'blazar show MODEL' says where they lie."
            if what == "push"
            else "There is no account and nothing to sign in to or out of: Blazar works for the person at this machine "
            "alone."
        )


class NotFound(BlazarError):
    """No such route or thing."""

    code, status, summary = "NOT_FOUND", 404, "no such route or object"

    def __init__(self, what: str, *, param: str | None = None) -> None:
        super().__init__(f"There is no {what} here.", param=param)


class MethodNotAllowed(BlazarError):
    """The route exists, the method does not."""

    code, status, summary = "METHOD_NOT_ALLOWED", 405, "the route exists, the method does not"

    def __init__(self, method: str, path: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{path} does not take {method}; it takes {', '.join(allowed)}.")
        self.allowed = tuple(allowed)


class ModelNotFound(BlazarError):
    """No such model in the catalogue; says the nearest that are."""

    code, status, summary = "MODEL_NOT_FOUND", 404, "no such model, with the nearest installed names"

    def __init__(self, model: str, near: Sequence[str] = ()) -> None:
        hint = f"Did you mean {' or '.join(repr(n) for n in near)}?" if near else "See what is installed: blazar list."
        super().__init__(f"model '{model}' not found. {hint}")
        self.model = model
        self.near = tuple(near)


class Conflict(BlazarError):
    """The state of things forbids it now."""

    code, status, summary = "CONFLICT", 409, "duplicate name, or a thing in use"


class PayloadTooLarge(BlazarError):
    """A body over its bound."""

    code, status, summary = "PAYLOAD_TOO_LARGE", 413, "the body is over its bound"

    def __init__(self, bound: int) -> None:
        super().__init__(f"The request body is larger than {bound} bytes (server.max_body_bytes).")
        self.bound = bound


class Unprocessable(BlazarError):
    """Enforce mode: the answer broke its schema."""

    code, status, summary = "UNPROCESSABLE", 422, "enforce mode: the answer broke its schema"


class BadModelFile(BlazarError):
    """A file that should be a model and is not a sound one; ``offset`` is the byte at which it shows, if at one."""

    code, status, summary = "BAD_MODEL_FILE", 422, "a model file is damaged, incomplete, or no model"

    def __init__(self, path: str, fault: str, offset: int | None = None) -> None:
        super().__init__(f"'{path}' is no sound model file: {fault}.")
        self.path = path
        self.offset = offset


class RateLimited(BlazarError):
    """A key's budget is spent; ``retry_after`` is exact."""

    code, status, summary = "RATE_LIMITED", 429, "a key's budget is spent; Retry-After is exact"

    def __init__(self, key: str, bound: str, limit: int, retry_after: float | None) -> None:
        what = {
            "rpm": f"{limit} requests a minute",
            "tpm": f"{limit} tokens a minute",
            "daily_tokens": f"{limit} tokens a day (UTC)",
            "max_concurrent": f"{limit} requests at once",
        }[bound]
        when = "when one of them is over" if retry_after is None else f"in {retry_after:.3g} s"
        super().__init__(f"The key '{key}' may have {what} ({bound}), and has had them. Try again {when}.")
        self.key = key
        self.bound = bound
        self.retry_after = 1.0 if retry_after is None else retry_after


class EngineCrashed(BlazarError):
    """The child died; its last words are in the message."""

    code, status, summary = "ENGINE_CRASHED", 502, "the engine died; its last words are in the message"

    def __init__(self, model: str, how: str, last_lines: Sequence[str] = ()) -> None:
        words = f" Its last words: {' | '.join(last_lines)}" if last_lines else ""
        super().__init__(f"The engine that runs '{model}' {how}.{words}")
        self.model = model
        self.last_lines = tuple(last_lines)


class BadGateway(BlazarError):
    """The engine answered something that is no answer. ``cut`` says that it closed the connection in the middle."""

    code, status, summary = "BAD_GATEWAY", 502, "the engine answered nonsense"
    cut = False


class NoConnection(BlazarError):
    """The engine takes no connection."""

    code, status, summary = "ENGINE_UNREACHABLE", 502, "the engine takes no connection"


class AllSlotsBusy(BlazarError):
    """Waited its bound and no place came free."""

    code, status, summary = "ALL_SLOTS_BUSY", 503, "waited its bound for a free slot"

    def __init__(self, model: str, slots: int, waiting: int, retry_after: float) -> None:
        super().__init__(
            f"All {slots} slots of '{model}' are busy and {waiting} requests wait. Try again in {retry_after:.0f} s.",
            retry_after=retry_after,
        )


class EngineCircuitOpen(BlazarError):
    """Crashes too often to be started again for now."""

    code, status, summary = "ENGINE_CIRCUIT_OPEN", 503, "the engine crashed too often for this model"

    def __init__(self, model: str, crashes: int, retry_after: float, last_lines: Sequence[str] = ()) -> None:
        words = f" Its last words: {' | '.join(last_lines)}" if last_lines else ""
        super().__init__(
            f"'{model}' crashed {crashes} times in a minute and is left alone for {retry_after:.0f} s "
            f"(blazar ps --reset tries at once).{words}",
            retry_after=retry_after,
        )


class ModelLoadTimeout(BlazarError):
    """Not ready in time: the load stopped moving."""

    code, status, summary = "MODEL_LOAD_TIMEOUT", 503, "the model stopped loading and was given up"

    def __init__(self, model: str, still_s: float, last_lines: Sequence[str] = ()) -> None:
        words = f" Its last words: {' | '.join(last_lines)}" if last_lines else ""
        super().__init__(f"Loading '{model}' made no progress for {still_s:.0f} s and was given up.{words}")


class ModelTooLarge(BlazarError):
    """Cannot fit even alone."""

    code, status, summary = "MODEL_TOO_LARGE", 503, "cannot fit even alone"

    def __init__(self, model: str, needs: int, total: int, where: str = "") -> None:
        super().__init__(
            f"'{model}' needs {needs / 1e9:.1f} GB{where} and this machine has {total / 1e9:.1f} GB. Choose a smaller "
            f"quantisation or a smaller context."
        )


class ShuttingDown(BlazarError):
    """The daemon is on its way out."""

    code, status, summary = "SHUTTING_DOWN", 503, "the daemon is stopping"

    def __init__(self) -> None:
        super().__init__("Blazar is shutting down.", retry_after=5)


class DaemonUnreachable(BlazarError):
    """The command line found no daemon."""

    code, status, summary = "DAEMON_UNREACHABLE", 503, "no daemon answers at the address"

    def __init__(self, address: str) -> None:
        super().__init__(f"No Blazar daemon answers at {address}. Start one: blazar serve")


class DaemonFailed(BlazarError):
    """A daemon was started and did not come up; its last words are in the message."""

    code, status, summary = "DAEMON_FAILED", 503, "the daemon was started and did not come up"

    def __init__(self, how: str, last_lines: Sequence[str] = ()) -> None:
        words = f" Its last words: {' | '.join(last_lines)}" if last_lines else ""
        super().__init__(f"The Blazar daemon {how}.{words}")
        self.last_lines = tuple(last_lines)


class PortTaken(BlazarError):
    """Somebody else listens on our address."""

    code, status, summary = "PORT_TAKEN", 503, "somebody else listens on the address"

    def __init__(self, address: str, owner: str | None) -> None:
        who = f" by {owner}" if owner else ""
        super().__init__(f"{address} is taken{who}. Stop that program, or choose another port: blazar serve --port N")


class GatewayTimeout(BlazarError):
    """The child took the request and never answered."""

    code, status, summary = "GATEWAY_TIMEOUT", 504, "the engine took the request and never answered"

    def __init__(self, model: str, waited_s: float, what: str) -> None:
        super().__init__(f"The engine that runs '{model}' sent no {what} for {waited_s:.0f} s.")


class InsufficientMemory(BlazarError):
    """Does not fit now; others hold the memory."""

    code, status, summary = "INSUFFICIENT_MEMORY", 507, "does not fit now, others hold the memory"

    def __init__(self, model: str, needs: int, free: int, holders: Sequence[str], where: str = "") -> None:
        held = f" {', '.join(holders)} hold{'s' if len(holders) == 1 else ''} the rest." if holders else ""
        super().__init__(f"'{model}' needs {needs / 1e9:.1f} GB{where} and {free / 1e9:.1f} GB is free.{held}")


class StoreUnusable(BlazarError):
    """The database cannot be used; the sentence says why and what to do."""

    code, status, summary = "STORE_UNUSABLE", 500, "the database is damaged, of a newer version, or not writable"

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"The database {path} cannot be used: {reason}.")
        self.path, self.reason = str(path), reason


class NoModelInside(BlazarError):
    """A source was read and holds no model; says what it holds."""

    code, status, summary = "NO_MODEL_INSIDE", 422, "a package or file to pull from holds no model, or more than one"

    def __init__(self, source: str, reason: str, holds: Sequence[str] = ()) -> None:
        inside = f" It holds {', '.join(holds)}." if holds else ""
        super().__init__(f"{source} {reason}.{inside}")
        self.source, self.holds = source, tuple(holds)


class ToolFailed(BlazarError):
    """A compiler or an engine's tool failed, or what it made is not good enough; the sentence says which."""

    code, status, summary = "TOOL_FAILED", 422, "a compiler or an engine's tool failed, or made what is not good enough"


class DownloadFailed(BlazarError):
    """Something could not be fetched, or is not what was promised. ``answered`` is a server's refusal, or 0."""

    code, status, summary = "DOWNLOAD_FAILED", 502, "a model or package could not be fetched"

    def __init__(self, what: str, reason: str, answered: int = 0) -> None:
        super().__init__(f"{what} could not be fetched: {reason}.")
        self.what, self.reason, self.answered = what, reason, answered


class InsufficientStorage(BlazarError):
    """The disk is too full."""

    code, status, summary = "INSUFFICIENT_STORAGE", 507, "the disk is too full"

    def __init__(self, what: str, needs: int, free: int, where: str) -> None:
        super().__init__(
            f"{what} needs {needs / 1e9:.2f} GB and {where} has {free / 1e9:.2f} GB free. Free some space, or move "
            f"BLAZAR_HOME to a larger disk."
        )


class RequestCancelled(BlazarError):
    """Somebody ended it over another connection."""

    code, status, summary = "REQUEST_CANCELLED", 499, "the request was cancelled over /v1/requests"

    def __init__(self) -> None:
        super().__init__("This request was cancelled over another connection.")


class ClientGone(BlazarError):
    """The client left; nobody reads this, the trace records it (the status is nginx's)."""

    code, status, summary = "CLIENT_GONE", 499, "the client left before the end"

    def __init__(self) -> None:
        super().__init__("The client closed the connection.")


def catalogue() -> dict[str, type[BlazarError]]:
    """Every code with its class, in order of status then code."""
    found: dict[str, type[BlazarError]] = {}
    waiting = [BlazarError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting.extend(kind.__subclasses__())
    return dict(sorted(found.items(), key=lambda item: (item[1].status, item[0])))
