"""What chat and text completions have in common: how the answer is sampled, limited and sent."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from engine.request import Sampling
from handler.limits import MAX_BIASES, MAX_COUNT, MAX_MODEL_CHARS, MAX_STOP_CHARS, MAX_STOPS
from handler.messages import Body, at_most

T = TypeVar("T")


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


class StreamOptions(Body):
    include_usage: bool | None = None


class Options(Body):
    """Qwen's recommended sampling is the default; penalties are off unless asked for."""

    model: str | None = Field(default=None, max_length=MAX_MODEL_CHARS)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    n: int | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, le=MAX_COUNT)
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, gt=0, le=10)
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]] | None, at_most(MAX_BIASES)] = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]] | None, BeforeValidator(_as_list)
    ] = Field(default=None, max_length=MAX_STOPS)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

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

    def sampling(self) -> Sampling:
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


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
