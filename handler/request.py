"""An OpenAI chat-completions request: checked once, here, and turned into what the engine is asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from engine.request import ChatRequest, Sampling
from handler.errors import BadRequest
from handler.invalid import bad_request
from handler.messages import Body, Message, Tool
from handler.structure import check_format, tool_choice

T = TypeVar("T")

MAX_MESSAGES = 4096
MAX_TOOLS = 128
_IGNORED = {  # known, and without effect on a function that serves one caller at a time and keeps nothing
    "audio", "metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "service_tier", "store", "user", "verbosity",
}  # fmt: skip
_TEMPLATE_OWN = {"messages", "tools", "add_generation_prompt", "documents", "chat_template", "tokenize"}
_NO_THINKING = {"none", "minimal"}  # Qwen3.5 has no levels: every other effort is thinking


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


class StreamOptions(Body):
    include_usage: bool | None = None


class ChatCompletion(Body):
    """The part of a chat-completions request that this function honors.

    Qwen's recommended sampling is the default; penalties are off unless asked for.
    """

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: str | None = Field(default=None, max_length=256)
    tools: list[Tool] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: int | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, gt=0, le=10)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]] | None, BeforeValidator(_as_list)] = (
        Field(default=None, max_length=16)
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    response_format: Any = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    enable_thinking: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[str] | None = None
    continue_final_message: bool | None = None
    functions: Any = None
    function_call: Any = None

    @field_validator("n")
    @classmethod
    def _one_choice(cls, n: int | None) -> int | None:
        if n not in (None, 1):
            raise PydanticCustomError(
                "unsupported_value", "should be 1, not {n}: this function gives one choice", {"n": n}
            )
        return n

    @field_validator("logit_bias")
    @classmethod
    def _token_ids(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        for key in bias or {}:
            if not (key.isascii() and key.isdigit() and len(key) < 10):
                raise PydanticCustomError(
                    "invalid_value", "should have token ids as keys, not '{key}'", {"key": key[:40]}
                )
        return bias

    @field_validator("modalities")
    @classmethod
    def _text(cls, modalities: list[str] | None) -> list[str] | None:
        if modalities is not None and modalities != ["text"]:
            raise PydanticCustomError("unsupported_value", "should be ['text']: this model writes text only")
        return modalities

    @field_validator("continue_final_message")
    @classmethod
    def _new_message(cls, given: bool | None) -> bool | None:
        if given:
            raise PydanticCustomError("unsupported_value", "should be false: an answer is always a new message")
        return given

    @field_validator("functions", "function_call")
    @classmethod
    def _tools_instead(cls, given: Any) -> Any:
        if given:
            raise PydanticCustomError("unsupported_value", "should be absent: use 'tools' and 'tool_choice'")
        return given

    @field_validator("chat_template_kwargs")
    @classmethod
    def _template_settings(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        taken = sorted(_TEMPLATE_OWN & set(given or {}))
        if taken:
            raise PydanticCustomError("invalid_value", "should not set '{name}'", {"name": taken[0]})
        return given

    def for_engine(self, *, splice: bool) -> ChatRequest:
        """The engine's version of this request; BadRequest for what it does not do yet."""
        check_format(self.response_format)
        kwargs = dict(self.chat_template_kwargs or {})
        thinking = kwargs.pop("enable_thinking", None)
        if thinking is not None and not isinstance(thinking, bool):
            raise BadRequest(
                "'chat_template_kwargs.enable_thinking' should be true or false.",
                "chat_template_kwargs.enable_thinking",
            )
        return ChatRequest(
            messages=tuple(message.for_template() for message in self.messages),
            tools=tuple(tool.for_template() for tool in self.tools or ()),
            tool_choice=tool_choice(self.tool_choice, [tool.function.name for tool in self.tools or ()]),
            parallel_tool_calls=self.parallel_tool_calls is not False,
            thinking=self._thinking() if thinking is None else thinking,
            template_kwargs=kwargs,
            sampling=self._sampling(),
            max_tokens=min((n for n in (self.max_tokens, self.max_completion_tokens) if n is not None), default=None),
            stop=tuple(self.stop or ()),
            top_logprobs=self._top_logprobs(),
            splice=splice,
        )

    def _sampling(self) -> Sampling:
        bias = {int(token): value for token, value in (self.logit_bias or {}).items()}
        top_k = _given(self.top_k, 20)
        return Sampling(
            temperature=_given(self.temperature, 0.7),
            top_k=max(top_k, 0),  # -1 is other servers' word for all
            top_p=_given(self.top_p, 0.8),
            min_p=_given(self.min_p, 0.0),
            presence_penalty=_given(self.presence_penalty, 0.0),
            frequency_penalty=_given(self.frequency_penalty, 0.0),
            repetition_penalty=_given(self.repetition_penalty, 1.0),
            logit_bias=bias,
            seed=self.seed,
        )

    def _thinking(self) -> bool | None:
        if self.enable_thinking is not None:
            return self.enable_thinking
        return None if self.reasoning_effort is None else self.reasoning_effort not in _NO_THINKING

    def _top_logprobs(self) -> int | None:
        if self.logprobs:
            return self.top_logprobs or 0
        if self.top_logprobs:
            raise BadRequest("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
        return None


def read_request(body: dict[str, Any]) -> ChatCompletion:
    """The request in a JSON body; BadRequest says in one sentence what is wrong with it."""
    try:
        return ChatCompletion.model_validate(body)
    except ValidationError as error:
        raise bad_request(error) from None


def unknown_fields(body: dict[str, Any]) -> list[str]:
    """Fields this function does not know, for the log: few, short, and only what looks like a name."""
    names = sorted(set(body) - set(ChatCompletion.model_fields) - _IGNORED)
    return [name for name in names if name.isidentifier() and len(name) <= 40][:20]


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
