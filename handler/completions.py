"""Text completions, OpenAI's older endpoint: a prompt goes on as it is, without a template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from engine.events import Event, Finished, Prefilled, Text, TokenLogprob
from engine.request import ChatRequest
from handler.errors import BadRequest
from handler.invalid import bad_request
from handler.options import Options
from handler.response import Head, finite, timings, usage
from handler.stream import DONE, comment, data

Prompt = str | tuple[int, ...]

_DEFAULT_MAX_TOKENS = 16  # OpenAI's


def _one_prompt(given: Any) -> Any:
    """A text or token ids, bare or as the only element of an array."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], (str, list)):
        given = given[0]
    if isinstance(given, str) and given:
        return given
    if isinstance(given, list) and given and all(type(id_) is int for id_ in given):
        return tuple(given)
    raise PydanticCustomError("invalid_value", "should be one text or one array of token ids, not empty")


class TextCompletion(Options):
    """The part of a completions request that this function honors."""

    prompt: Annotated[Prompt, BeforeValidator(_one_prompt)]
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    best_of: int | None = None
    suffix: str | None = None

    @field_validator("best_of")
    @classmethod
    def _first_is_best(cls, n: int | None) -> int | None:
        if n not in (None, 1):
            raise PydanticCustomError("unsupported_value", "should be 1: this function gives one choice")
        return n

    @field_validator("suffix")
    @classmethod
    def _goes_on(cls, suffix: str | None) -> str | None:
        if suffix:
            raise PydanticCustomError("unsupported_value", "should be absent: this function does not insert text")
        return suffix

    def for_engine(self) -> ChatRequest:
        if self.echo and self.logprobs is not None:
            raise BadRequest(
                "'logprobs' should be absent with 'echo': the prompt's own tokens are not scored.",
                "logprobs",
                "unsupported_value",
            )
        return ChatRequest(
            messages=(),
            sampling=self.sampling(),
            max_tokens=_DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens,
            stop=tuple(self.stop or ()),
            top_logprobs=self.logprobs,
        )

    def echoed(self, token_bytes: Callable[[int], bytes]) -> str:
        """What the answer's text begins with."""
        if not self.echo:
            return ""
        if isinstance(self.prompt, str):
            return self.prompt
        return b"".join(map(token_bytes, self.prompt)).decode(errors="replace")


def read_completion(body: dict[str, Any]) -> TextCompletion:
    """The request in a JSON body; BadRequest says in one sentence what is wrong with it."""
    try:
        return TextCompletion.model_validate(body)
    except ValidationError as error:
        raise bad_request(error) from None


def text_completion(events: Iterable[Event], head: Head, echoed: str) -> dict[str, Any]:
    """The whole answer in one object."""
    text = [echoed]
    tokens: list[TokenLogprob] = []
    prefilled: Prefilled | None = None
    for event in events:
        match event:
            case Prefilled():
                prefilled = event
            case Text(piece):
                text.append(piece)
            case TokenLogprob():
                tokens.append(event)
            case Finished():
                return {
                    **head.fields("text_completion"),
                    "choices": [_choice("".join(text), tokens, 0, event.reason)],
                    "usage": usage(prefilled, event),
                    "timings": timings(prefilled, event),
                }
    raise EOFError("the engine's events ended without Finished")


def text_sse(events: Iterable[Event | None], head: Head, echoed: str, *, include_usage: bool) -> Iterator[bytes]:
    """The bytes of the stream; its objects are like the whole one, each with a piece of the text."""
    prefilled: Prefilled | None = None
    tokens: list[TokenLogprob] = []
    fields = head.fields("text_completion")
    asked = {"usage": None} if include_usage else {}
    sent = 0

    def chunk(text: str, reason: str | None = None, **more: Any) -> bytes:
        nonlocal sent
        choice = _choice(text, tokens, sent, reason)
        tokens.clear()
        sent += len(text)
        return data({**fields, "choices": [choice], **asked, **more})

    if echoed:
        yield chunk(echoed)
    for event in events:
        match event:
            case Prefilled():
                prefilled = event
            case TokenLogprob():
                tokens.append(event)
            case Text(text) if text:
                yield chunk(text)
            case Finished():
                counted = usage(prefilled, event)
                more = {} if include_usage else {"usage": counted}
                yield chunk("", event.reason, timings=timings(prefilled, event), **more)
                if include_usage:
                    yield data({**fields, "choices": [], "usage": counted})
                yield DONE
                return
            case _:
                yield comment(event)
    raise EOFError("the engine's events ended without Finished")


def _choice(text: str, tokens: Sequence[TokenLogprob], offset: int, reason: str | None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": _logprobs(tokens, offset), "finish_reason": reason}


def _logprobs(tokens: Sequence[TokenLogprob], offset: int) -> dict[str, Any] | None:
    if not tokens:
        return None
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.text)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [finite(token.logprob) for token in tokens],
        "top_logprobs": [
            {text: finite(logprob) for text, _, logprob in (*token.top, (token.text, b"", token.logprob))}
            for token in tokens
        ],
        "text_offset": offsets,
    }
