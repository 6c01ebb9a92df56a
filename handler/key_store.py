"""API keys kept outside the function: SSM Parameter Store and Secrets Manager."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from handler.errors import KeysUnavailable
from handler.log import log
from handler.settings import listed

_TIMEOUTS = {"connect_timeout": 2, "read_timeout": 3, "retries": {"total_max_attempts": 2}}


def read_parameter(name: str) -> tuple[str, ...]:
    """The keys in a parameter, separated by commas; KeysUnavailable if there are none to be had."""
    return _read("ssm", name, lambda ssm: ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def read_secret(name: str) -> tuple[str, ...]:
    """The keys in a secret, separated by commas or the values of a JSON object; KeysUnavailable if there are none."""
    return _read("secretsmanager", name, lambda secrets: _values(secrets.get_secret_value(SecretId=name)))


def _values(answer: dict[str, Any]) -> str:
    text: str = answer.get("SecretString", "")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return ",".join(item for item in value.values() if isinstance(item, str)) if isinstance(value, dict) else text


def _read(service: str, name: str, get: Callable[[Any], str]) -> tuple[str, ...]:
    try:
        import boto3  # a third of a second: only for who keeps keys in a store
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise _unavailable(service, name, "boto3 is not installed") from None
    try:
        keys = listed(get(boto3.client(service, config=Config(**_TIMEOUTS))))
    except ClientError as error:
        raise _unavailable(service, name, error.response["Error"]["Code"]) from None
    except BotoCoreError as error:
        raise _unavailable(service, name, type(error).__name__) from None
    if not keys:
        raise _unavailable(service, name, "there is no key in it")
    return keys


def _unavailable(service: str, name: str, reason: str) -> KeysUnavailable:
    log("keys_unavailable", level=logging.ERROR, service=service, name=name, reason=reason)
    return KeysUnavailable(f"The API keys could not be read from {service}.")
