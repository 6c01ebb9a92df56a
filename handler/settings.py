"""The function's settings: one frozen object, read once from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

InvokeMode = Literal["BUFFERED", "RESPONSE_STREAM"]


class SettingsError(Exception):
    """A setting has a wrong value; the message names the variable."""


class Settings(BaseModel):
    """Each field is an environment variable, its alias.  An empty variable counts as not set."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    model: str = Field(
        default="/opt/qwarm/model.gguf", alias="QWARM_MODEL", description="The GGUF file: its path, or s3://bucket/key."
    )
    model_sha256: str = Field(
        default="",
        alias="QWARM_MODEL_SHA256",
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 that a model from S3 must have. Not set: the one S3 keeps with it, if it keeps one.",
    )
    model_name: str = Field(
        default="",
        alias="QWARM_MODEL_NAME",
        description="Names requests may ask for, separated by commas; the first is the one answers carry. "
        "Not set: the file's own name, and any name that begins with qwen3.5 or is qwarm.",
    )
    context: int | None = Field(
        default=None,
        alias="QWARM_CONTEXT",
        ge=16,
        description="Context length in tokens. Not set: what the file and memory allow, at most 32768.",
    )
    threads: int | None = Field(
        default=None,
        alias="QWARM_THREADS",
        ge=1,
        le=256,
        description="Worker threads. Not set: the CPUs this process may use.",
    )
    isa: str | None = Field(
        default=None,
        alias="QWARM_ISA",
        description="Kernel set to use. Not set: the best one the CPU reports.",
    )
    api_key: str = Field(
        default="",
        alias="QWARM_API_KEY",
        repr=False,
        description="Key that callers must send; several separated by commas.",
    )
    api_key_ssm: str = Field(
        default="",
        alias="QWARM_API_KEY_SSM",
        description="Name of a parameter in SSM Parameter Store whose value is a key, or several.",
    )
    api_key_secret: str = Field(
        default="",
        alias="QWARM_API_KEY_SECRET",
        description="Name or ARN of a secret in Secrets Manager: a key, several, or a JSON object of keys.",
    )
    auth: Literal["key", "none"] = Field(
        default="key",
        alias="QWARM_AUTH",
        description="none: no key is asked for, because the URL uses AWS_IAM or is meant to be open.",
    )
    invoke_mode: InvokeMode = Field(
        default="BUFFERED",
        alias="QWARM_INVOKE_MODE",
        description="The function URL's InvokeMode, which the function cannot see for itself.",
    )
    cache_mb: int | None = Field(
        default=None,
        alias="QWARM_CACHE_MB",
        ge=0,
        description="Memory for kept conversations, in MB. Not set: what the model leaves free.",
    )
    splice: bool = Field(
        default=True,
        alias="QWARM_SPLICE",
        description="Reuse the exact tokens of earlier tool calls when a client returns their ids.",
    )
    snapshot_dir: str | None = Field(
        default=None,
        alias="QWARM_SNAPSHOT_DIR",
        description="Directory where the states after system texts and tools are kept; off: none. "
        "Not set: /tmp/qwarm on Lambda, none elsewhere.",
    )
    snapshot_max_mb: int = Field(
        default=256,
        alias="QWARM_SNAPSHOT_MAX_MB",
        ge=0,
        description="Most that QWARM_SNAPSHOT_DIR holds, in MB; the oldest make room.",
    )
    snapshot_baked: str = Field(
        default="/opt/qwarm/snapshots",
        alias="QWARM_SNAPSHOT_BAKED",
        description="Directory with snapshots that `python -m engine bake` made; it need not exist.",
    )
    snapshot_s3: str | None = Field(
        default=None,
        alias="QWARM_SNAPSHOT_S3",
        description="s3://bucket/prefix where all environments of the function keep such states. Not set: nowhere.",
    )
    snapshot_write_ms: int = Field(
        default=3000,
        alias="QWARM_SNAPSHOT_WRITE_MS",
        ge=0,
        le=60_000,
        description="Most time that writing them may take after an answer has been sent; 0: none are written.",
    )
    deadline_margin_ms: int = Field(
        default=2000,
        alias="QWARM_DEADLINE_MARGIN_MS",
        ge=0,
        le=60_000,
        description="An answer is ended this long before the function's timeout.",
    )
    metrics: str = Field(
        default="qwarm",
        alias="QWARM_METRICS",
        description="Namespace of the CloudWatch metrics; off: none are written.",
    )
    page: bool = Field(
        default=False,
        alias="QWARM_PAGE",
        description="Serve a chat page at GET /, to anyone; what it asks for needs the key. The local server does.",
    )
    log: Literal["debug", "info", "warning", "error"] = Field(
        default="info", alias="QWARM_LOG", description="Least level that is logged."
    )
    memory_mb: int | None = Field(
        default=None,
        alias="AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        ge=1,
        description="The function's memory, set by Lambda.",
    )
    lambda_name: str = Field(
        default="", alias="AWS_LAMBDA_FUNCTION_NAME", description="The function's name, set by Lambda."
    )
    sam_local: bool = Field(
        default=False,
        alias="AWS_SAM_LOCAL",
        description="Set by `sam local`, whose emulator cannot stream: answers are buffered.",
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the environment itself."""
        return listed(self.api_key)

    @property
    def names(self) -> tuple[str, ...]:
        """The configured model names."""
        return listed(self.model_name)

    @property
    def snapshot_folder(self) -> str | None:
        """The directory for snapshots, or None."""
        if self.snapshot_dir is None:
            return "/tmp/qwarm" if self.lambda_name else None  # noqa: S108  Lambda's only writable place
        return None if self.snapshot_dir == "off" else self.snapshot_dir

    @property
    def streaming(self) -> bool:
        """Whether this invocation's answer can leave in pieces."""
        return self.invoke_mode == "RESPONSE_STREAM" and not self.sam_local

    @field_validator("snapshot_s3")
    @classmethod
    def _bucket(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", url):
            raise PydanticCustomError("s3_url", "Input should be of the form s3://bucket/prefix")
        return url

    @model_validator(mode="after")
    def _a_key_or_an_open_door(self) -> Self:
        if self.auth == "key" and not (listed(self.api_key) or self.api_key_ssm or self.api_key_secret):
            raise ValueError(
                "QWARM_API_KEY is not set: set it to the key callers must send, or QWARM_API_KEY_SSM or "
                "QWARM_API_KEY_SECRET to where it is kept, or set QWARM_AUTH=none"
            )
        return self


def read_settings(environ: Mapping[str, str]) -> Settings:
    """The settings in these variables; SettingsError is one sentence about the first that is wrong."""
    try:
        return Settings.model_validate({name: value for name, value in environ.items() if value.strip()})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if not first["loc"]:
            raise SettingsError(str(first["ctx"]["error"])) from None
        name = str(first["loc"][0])
        raise SettingsError(f"{name} is {environ[name]!r}: {_expected(first['msg'])}") from None


def _expected(message: str) -> str:
    return message.replace("Input should be", "it should be", 1)


def listed(text: str) -> tuple[str, ...]:
    """The parts of a text between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def table() -> str:
    """The settings as a Markdown table: README's is this text."""
    lines = ["| variable | default | |", "|---|---|---|"]
    for field in Settings.model_fields.values():
        shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
        default = "" if shown in (None, "") else f"`{shown}`"
        lines.append(f"| `{field.alias}` | {default} | {field.description} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201  what README.md quotes
