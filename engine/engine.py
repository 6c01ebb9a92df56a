"""One model that answers conversations: prompt, prefill, sampling and events, under a deadline."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from engine.answer import AnswerParser
from engine.chat_template import ChatTemplate
from engine.errors import Busy, ContextFull, NumericFault, OutOfTime
from engine.events import (
    Event,
    Finished,
    FinishReason,
    Prefilled,
    Progress,
    StopCause,
    Text,
    TokenLogprob,
    ToolArguments,
    ToolCall,
)
from engine.memory import machine_memory, plan_memory
from engine.messages import normalize_messages
from engine.model_file import ModelFile
from engine.native import Floats, Ids, Model, Phase, Session, top_logits
from engine.prefix_cache import Kind, PrefixCache, Reuse, spare_positions
from engine.request import ChatRequest
from engine.sampling import Sampler
from engine.splice import Answer, Splicer
from engine.threads import default_thread_count
from engine.tokenizer import Tokenizer

RemainingMs = Callable[[], float]

_PIECE_TOKENS = 1024  # evaluated between two looks at the deadline
_ALIGNMENT = 16  # pieces end where the delta rule's chunks do, so that cutting changes nothing
_SPARE_EVERY = 2048
_LATEST_FINISH = {"max_tokens", "context", "deadline"}


@dataclass(frozen=True, slots=True)
class _Prompt:
    """Token ids and the positions at which snapshots are worth keeping."""

    ids: Ids
    anchor: int | None
    marks: dict[int, Kind]
    spliced: int
    thinking: bool


class Engine:
    """A model, one live session and the snapshots of earlier ones.  Answers one request at a time."""

    def __init__(self, file: ModelFile, model: Model, *, context: int, cache_bytes: int, splice: bool) -> None:
        self._file = file
        self._model = model
        self._tokenizer = Tokenizer(file)
        self._template = ChatTemplate(file.chat_template, self._tokenizer, file.path)
        self._session = Session(model, context)
        self._cache = PrefixCache(self._session, cache_bytes)
        self._splicer = Splicer(self._tokenizer) if splice else None
        self._turn = threading.Lock()
        self._never = np.flatnonzero(~self._tokenizer.sampleable[: self._tokenizer.n_real])
        self.context = context
        self.cache_bytes = cache_bytes
        self.model_name = file.name
        self.isa = model.isa
        self.load_ms = 0.0

    @classmethod
    def load(
        cls,
        path: str,
        *,
        context: int | None = None,
        threads: int | None = None,
        isa: str | None = None,
        memory_bytes: int | None = None,
        cache_bytes: int | None = None,
        splice: bool = True,
    ) -> Engine:
        """Map a model file and make it ready.  None means: find out, or choose.

        Raises ModelFileError, OutOfMemory or UnsupportedCpu, each with one sentence.
        """
        started = time.perf_counter()
        file = ModelFile(path)
        model = Model(file, n_threads=threads or default_thread_count(), isa=isa)
        plan = plan_memory(
            memory_bytes=memory_bytes if memory_bytes is not None else machine_memory(),
            file_bytes=file.size,
            workspace_bytes=model.workspace_bytes,
            state_bytes=model.state_bytes,
            kv_token_bytes=model.kv_token_bytes,
            trained_context=file.config.context_length,
            context=context,
            cache_bytes=cache_bytes,
        )
        engine = cls(file, model, context=plan.context, cache_bytes=plan.cache_bytes, splice=splice)
        engine.load_ms = (time.perf_counter() - started) * 1e3
        return engine

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the vocabulary."""
        return self._file.fingerprint

    # --- answering ---

    def chat(self, request: ChatRequest, remaining_ms: RemainingMs) -> Iterator[Event]:
        """Answer a conversation.  ``remaining_ms`` is asked again and again; at 0 the answer ends.

        Raises InvalidPrompt, ContextFull, OutOfTime or Busy before the first event, and NumericFault at any time.
        Closing the iterator stops the work and leaves the engine ready for the next request.
        """
        with self._exclusive(remaining_ms):
            prompt = self._prompt(request)
            yield from self._answer(request, prompt, remaining_ms)

    @contextmanager
    def _exclusive(self, remaining_ms: RemainingMs) -> Iterator[None]:
        if not self._turn.acquire(timeout=max(0.0, min(remaining_ms() / 1e3, threading.TIMEOUT_MAX))):
            raise Busy("another request holds the model until after this one's deadline")
        try:
            yield
        finally:
            self._cache.finished()
            self._turn.release()

    def _prompt(self, request: ChatRequest) -> _Prompt:
        rendered = self._template.encode_chat(
            request.messages, request.tools, request.thinking, **request.template_kwargs
        )
        ids, spliced = rendered.ids, 0
        if self._splicer is not None and request.splice:
            ids, spliced = self._splicer.splice(rendered.ids, normalize_messages(request.messages))
        if len(ids) >= self.context:
            raise ContextFull(len(ids), self.context)
        anchor = None if rendered.anchor is None else rendered.anchor + len(ids) - len(rendered.ids)

        marks: dict[int, Kind] = {}
        base = max(rendered.base_end or 0, rendered.tools_end or 0)
        if anchor is not None:
            marks = dict.fromkeys(spare_positions(base, anchor, _SPARE_EVERY), Kind.SPARE)
            after_tool = bool(request.messages) and request.messages[-1].get("role") == "tool"
            marks[anchor] = Kind.ANCHOR if after_tool else Kind.TURN_ANCHOR
        for position in (rendered.tools_end, rendered.base_end):
            if position:
                marks[position] = Kind.BASE
        return _Prompt(np.array(ids, np.int32), anchor, marks, spliced, rendered.thinking)

    def _answer(self, request: ChatRequest, prompt: _Prompt, remaining_ms: RemainingMs) -> Iterator[Event]:
        parse_tools = bool(request.tools) and request.tool_choice.mode != "none"
        parser = AnswerParser(prompt.thinking, request.tools, request.stop, parse_tools)
        sampler = Sampler(
            request.sampling, self._tokenizer.n_real, prompt=prompt.ids.tolist(), top_logits=top_logits
        )
        logits = yield from self._prefill(prompt, remaining_ms)

        room = self.context - len(prompt.ids)
        limit = room if request.max_tokens is None else min(request.max_tokens, room)
        said = _Said()
        generated: list[int] = []
        reasoning_tokens = 0
        cause: StopCause = "eos"
        started = time.perf_counter()
        while True:
            token = sampler.choose(logits)
            if token in self._tokenizer.stop_ids:
                break
            sampler.accept(token)
            generated.append(token)
            reasoning_tokens += parser.in_reasoning
            if request.top_logprobs is not None and not parser.in_reasoning:
                yield self._logprob(sampler, logits, token, request.top_logprobs)
            yield from said.pass_on(parser.feed(self._tokenizer.decode_bytes(token)))
            if parser.stopped is not None:
                cause = "stop_string"
            elif parser.completed_calls and not request.parallel_tool_calls:
                cause = "one_tool_call"
            elif len(generated) >= limit:
                cause = "max_tokens" if limit < room or request.max_tokens == room else "context"
            elif remaining_ms() <= 0:
                cause = "deadline"
            if cause != "eos":
                break
            logits = self._eval(np.array([token], np.int32), Phase.DECODE, n_logits=1)
        decode_ms = (time.perf_counter() - started) * 1e3
        yield from said.pass_on(parser.finish())
        self._remember(prompt, generated, said)

        reason: FinishReason = "length" if cause in _LATEST_FINISH else "stop"
        if parser.has_tool_calls and reason == "stop":
            reason = "tool_calls"
        yield Finished(reason, cause, len(generated), reasoning_tokens, decode_ms, parser.stopped)

    def _remember(self, prompt: _Prompt, generated: Sequence[int], said: _Said) -> None:
        if self._splicer is not None and said.calls and prompt.anchor is not None:
            tokens = (*prompt.ids[prompt.anchor :].tolist(), *generated)
            self._splicer.remember(Answer(tokens, said.content, said.finished_calls()))

    def _logprob(self, sampler: Sampler, logits: Floats, token: int, n: int) -> TokenLogprob:
        chosen, best = sampler.logprobs(logits, token, n)

        def described(id_: int) -> tuple[str, bytes]:
            data = self._tokenizer.decode_bytes(id_)
            return data.decode(errors="replace"), data

        return TokenLogprob(*described(token), chosen, tuple((*described(id_), value) for id_, value in best))

    # --- evaluating ---

    def _prefill(self, prompt: _Prompt, remaining_ms: RemainingMs) -> Generator[Event, None, Floats]:
        """Evaluate what the cache does not have; ends by returning the last token's logits."""
        if remaining_ms() <= 0:
            raise OutOfTime("no time is left to evaluate the prompt")
        started = time.perf_counter()
        before = self._session.counters
        evictions = self._cache.evictions
        reuse = self._cache.find(prompt.ids)
        self._cache.restore(reuse)
        most_rows = 0
        logits: Floats | None = None
        n_prompt = len(prompt.ids)
        while (start := self._cache.position) < n_prompt:
            end = _piece_end(start, n_prompt)
            most_rows = max(most_rows, end - start)
            logits = self._eval(prompt.ids[start:end], Phase.PREFILL, n_logits=int(end == n_prompt), marks=prompt.marks)
            if end < n_prompt:
                if remaining_ms() <= 0:
                    raise OutOfTime(f"time ran out after {end} of the prompt's {n_prompt} tokens")
                yield Progress(end, n_prompt)
        assert logits is not None  # find() leaves at least one token
        after = self._session.counters
        yield self._prefilled(
            prompt,
            reuse,
            prefilled=after.prefill_tokens - before.prefill_tokens,
            prefill_ms=(time.perf_counter() - started) * 1e3,
            batch_rows=most_rows,
            gemm=after.gemm_rows > before.gemm_rows,
            evictions=self._cache.evictions - evictions,
        )
        return logits

    def _prefilled(
        self,
        prompt: _Prompt,
        reuse: Reuse,
        *,
        prefilled: int,
        prefill_ms: float,
        batch_rows: int,
        gemm: bool,
        evictions: int,
    ) -> Prefilled:
        fell_short = reuse.position < reuse.lcp and reuse.path in ("base", "spare", "full")
        return Prefilled(
            path=reuse.path,
            prompt_tokens=len(prompt.ids),
            lcp=reuse.lcp,
            restored_at=reuse.position,
            prefilled=prefilled,
            prefill_ms=prefill_ms,
            batch_rows=batch_rows,
            kernel=f"{self.isa}/{self._model.gemm if gemm else 'per_token'}",
            slot=reuse.conversation,
            slots_used=self._cache.conversations,
            snapshot_bytes=self._cache.bytes_held,
            evictions=evictions,
            spliced=prompt.spliced,
            diverge_at=reuse.lcp if fell_short else None,
            diverge_had=reuse.diverge_had if fell_short else (),
            diverge_got=reuse.diverge_got if fell_short else (),
        )

    def _eval(
        self, ids: Ids, phase: Phase, *, n_logits: int, marks: dict[int, Kind] | None = None
    ) -> Floats:
        """Evaluate tokens on the live timeline and keep the snapshots that lie on the way."""
        start = self._cache.position
        wanted = [p for p in sorted(marks or ()) if start < p <= start + len(ids)]
        try:
            logits, snapshots = self._session.eval(ids, phase, n_logits=n_logits, marks=wanted)
        except NumericFault:
            self._cache.lost()
            raise
        self._cache.advanced(ids.tolist())
        for position, snapshot in zip(wanted, snapshots, strict=True):
            self._cache.keep((marks or {})[position], snapshot)
        row: Floats = logits[-1] if n_logits else logits
        if n_logits:
            row[self._never] = -np.inf
        return row


class _Said:
    """What the client has been told of an answer."""

    def __init__(self) -> None:
        self.content = ""
        self.calls: list[tuple[str, str, list[str]]] = []

    def pass_on(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            if isinstance(event, Text):
                self.content += event.text
            elif isinstance(event, ToolCall):
                self.calls.append((event.id, event.name, []))
            elif isinstance(event, ToolArguments):
                self.calls[event.index][2].append(event.json)
        return events

    def finished_calls(self) -> tuple[tuple[str, str, object], ...]:
        return tuple((id_, name, json.loads("".join(pieces))) for id_, name, pieces in self.calls)


def _piece_end(start: int, end: int) -> int:
    """Where the next piece of a prefill ends: parts of about equal size, cut at the delta rule's chunks."""
    n_pieces = -(-(end - start) // _PIECE_TOKENS)
    if n_pieces <= 1:
        return end
    cut = start + -(-(end - start) // n_pieces)
    return -(-cut // _ALIGNMENT) * _ALIGNMENT
