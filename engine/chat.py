"""``python -m engine chat``: a conversation in the terminal, with what each prompt reused under its answer."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from engine.commands import add_model_arguments
from engine.engine import Engine
from engine.errors import EngineError, OutOfTime
from engine.evaluation import RemainingMs
from engine.events import Event, Finished, Prefilled, Progress, Reasoning, Text, ToolArguments, ToolCall
from engine.recorded import read_tools
from engine.request import ChatRequest, Sampling

if TYPE_CHECKING:
    from engine.commands import Subcommands

_NO_HURRY_MS = 1e12
_HELP = "/new forgets the conversation, /quit or Ctrl-D leaves, Ctrl-C stops an answer."
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"
# A model's text must not move the cursor: of the control characters only line breaks and tabs are let through.
_CONTROLS = {code: None for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t"}
_NOT_A_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class Answers(Protocol):
    """What a conversation needs of the engine."""

    def chat(self, request: ChatRequest, remaining_ms: RemainingMs) -> Iterator[Event]: ...


def add_chat(subcommands: Subcommands) -> None:
    """The ``chat`` command."""
    parser = subcommands.add_parser("chat", help="talk with a model in the terminal", epilog=_HELP)
    add_model_arguments(parser)
    parser.add_argument("--system", metavar="TEXT|FILE", help="the system text, or a file with it")
    parser.add_argument("--tools", metavar="FILE", help="the JSON list a request has under tools; you type the results")
    parser.add_argument("--thinking", choices=("on", "off"), help="default: the template's own")
    parser.add_argument("--max-tokens", type=int, help="of one answer; default: what the context leaves")
    parser.add_argument("--temperature", type=float, default=0.7, help="0: always the likeliest; default: %(default)s")
    parser.add_argument("--seed", type=int, help="for the same choices again")
    parser.add_argument("--context", type=int, help="tokens; default: what the memory allows")
    parser.set_defaults(run=run_chat)


def run_chat(arguments: argparse.Namespace) -> None:
    """Load the model and talk until the input ends."""
    system = _system(arguments.system) if arguments.system else ()
    asked = ChatRequest(
        messages=system,
        tools=read_tools(arguments.tools) if arguments.tools else (),
        thinking={"on": True, "off": False}.get(arguments.thinking),
        sampling=Sampling(temperature=arguments.temperature, top_k=20, top_p=0.8, seed=arguments.seed),
        max_tokens=arguments.max_tokens,
    )
    engine = Engine.load(arguments.model, context=arguments.context, threads=arguments.threads, isa=arguments.isa)
    print(f"{engine.model_name}, {engine.context:,} tokens of context, {engine.isa} kernels\n{_HELP}")
    Conversation(engine, asked, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ).talk()


def _system(given: str) -> tuple[dict[str, Any], ...]:
    try:
        text = Path(given).read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        if error.errno not in _NOT_A_FILE:
            raise
        text = given
    return ({"role": "system", "content": text},)


class Conversation:
    """The messages so far, and the turns that make more of them.  ``asked`` is a request without a turn."""

    def __init__(self, engine: Answers, asked: ChatRequest, *, color: bool = False) -> None:
        self._engine = engine
        self._asked = asked
        self._color = color
        self._forget()

    def talk(self) -> None:
        """Take lines from standard input until it ends or one says /quit."""
        while (line := self._line()) not in (None, "/quit"):
            if line == "/new":
                self._forget()
            elif line.startswith("/"):
                print(_HELP)
            elif line:
                self._take(line)

    def _forget(self) -> None:
        self._messages = list(self._asked.messages)
        self._open_calls: list[tuple[str, str]] = []  # id and name of the calls whose result is still to be typed

    def _line(self) -> str | None:
        """The next line; None at the end.  Without a terminal there is nobody to prompt."""
        prompt = f"result of {self._open_calls[0][1].translate(_CONTROLS)}> " if self._open_calls else "> "
        while True:
            try:
                return input(prompt if sys.stdin.isatty() else "").strip()
            except EOFError:
                return None
            except KeyboardInterrupt:
                print()

    def _take(self, line: str) -> None:
        messages, calls = list(self._messages), list(self._open_calls)
        if calls:
            id_, _ = self._open_calls.pop(0)
            self._messages.append({"role": "tool", "tool_call_id": id_, "content": line})
            if self._open_calls:
                return
        else:
            self._messages.append({"role": "user", "content": line})
        try:
            self._answer()
        except EngineError as error:  # this turn did not happen
            print("stopped" if isinstance(error, OutOfTime) else f"error: {error}")
            self._messages, self._open_calls = messages, calls

    def _answer(self) -> None:
        answer = _Answer(self._color)
        request = replace(self._asked, messages=tuple(self._messages))
        with _until_interrupted() as remaining_ms:
            for event in self._engine.chat(request, remaining_ms):
                answer.show(event)
        self._messages.append(answer.message())
        self._open_calls = [(call["id"], call["function"]["name"]) for call in answer.calls]


class _Answer:
    """One answer as it comes: on the screen, and as the message that the next prompt repeats."""

    def __init__(self, color: bool) -> None:
        self._dim, self._bold, self._plain = (_DIM, _BOLD, _PLAIN) if color else ("", "", "")
        self._dimmed = False
        self._text = self._reasoning = ""
        self._prefilled: Prefilled | None = None
        self.calls: list[dict[str, Any]] = []

    def show(self, event: Event) -> None:
        if self._dimmed and not isinstance(event, Reasoning):
            self._dimmed = False
            self._write(self._plain + ("" if isinstance(event, Finished) else "\n\n"))
        match event:
            case Progress(done, total) if sys.stderr.isatty():
                sys.stderr.write(f"reading {done:,} of {total:,} tokens\r")
            case Prefilled():
                self._prefilled = event
            case Reasoning(text):
                self._write(("" if self._dimmed else self._dim) + text.translate(_CONTROLS))
                self._dimmed = True
                self._reasoning += text
            case Text(text):
                self._write(text.translate(_CONTROLS))
                self._text += text
            case ToolCall(_, id_, name):
                self._write(f"\n{self._bold}{name.translate(_CONTROLS)}{self._plain} ")
                self.calls.append({"id": id_, "type": "function", "function": {"name": name, "arguments": ""}})
            case ToolArguments(index, piece):
                self._write(piece.translate(_CONTROLS))
                self.calls[index]["function"]["arguments"] += piece
            case Finished():
                self._write(f"\n{self._dim}[{_summary(self._prefilled, event)}]{self._plain}\n")

    def message(self) -> dict[str, Any]:
        """The answer for the template.  A call that was cut off is not part of it."""
        self.calls = [call for call in self.calls if _read_arguments(call["function"])]
        message: dict[str, Any] = {"role": "assistant", "content": self._text}
        if self._reasoning:
            message["reasoning_content"] = self._reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        return message

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _read_arguments(function: dict[str, Any]) -> bool:
    try:
        function["arguments"] = json.loads(function["arguments"])
    except ValueError:
        return False
    return True


def _summary(prefilled: Prefilled | None, finished: Finished) -> str:
    parts = []
    if prefilled:
        speed = f", {prefilled.prefilled * 1e3 / prefilled.prefill_ms:,.0f} tok/s" if prefilled.prefilled else ""
        parts.append(
            f"{prefilled.path}: {prefilled.restored_at:,} tokens reused, {prefilled.prefilled:,} computed{speed}"
        )
    n, ms = finished.completion_tokens, finished.decode_ms
    parts.append(f"answer: {n:,} tokens" + (f", {n * 1e3 / ms:.1f} tok/s" if ms else ""))
    if finished.reason == "length":
        parts.append(
            {"deadline": "stopped", "context": "the context is full"}.get(finished.cause, "--max-tokens reached")
        )
    return "; ".join(parts)


@contextmanager
def _until_interrupted() -> Iterator[RemainingMs]:
    """Time without end, until Ctrl-C: then none is left, and the engine ends the answer where it can be continued."""
    interrupted = False

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: 0.0 if interrupted else _NO_HURRY_MS
    finally:
        signal.signal(signal.SIGINT, before)
