"""httpx's questions with two minutes for an answer: how fast the machine is, no test asks by the way."""

from __future__ import annotations

from functools import partial

import httpx

PATIENCE_S = 120.0

get = partial(httpx.get, timeout=PATIENCE_S)
post = partial(httpx.post, timeout=PATIENCE_S)
delete = partial(httpx.delete, timeout=PATIENCE_S)
head = partial(httpx.head, timeout=PATIENCE_S)
options = partial(httpx.options, timeout=PATIENCE_S)
request = partial(httpx.request, timeout=PATIENCE_S)
