"""JSON that others wrote."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


@overload
def decoded(raw: bytes | str) -> Any: ...
@overload
def decoded(raw: bytes | str, kind: type[T]) -> T: ...
def decoded(raw: bytes | str, kind: Any = Any) -> Any:
    """``raw`` as ``kind``. Raises msgspec.DecodeError (ValidationError where it is JSON of another shape), also for
    what is nested so deeply that the decoder itself gives up, and for text that is no UTF-8.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is no UTF-8 ({error})") from None
