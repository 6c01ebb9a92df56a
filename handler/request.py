"""An OpenAI chat-completions request: checked once, here, and turned into what the engine is asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from engine.request import ChatRequest
from handler.errors import BadRequest
from handler.invalid import bad_request
from handler.limits import (
    MAX_COUNT,
    MAX_MESSAGES,
    MAX_METADATA,
    MAX_METADATA_CHARS,
    MAX_METADATA_KEY_CHARS,
    MAX_TEMPLATE_ARGUMENTS,
    MAX_TOOLS,
)
from handler.messages import Message, Tool, at_most
from handler.options import Options
from handler.structure import response_format, tool_choice

_IGNORED = {  # known, and without effect on a function that serves one caller at a time and keeps nothing
    "audio", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "service_tier", "store", "user", "verbosity",
}  # fmt: skip
_Metadata = dict[
    Annotated[str, Field(max_length=MAX_METADATA_KEY_CHARS)], Annotated[str, Field(max_length=MAX_METADATA_CHARS)]
]
_TEMPLATE_OWN = {"messages", "tools", "add_generation_prompt", "documents", "chat_template", "tokenize"}
_NO_THINKING = {"none", "minimal"}
_BUDGETS = {"low": 512, "medium": 2048, "high": 8192}  # tokens of thinking: Qwen3.5 itself has no levels of effort


class ChatCompletion(Options):
    """The part of a chat-completions request that this function honors."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    tools: list[Tool] | None = Field(default=None, max_length=MAX_TOOLS, fail_fast=True)
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    response_format: Any = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = Field(default=None, ge=-1, le=MAX_COUNT)
    reasoning_budget_tokens: int | None = Field(default=None, ge=-1, le=MAX_COUNT)  # the same under llama-server's name
    chat_template_kwargs: Annotated[dict[str, Any] | None, at_most(MAX_TEMPLATE_ARGUMENTS)] = None
    metadata: Annotated[_Metadata | None, at_most(MAX_METADATA)] = None  # nothing is done with it
    modalities: list[str] | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    functions: Any = None
    function_call: Any = None

    @field_validator("modalities")
    @classmethod
    def _text(cls, modalities: list[str] | None) -> list[str] | None:
        if modalities is not None and modalities != ["text"]:
            raise PydanticCustomError("unsupported_value", "should be ['text']: this model writes text only")
        return modalities

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
        """The engine's version of this request; BadRequest for what cannot be kept together."""
        choice = tool_choice(self.tool_choice, [tool.function.name for tool in self.tools or ()])
        form = response_format(self.response_format)
        several = choice.mode != "named" if self.parallel_tool_calls is None else self.parallel_tool_calls
        continues = self._continues()
        if continues and (form is not None or choice.mode in ("required", "named")):
            raise BadRequest(
                "'continue_final_message' cannot be combined with a 'response_format' or 'tool_choice' that "
                "binds the answer from its beginning.",
                "continue_final_message",
            )
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
            tool_choice=choice,
            parallel_tool_calls=several,
            response_format=form,
            thinking=self._thinking() if thinking is None else thinking,
            thinking_budget=self._thinking_budget(),
            template_kwargs=kwargs,
            sampling=self.sampling(),
            max_tokens=min((n for n in (self.max_tokens, self.max_completion_tokens) if n is not None), default=None),
            stop=tuple(self.stop or ()),
            top_logprobs=self._top_logprobs(),
            splice=splice,
            continue_final=continues,
        )

    def _continues(self) -> bool:
        """Whether the last message is to be continued, under vLLM's names; BadRequest where that is not said."""
        last = self.messages[-1]
        if not self.continue_final_message:
            if self.add_generation_prompt is False:
                raise BadRequest(
                    "'add_generation_prompt' should be true unless 'continue_final_message' is.",
                    "add_generation_prompt",
                )
            if last.role == "assistant":
                raise BadRequest(
                    "The last message should be from the user or a tool, not the assistant; "
                    "set 'continue_final_message' to true to have it continued.",
                    f"messages[{len(self.messages) - 1}].role",
                )
            return False
        if self.add_generation_prompt:
            raise BadRequest(
                "'add_generation_prompt' should be false with 'continue_final_message'.", "add_generation_prompt"
            )
        if last.role != "assistant" or last.tool_calls:
            raise BadRequest(
                "'continue_final_message' needs a last message from the assistant without tool calls.",
                "continue_final_message",
            )
        return True

    def _thinking(self) -> bool | None:
        if self.enable_thinking is not None:
            return self.enable_thinking
        return None if self.reasoning_effort is None else self.reasoning_effort not in _NO_THINKING

    def _thinking_budget(self) -> int | None:
        """Tokens of thinking: as said, else by effort; -1 and an effort beyond high are no limit."""
        for said in (self.thinking_budget, self.reasoning_budget_tokens):
            if said is not None:
                return None if said < 0 else said
        return _BUDGETS.get(self.reasoning_effort or "")

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
