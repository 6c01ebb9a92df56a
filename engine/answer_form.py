"""The form an answer must have, and what of it is decided already: the tokens that may, or will, come next.

Thinking is free until it ends or its budget is used up.  After it the answer may be bound to a schema, to tool
calls, or to either; else a tool call is bound to its tool's schema from its opening marker on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from engine.errors import InvalidPrompt
from engine.grammar import GrammarVocabulary, InexpressibleGrammar, Matcher
from engine.grammar_calls import OPEN, CallGrammar
from engine.grammar_schema import Schema, SchemaTooLarge
from engine.request import ChatRequest
from engine.sampling import Allowed

_END_OF_THINKING = "\n</think>\n\n"
_BREAK = "BREAK: /\\n{1,2}/"
_MAX_TRIALS_S = 1.0  # to find what of the schemas has to be relaxed


class AnswerForm:
    """What one answer must look like.  ``relaxed`` are the places of schemas of which less is enforced."""

    def __init__(self, request: ChatRequest, thinking: bool, vocabulary: GrammarVocabulary) -> None:
        """Raises InvalidPrompt for a form that is promised and cannot be enforced."""
        self._request = request
        self._vocabulary = vocabulary
        self._tokenizer = vocabulary.tokenizer
        self.relaxed: tuple[str, ...] = ()
        self._trials_s = 0.0
        self._whole = self._whole_answer(thinking)
        self._matcher: Matcher | None = None
        self._call: Matcher | None = None  # the beginning of any call
        calls_are_free = self._whole is None and bool(request.tools) and request.tool_choice.mode != "none"
        self._opening = self._tokenizer.specials.get(OPEN) if calls_are_free else None
        self._forced: deque[int] = deque()
        self._fast = not request.sampling.logit_bias  # what is forced need not be chosen
        self._n_reasoning = 0
        self._closing = False
        if thinking:
            self._spend(0)
        else:
            self._begin(self._whole)

    def forced(self) -> int | None:
        """The next token, if it is decided."""
        return self._forced.popleft() if self._forced else None

    def allowed(self) -> Allowed | None:
        """Which tokens may come next; None for all.  Raises DeadEnd if none may."""
        return None if self._matcher is None else self._matcher.allowed()

    def accept(self, token: int, reasoning: bool) -> None:
        """Take in a token of the answer.  ``reasoning``: the answer is in a think block after it."""
        if self._matcher is not None:
            self._matcher.accept(token)
            if self._matcher.complete and self._matcher is not self._whole:
                self._matcher = None
            else:
                self._force()
        elif reasoning:
            self._spend(1)
        elif self._whole is not None:
            self._begin(self._whole, after=token)
        elif token == self._opening:
            self._begin(self._any_call())

    def _begin(self, matcher: Matcher | None, after: int | None = None) -> None:
        """Follow a grammar from here on, or from the end of a think block on that came within a token."""
        self._matcher = matcher
        if matcher is not None and after is not None:
            rest = self._tokenizer.decode_bytes(after).rpartition(b">")[2].lstrip(b"\n")
            for byte in rest:
                matcher.accept(self._tokenizer.byte_ids[byte])
        self._force()

    def _force(self) -> None:
        if self._matcher is not None and self._fast and not self._forced:
            self._forced.extend(self._matcher.forced())

    def _spend(self, n_tokens: int) -> None:
        self._n_reasoning += n_tokens
        budget = self._request.thinking_budget
        if budget is not None and self._n_reasoning >= budget and not self._closing:
            self._closing = True
            self._forced.extend(self._tokenizer.encode_with_specials(_END_OF_THINKING))

    def _whole_answer(self, thinking: bool) -> Matcher | None:
        """The form of all that follows the thinking, if there is one.  Line breaks after it belong to it."""
        form, choice = self._request.response_format, self._request.tool_choice
        must_call = choice.mode in ("required", "named")
        if not must_call and form is None:
            return None
        schema = None if must_call or form is None else self._schema(form.schema, form.strict)
        tools = self._request.tools if choice.mode != "none" else ()
        if choice.mode == "named":
            tools = tuple(tool for tool in tools if tool["function"]["name"] == choice.name)
        calls = CallGrammar(tools, self._tokenizer) if tools else None
        more_calls = " (BREAK? call)*" if self._request.parallel_tool_calls else ""
        answers = ([f"call{more_calls}"] if calls else []) + ([f"%json {schema}"] if schema else [])
        rules = [f"start: {'BREAK? ' if thinking else ''}answer", f"answer: {' | '.join(answers)}", _BREAK]
        try:
            return self._compiled(rules, calls)
        except InexpressibleGrammar as error:
            field = "tools" if must_call else "response_format"
            raise InvalidPrompt(f"'{field}' cannot be enforced: {error}", field) from None

    def _schema(self, given: object, strict: bool) -> str:
        """The schema of the answer as llguidance takes it."""
        field = "response_format.json_schema.schema"
        try:
            schema = Schema(given)
            if strict and schema.relaxed:
                place = schema.relaxed[0] or "its root"
                raise InexpressibleGrammar(
                    f"{place} is no schema, refers to none within it or has a number beyond 2**53"
                )
            try:
                self._vocabulary.matcher(f"start: %json {schema.json()}")
            except InexpressibleGrammar:
                if strict:
                    raise
                schema.fit(self._expressible)
        except (InexpressibleGrammar, SchemaTooLarge) as error:
            raise InvalidPrompt(f"'{field}' cannot be enforced: {error}", field) from None
        self._note(f"response_format{place}" for place in schema.relaxed)
        return schema.json()

    def _any_call(self) -> Matcher | None:
        """A call whose opening marker is out.  What is no call yet may still end there."""
        if self._call is None:
            calls = CallGrammar(self._request.tools, self._tokenizer)
            try:
                self._call = self._compiled(["start: opened_call?"], calls)
            except InexpressibleGrammar:
                self._opening = None
                self._note(["tools"])
                return None
        return self._call.copy()

    def _compiled(self, rules: list[str], calls: CallGrammar | None) -> Matcher:
        """The beginning of an answer.  The tools' schemas are relaxed as far as needed."""
        attempts = [] if calls is None else [lambda: calls.fit(self._expressible), calls.loosen]
        while True:
            try:
                matcher = self._vocabulary.matcher("\n".join([*rules, calls.rules() if calls else ""]))
                break
            except InexpressibleGrammar:
                if not attempts:
                    raise
                attempts.pop(0)()
        if calls:
            self._note(calls.relaxed)
        return matcher

    def _expressible(self, schema: str) -> bool:
        """Whether the library takes a schema.  SchemaTooLarge once that has been asked for too long."""
        if self._trials_s > _MAX_TRIALS_S:
            raise SchemaTooLarge("too much of it cannot be expressed")
        started = time.thread_time()
        try:
            self._vocabulary.matcher(f"start: %json {schema}")
        except InexpressibleGrammar:
            return False
        finally:
            self._trials_s += time.thread_time() - started
        return True

    def _note(self, places: Iterable[str]) -> None:
        self.relaxed = (*self.relaxed, *places)
