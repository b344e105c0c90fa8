"""The chat prompt: a conversation with one model until the person leaves."""

from __future__ import annotations

from pathlib import Path

from blazar.client import Client
from blazar.client.types import ChatRequest, Message, Part
from blazar.errors import BlazarError
from blazar.repl import commands
from blazar.repl.answer import Answer, figures
from blazar.repl.prompt import Prompt
from blazar.repl.screen import Screen
from blazar.repl.settings import Parameter


class Chat:
    """One conversation: its model, what it is asked with, and what was said."""

    def __init__(self, client: Client, model: str, out: Screen, notes: Screen) -> None:
        self.client = client
        self.model = model
        self.out = out
        self.notes = notes
        self.messages: list[Message] = []
        self.system = ""
        self.options: dict[str, Parameter] = {}
        self.think: bool | None = None
        self.format: str | None = None
        self.keep_alive: float | str | None = None
        self.verbose = False

    def talk(self, history: Path) -> None:
        """Ask for messages and answer them until the person leaves. Ctrl-C stops an answer, not the program."""
        prompt = Prompt(history, commands.WORDS, self.out)
        self.out.line(f"{self.out.bold(self.model)} {self.out.dim('(/help for commands, Ctrl-D to leave)')}")
        try:
            while True:
                try:
                    if not self._turn(prompt.ask()):
                        return
                except EOFError:
                    self.out.line()
                    return
                except KeyboardInterrupt:
                    self.out.line()
                    self.out.line(self.out.dim("Ctrl-D or /bye to leave."))
        finally:
            prompt.close()

    def say(self, text: str) -> None:
        """Send one message and show the answer. What was seen of a stopped answer stays in the conversation."""
        self.messages.append(Message("user", text))
        answer = Answer(self.client, self.request(), self.out, self.notes)
        try:
            last = answer.stream()
        except BlazarError:
            self.messages.pop()
            raise
        except KeyboardInterrupt:
            if answer.text:
                self.messages.append(Message("assistant", answer.text))
            else:
                self.messages.pop()
            self.out.line(self.out.dim("(stopped)"))
            return
        self.messages.append(Message("assistant", answer.text))
        self._figures(last)

    def answer(self, text: str) -> None:
        """Send one message and write the answer, and let Ctrl-C end the program."""
        self.messages.append(Message("user", text))
        self._figures(Answer(self.client, self.request(), self.out, self.notes).stream())

    def _figures(self, last: Part) -> None:
        if self.verbose:
            self.notes.line(self.notes.dim(figures(last)))

    def request(self) -> ChatRequest:
        """The whole conversation as the daemon is asked."""
        system = [Message("system", self.system)] if self.system else []
        return ChatRequest(
            model=self.model,
            messages=[*system, *self.messages],
            options=dict(self.options) or None,
            think=self.think,
            format=self.format,
            keep_alive=self.keep_alive,
        )

    def _turn(self, line: str) -> bool:
        try:
            if not line.strip():
                return True
            if commands.is_command(line):
                return commands.obey(self, line)
            self.say(line)
        except BlazarError as error:
            self.notes.line(f"{self.notes.bad('error:')} {error.message}")
        return True
