"""Record llama-server's answers: event streams as ``NAME.sse``, refusals as ``NAME.json``, one whole HTTP answer.

usage: record.py TINY_PORT CHAT_PORT (servers of a random tiny model and of a small chat model, two slots each)

``tool.sse`` is not among them: it came from the same chat model under a template whose generation prompt opens a tool
call, since the model alone never makes one.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from pathlib import Path

HERE = Path(__file__).parent
ASK = [{"role": "user", "content": "Why is the sky blue? Answer in one sentence."}]
COMMON = {"stream": True, "stream_options": {"include_usage": True}, "seed": 1, "temperature": 0}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
# name: (small chat model?, path, body)
STREAMS = {
    "chat": (True, CHAT, {"messages": ASK, "max_tokens": 24}),
    "chat_utf8": (False, CHAT, {"messages": ASK, "max_tokens": 60}),
    "chat_two": (True, CHAT, {"messages": ASK, "max_tokens": 6, "n": 2, "temperature": 1}),
    "chat_logprobs": (True, CHAT, {"messages": ASK, "max_tokens": 3, "logprobs": True, "top_logprobs": 2}),
    "chat_progress": (True, CHAT, {"messages": ASK, "max_tokens": 2, "return_progress": True}),
    "chat_stop": (True, CHAT, {"messages": ASK, "max_tokens": 200, "stop": ["."]}),
    "text": (True, TEXT, {"prompt": "The sky is", "max_tokens": 8}),
    "text_two": (False, TEXT, {"prompt": "a", "max_tokens": 4, "n": 2, "temperature": 1, "logprobs": 1}),
    "native": (True, "/completion", {"prompt": "The sky is", "max_tokens": 60, "stop": ["."]}),
}
REFUSALS = {
    "too_long": (CHAT, {"messages": [{"role": "user", "content": "hi " * 9000}]}),
    "too_many": (CHAT, {"messages": ASK, "n": 9}),
    "image": (CHAT, {"messages": [{"role": "user", "content": [IMAGE]}]}),
    "infill": ("/infill", {"input_prefix": "a", "input_suffix": "b", "prompt": ""}),
    "grammar": (CHAT, {"messages": ASK, "grammar": "root ::= (("}),
}


def answer(port: int, path: str, body: object) -> tuple[int, bytes]:
    """Status and body, without the framing."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", path, body if isinstance(body, str) else json.dumps(body))
    response = connection.getresponse()
    return response.status, response.read()


def whole(port: int, path: str, body: object) -> bytes:
    """Every byte that the server sends."""
    content = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def main() -> None:
    """Record everything."""
    tiny, chat = int(sys.argv[1]), int(sys.argv[2])
    for name, (real, path, body) in STREAMS.items():
        status, content = answer(chat if real else tiny, path, COMMON | body)
        if status != 200:
            sys.exit(f"{name}: {status} {content!r}")
        (HERE / f"{name}.sse").write_bytes(content)
    for name, (path, body) in REFUSALS.items():
        status, content = answer(tiny, path, COMMON | body)
        (HERE / f"{name}.{status}.json").write_bytes(content)
    (HERE / f"malformed.{(got := answer(tiny, CHAT, '{'))[0]}.json").write_bytes(got[1])
    (HERE / "chat.http").write_bytes(whole(chat, CHAT, COMMON | STREAMS["chat"][2]))


if __name__ == "__main__":
    main()
