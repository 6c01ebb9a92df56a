"""Messages and tools as OpenAI clients write them, and as the chat template reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from handler.body import NotJson, named, parse_json
from handler.limits import MAX_CALLS, MAX_DESCRIPTION_CHARS, MAX_ID_CHARS, MAX_NAME_CHARS, MAX_PARTS

TOOL_NAME = rf"^[A-Za-z0-9_.:/-]{{1,{MAX_NAME_CHARS}}}$"


class Body(BaseModel):
    """Part of a request body: types as JSON has them, fields this function does not know left alone."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", hide_input_in_errors=True)


def at_most(n: int) -> BeforeValidator:
    """A limit on the entries of an object, looked at before they are."""

    def check(given: Any) -> Any:
        if isinstance(given, dict) and len(given) > n:
            raise PydanticCustomError("too_long", "should have at most {n} entries, not {m}", {"n": n, "m": len(given)})
        return given

    return BeforeValidator(check)


class TextPart(Body):
    type: Literal["text"]
    text: str


def _text_only(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind != "text":
        raise PydanticCustomError(
            "unsupported_content_type",
            "should be a content part of type 'text', not '{kind}': this model reads text only",
            {"kind": kind[:40]},
        )
    return part


def _as_parts(content: Any) -> Any:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return content
    raise PydanticCustomError(
        "content_type",
        "should be a string or an array of content parts, not {found}",
        {"found": named(content)},
    )


Content = Annotated[
    list[Annotated[TextPart, BeforeValidator(_text_only)]],
    Field(max_length=MAX_PARTS, fail_fast=True),
    BeforeValidator(_as_parts),
]
Id = Annotated[str, Field(max_length=MAX_ID_CHARS)]


def _as_object(arguments: Any) -> Any:
    """Arguments arrive as a JSON text; the template wants the object."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = parse_json(arguments) if arguments.strip() else {}
    except NotJson as error:
        raise PydanticCustomError(
            "invalid_value",
            "should be a JSON object as a string, not what was sent: {why}",
            {"why": str(error)},
        ) from None
    if not isinstance(value, dict):
        raise PydanticCustomError(
            "invalid_value", "should be a JSON object as a string, not {found}", {"found": named(value)}
        )
    return value


class CalledFunction(Body):
    name: str = Field(min_length=1, max_length=256)
    arguments: Annotated[dict[str, Any], BeforeValidator(_as_object)] = {}


class MadeCall(Body):
    """A tool call of an earlier answer."""

    id: Id | None = None
    type: Literal["function"] = "function"
    function: CalledFunction

    def for_template(self) -> dict[str, Any]:
        call = {
            "type": "function",
            "function": {"name": self.function.name, "arguments": self.function.arguments},
        }
        return call if self.id is None else {"id": self.id, **call}


class Message(Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = []
    tool_calls: list[MadeCall] | None = Field(default=None, max_length=MAX_CALLS, fail_fast=True)
    tool_call_id: Id | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # the same under other servers' name

    def for_template(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": self.role, "content": "".join(part.text for part in self.content)}
        reasoning = self.reasoning if self.reasoning_content is None else self.reasoning_content
        if self.role == "assistant" and reasoning is not None:
            message["reasoning_content"] = reasoning
        if self.role == "assistant" and self.tool_calls:
            message["tool_calls"] = [call.for_template() for call in self.tool_calls]
        if self.role == "tool" and self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message


class Ordered(Body):
    """Remembers the order its keys were sent in: it is the order the template renders."""

    _order: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _keep_order(cls, value: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        checked = check(value)
        checked._order = tuple(name for name in value if name in cls.model_fields)
        return checked


class DeclaredFunction(Ordered):
    name: str = Field(pattern=TOOL_NAME)
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION_CHARS)
    parameters: dict[str, Any] | None = None

    def for_template(self) -> dict[str, Any]:
        return {name: value for name in self._order if (value := getattr(self, name)) is not None}


class Tool(Ordered):
    type: Literal["function"]
    function: DeclaredFunction

    def for_template(self) -> dict[str, Any]:
        function = self.function.for_template()
        return {name: function if name == "function" else self.type for name in self._order}
