"""One answer on the screen: text as it comes, reasoning dim, figures at the end if asked for."""

from __future__ import annotations

from blazar.client import Client
from blazar.client.types import ChatRequest, Part
from blazar.repl.screen import Screen


class Answer:
    """Streams one answer. ``text`` and ``thinking`` grow as it is read, and stay when it is broken off."""

    def __init__(self, client: Client, request: ChatRequest, out: Screen, notes: Screen) -> None:
        self._client = client
        self._request = request
        self._out = out
        self._notes = notes
        self._waiting = ""
        self._column_zero = True
        self.text = ""
        self.thinking = ""

    def stream(self) -> Part:
        """Write the answer as it comes; returns the last part. Any way out of here stops the model."""
        self._wait(f"waiting for {self._request.model} ...")
        try:
            with self._client.chat(self._request) as parts:
                for part in parts:
                    self._show(part)
                    if part.done:
                        return part
        finally:
            self._waited()
            if not self._column_zero:
                self._out.line()
        raise AssertionError("a stream ends with its last part or with an error")

    def _show(self, part: Part) -> None:
        said = part.message
        if said.thinking:
            self._waited()
            self.thinking += said.thinking
            # Reasoning is for people who watch; it has no place in what a program reads.
            if self._out.terminal:
                self._put(self._out.dim(self._out.safe(said.thinking)), said.thinking)
        if said.content:
            self._waited()
            if self.thinking and not self.text and self._out.terminal:
                self._put("\n\n" if not self._column_zero else "\n", "\n")
            self.text += said.content
            self._put(self._out.safe(said.content), said.content)

    def _put(self, shown: str, text: str) -> None:
        self._column_zero = text.endswith("\n")
        self._out.write(shown)

    def _wait(self, text: str) -> None:
        if self._notes.colour and self._out.terminal:
            self._waiting = text
            self._notes.write(self._notes.dim(text))

    def _waited(self) -> None:
        if self._waiting:
            self._notes.write("\r\x1b[K")
            self._waiting = ""


def figures(part: Part) -> str:
    """The figures of a finished answer, as one line."""
    rate = part.eval_count * 1e9 / part.eval_duration if part.eval_duration else 0.0
    read = part.prompt_eval_count * 1e9 / part.prompt_eval_duration if part.prompt_eval_duration else 0.0
    words = [f"{part.eval_count} tokens at {rate:.1f}/s", f"prompt {part.prompt_eval_count} tokens at {read:.1f}/s"]
    if part.load_duration > 1e7:
        words.append(f"load {part.load_duration / 1e9:.2f} s")
    words.append(f"total {part.total_duration / 1e9:.2f} s")
    if part.done_reason == "length":
        words.append("cut at the token limit")
    return ", ".join(words)
