"""A conversation as the model reads it: the chat template rendered, then turned into tokens.

Only the template's own markers become special tokens: see special_marks.

The places a prefix cache needs are found without knowing the template's words.  Two renderings of
conversations that differ in one place share their text up to it, so rendering with a message
replaced by a probe shows where that message's block begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from engine.errors import InvalidPrompt, ModelFileError
from engine.messages import Message, normalize_messages
from engine.special_marks import GLUE, PROBE, SPLIT, SpecialMarks, unmarked
from engine.template_sandbox import SandboxedTemplate, TemplateFault
from engine.tokenizer import Tokenizer, check_length

_ARGUMENTS = ("messages", "tools", "add_generation_prompt")
_WRITTEN_BY_ASSISTANT = ("content", "reasoning_content")
_THINK, _END_THINK = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt.  Positions count tokens and are None where the template has no such place.

    ``tools_end``: up to here, requests with these tools are equal whatever their system text.
    ``base_end``: after the system block, where the conversation begins; 0 without one.
    ``last_user_start``: where the last user message's block begins.
    ``anchor``: after the role line of the generation prompt, before any think block.
    ``thinking``: the prompt leaves a think block open, so the answer begins with reasoning.
    """

    ids: list[int]
    text: str
    tools_end: int | None
    base_end: int | None
    last_user_start: int | None
    anchor: int | None
    thinking: bool


class ChatTemplate:
    """The chat template of one model file; ``path`` names the file in errors, ``context`` limits the text.

    ``thinking_default`` is what ``thinking=None`` means; None for a template without that switch.
    """

    def __init__(
        self, source: str, tokenizer: Tokenizer, path: str = "the model file", context: int | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._marks = SpecialMarks(tokenizer)
        self.thinking_default = _thinking_default(source)
        try:
            if any(mark in source for mark in (SPLIT, GLUE, PROBE)):
                raise TemplateFault("it contains noncharacters from U+FDD0 to U+FDD2")
            self._template = SandboxedTemplate(source)
            self._template.render(_context([{"role": "user", "content": "Hello"}], (), True))
        except TemplateFault as error:
            raise ModelFileError(f"{path}: tokenizer.chat_template cannot be used: {error}") from error

    def render(
        self,
        /,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """The template's text for these messages exactly as given."""
        try:
            return self._template.render(kwargs | _context(messages, tools, add_generation_prompt))
        except TemplateFault as error:
            raise InvalidPrompt(str(error), "messages") from error

    def encode_chat(
        self,
        messages: Iterable[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        thinking: bool | None = None,
        continue_final: bool = False,
        /,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> Rendered:
        """The prompt of a conversation.  ``continue_final``: it ends where the last message's content ends."""
        for name in _ARGUMENTS:
            if name in kwargs:
                raise InvalidPrompt(f"{name} is not a template argument", f"chat_template_kwargs.{name}")
        if thinking is not None:
            kwargs["enable_thinking"] = thinking
        try:
            conversation = [self._marked(message) for message in normalize_messages(messages)]
            tools, kwargs = self._marks.mark(tools), self._marks.mark(kwargs)
        except RecursionError as error:
            raise InvalidPrompt("the messages or tools are nested too deeply", "messages") from error
        if continue_final:
            text = history = self._unfinished(conversation, tools, **kwargs)
        else:
            text = self.render(conversation, tools, add_generation_prompt, **kwargs)
            history = self.render(conversation, tools, False, **kwargs) if add_generation_prompt else text
        if self._context is not None:
            check_length(text, self._context)
        opening = text[len(history) :] if text.startswith(history) else ""

        prompt = _Prompt(self._tokenizer, self._marks, text)
        probe = {"role": "user", "content": PROBE}
        system = [message for message in conversation if message["role"] == "system"]
        users = [index for index, message in enumerate(conversation) if message["role"] == "user"]

        def shared_with(messages: Sequence[Message]) -> int:
            try:
                return _shared_length(text, self._template.render(kwargs | _context(messages, tools, False)))
            except TemplateFault:
                return 0

        base_end: int | None = 0
        tools_end = last_user_start = None
        if tools or system:
            base_end = prompt.block_start(shared_with([*system, probe]))
        if tools:
            other_system = {"role": "system", "content": PROBE}
            tools_end = prompt.position(min(shared_with([probe]), shared_with([other_system, probe]))) or None
        if users:
            changed = [*conversation[: users[-1]], probe, *conversation[users[-1] + 1 :]]
            last_user_start = prompt.block_start(shared_with(changed))
        return Rendered(
            ids=prompt.ids,
            text=unmarked(text),
            tools_end=tools_end,
            base_end=base_end,
            last_user_start=last_user_start,
            anchor=prompt.position(len(history) + opening.find("\n") + 1) if "\n" in opening else None,
            thinking=opening.rfind(_THINK) > opening.rfind(_END_THINK),
        )

    def _unfinished(self, conversation: Sequence[Message], tools: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        """The text up to the end of the last message's content."""
        if not conversation or conversation[-1]["role"] != "assistant":
            raise InvalidPrompt("the last message is not the assistant's: there is nothing to continue", "messages")
        last = {**conversation[-1], "content": conversation[-1]["content"] + PROBE}
        text, shown, _ = self.render([*conversation[:-1], last], tools, False, **kwargs).rpartition(PROBE)
        if not shown:
            raise InvalidPrompt("the chat template does not show the last message", "messages")
        return text

    def _marked(self, message: Message) -> Message:
        def mark(key: str, item: Any) -> Any:
            by_assistant = message["role"] == "assistant" and key in _WRITTEN_BY_ASSISTANT
            return item if key == "role" else self._marks.mark(item, by_assistant)

        return {key: mark(key, item) for key, item in message.items()}


class _Prompt:
    """A marked prompt's tokens, and which token begins at which offset of the marked text."""

    def __init__(self, tokenizer: Tokenizer, marks: SpecialMarks, text: str) -> None:
        self._tokenizer = tokenizer
        self.ids: list[int] = []
        self._end = len(text)
        self._segments = list(marks.segments(text))
        self._first_tokens = []
        for _, segment in self._segments:
            self._first_tokens.append(len(self.ids))
            self.ids.extend([segment] if isinstance(segment, int) else tokenizer.encode(unmarked(segment)))

    def position(self, offset: int) -> int | None:
        """The number of tokens before the offset; None if a token reaches across it."""
        if offset == self._end:
            return len(self.ids)
        index = bisect_right(self._segments, offset, key=itemgetter(0)) - 1
        start, segment = self._segments[index]
        first = self._first_tokens[index]
        if offset == start:
            return first
        if isinstance(segment, int):
            return None
        before = self._tokenizer.encode(unmarked(segment[: offset - start]))
        end = first + len(before)
        return end if self.ids[first:end] == before else None

    def block_start(self, shared_chars: int) -> int | None:
        """The position of the last special token within the first characters."""
        for index in reversed(range(bisect_right(self._segments, shared_chars, key=itemgetter(0)))):
            is_special = isinstance(self._segments[index][1], int)
            if is_special and self._segment_end(index) <= shared_chars:
                return self._first_tokens[index]
        return None

    def _segment_end(self, index: int) -> int:
        return self._segments[index + 1][0] if index + 1 < len(self._segments) else self._end


def _context(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], add_generation_prompt: bool
) -> dict[str, Any]:
    return {
        "messages": list(messages),
        "tools": list(tools) or None,
        "add_generation_prompt": add_generation_prompt,
    }


def _shared_length(a: str, b: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _thinking_default(source: str) -> bool | None:
    """Small models' templates test for ``is true`` (off unless asked for), the others for ``is false``."""
    if "enable_thinking is true" in source:
        return False
    if "enable_thinking is false" in source:
        return True
    return None
