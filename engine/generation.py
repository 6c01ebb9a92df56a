"""The answer: choose tokens, turn them into events, and know when to stop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

from engine.answer import AnswerParser, PlainParser
from engine.answer_form import AnswerForm
from engine.evaluation import Evaluation, RemainingMs
from engine.events import (
    Event,
    Finished,
    FinishReason,
    StopCause,
    Text,
    TokenLogprob,
    ToolArguments,
    ToolCall,
)
from engine.grammar import GrammarVocabulary
from engine.native import Floats, top_logits
from engine.prompt import Prompt
from engine.request import ChatRequest
from engine.sampling import Sampler
from engine.splice import Answer
from engine.token_logprobs import TextLogprobs

_CUT_SHORT = ("max_tokens", "context", "deadline")


class Generation:
    """One answer to one prompt.  After the events, ``answer()`` is what the splicer may remember."""

    def __init__(self, request: ChatRequest, prompt: Prompt, vocabulary: GrammarVocabulary, room: int) -> None:
        """``room``: tokens the context has left.

        Raises InvalidPrompt for a bias on what is not a token, and for a form that cannot be enforced.
        """
        tokenizer = vocabulary.tokenizer
        self._request = request
        self._prompt = prompt
        self._tokenizer = tokenizer
        self._room = room
        self._limit = room if request.max_tokens is None else min(request.max_tokens, room)
        parse_tools = bool(request.tools) and request.tool_choice.mode != "none"
        self._parser = (
            PlainParser(request.stop)
            if prompt.plain
            else AnswerParser(prompt.thinking, request.tools, request.stop, parse_tools)
        )
        self._form = AnswerForm(request, prompt.thinking, vocabulary)
        self._logprobs = TextLogprobs()
        self._sampler = Sampler(request.sampling, tokenizer.n_real, prompt=prompt.ids.tolist(), top_logits=top_logits)
        self._generated: list[int] = []
        self._content = ""
        self._calls: list[tuple[str, str, list[str]]] = []

    def run(self, evaluation: Evaluation, logits: Floats, remaining_ms: RemainingMs) -> Iterator[Event]:
        """The answer's events, from the prompt's logits on; ``Finished`` is last."""
        parser = self._parser
        reasoning_tokens = 0
        cause: StopCause | None = None
        pending: list[int] = []  # chosen, their logits not yet needed: forced tokens are evaluated together
        started = time.perf_counter()
        while cause is None:
            token = self._form.forced()
            if pending and (token is None or self._request.top_logprobs is not None):
                logits = evaluation.decode(pending)
                pending = []
            if token is None:
                token = self._sampler.choose(logits, self._form.allowed())
            if token in self._tokenizer.stop_ids:
                cause = "eos"
                break
            self._sampler.accept(token)
            self._generated.append(token)
            reasoning_tokens += parser.in_reasoning
            if self._request.top_logprobs is not None and not parser.in_reasoning:
                self._logprobs.add(self._logprob(logits, token, self._request.top_logprobs))
            yield from self._noted(parser.feed(self._tokenizer.decode_bytes(token)))
            self._form.accept(token, parser.in_reasoning)
            cause = self._stop_cause(remaining_ms)
            pending.append(token)
        decode_ms = (time.perf_counter() - started) * 1e3
        yield from self._noted(parser.finish())

        reason: FinishReason = "length" if cause in _CUT_SHORT else "stop"
        if parser.has_tool_calls and reason == "stop":
            reason = "tool_calls"
        n_tokens, relaxed = len(self._generated), self._form.relaxed
        yield Finished(reason, cause, n_tokens, reasoning_tokens, decode_ms, parser.stopped, relaxed)

    def answer(self) -> Answer | None:
        """The tokens generated and what a client saw of them; None without a tool call."""
        if not self._calls or self._prompt.anchor is None:
            return None
        tokens = (*self._prompt.ids[self._prompt.anchor :].tolist(), *self._generated)
        calls = tuple((id_, name, json.loads("".join(pieces))) for id_, name, pieces in self._calls)
        return Answer(tokens, self._content, calls)

    def _stop_cause(self, remaining_ms: RemainingMs) -> StopCause | None:
        if self._parser.stopped is not None:
            return "stop_string"
        if self._parser.completed_calls and not self._request.parallel_tool_calls:
            return "one_tool_call"
        if len(self._generated) >= self._limit:
            return "max_tokens" if self._request.max_tokens == self._limit else "context"
        return "deadline" if remaining_ms() <= 0 else None

    def _noted(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Text):
                self._content += event.text
            elif isinstance(event, ToolCall):
                self._calls.append((event.id, event.name, []))
            elif isinstance(event, ToolArguments):
                self._calls[event.index][2].append(event.json)
        yield from self._logprobs.joined(events)

    def _logprob(self, logits: Floats, token: int, n: int) -> TokenLogprob:
        chosen, best = self._sampler.logprobs(logits, token, n)

        def described(id_: int) -> tuple[str, bytes]:
            data = self._tokenizer.decode_bytes(id_)
            return data.decode(errors="replace"), data

        return TokenLogprob(*described(token), chosen, tuple((*described(id_), value) for id_, value in best))
