"""API keys from the environment, from SSM Parameter Store and from Secrets Manager."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from handler.auth import REFRESH_S, RETRY_S, Keys
from handler.errors import KeysUnavailable, Unauthorized
from handler.settings import Settings
from tests.handler.scripted import LambdaContext, ScriptedEngine, app_with, chat, url_event


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        yield


@pytest.fixture
def clock() -> Clock:
    return Clock()


def put_parameter(value: str) -> None:
    boto3.client("ssm").put_parameter(Name="/qwarm/key", Value=value, Type="SecureString", Overwrite=True)


def in_ssm(clock: Clock) -> Keys:
    return Keys(Settings(QWARM_API_KEY_SSM="/qwarm/key"), clock)


def let_in(keys: Keys, key: str) -> bool:
    try:
        keys.check({"authorization": f"Bearer {key}"})
    except Unauthorized:
        return False
    return True


def test_a_key_in_the_parameter_store_lets_in_and_others_do_not(aws: None, clock: Clock) -> None:
    put_parameter("sk-a, sk-b")
    keys = in_ssm(clock)
    assert [let_in(keys, key) for key in ("sk-a", "sk-b", "sk-c", "sk-a, sk-b", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("secret", ["sk-a", '{"current": "sk-a", "previous": "sk-b", "n": 1}'])
def test_a_key_in_a_secret_is_plain_or_in_a_json_object(aws: None, clock: Clock, secret: str) -> None:
    arn = boto3.client("secretsmanager").create_secret(Name="qwarm", SecretString=secret)["ARN"]
    for name in ("qwarm", arn):
        keys = Keys(Settings(QWARM_API_KEY_SECRET=name), clock)
        assert [let_in(keys, key) for key in ("sk-a", secret)] == [True, secret == "sk-a"]


def test_keys_of_the_environment_and_of_a_store_count_together(aws: None, clock: Clock) -> None:
    put_parameter("sk-stored")
    keys = Keys(Settings(QWARM_API_KEY="sk-own", QWARM_API_KEY_SSM="/qwarm/key"), clock)
    assert let_in(keys, "sk-own") and let_in(keys, "sk-stored")


def test_a_new_key_lets_in_soon_and_the_old_one_is_refused_after_a_while(aws: None, clock: Clock) -> None:
    put_parameter("sk-old")
    keys = in_ssm(clock)
    assert let_in(keys, "sk-old")
    put_parameter("sk-new")
    assert let_in(keys, "sk-old") and not let_in(keys, "sk-new")
    clock.now += RETRY_S
    assert let_in(keys, "sk-new") and not let_in(keys, "sk-old")
    put_parameter("sk-newest")
    clock.now += REFRESH_S
    assert not let_in(keys, "sk-new")


def test_wrong_keys_do_not_make_the_store_be_read_each_time(
    aws: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    monkeypatch.setattr("handler.auth.read_parameter", lambda name: reads.append(name) or ("sk-a",))
    keys = in_ssm(clock)
    for _ in range(100):
        assert not let_in(keys, "wrong")
    assert len(reads) == 1


def test_a_store_that_cannot_be_read_lets_nobody_in_and_is_one_line_of_the_log(
    aws: None, clock: Clock, records: Callable[[str], list[dict[str, Any]]]
) -> None:
    keys = in_ssm(clock)
    for _ in range(3):
        with pytest.raises(KeysUnavailable):
            keys.check({"authorization": "Bearer sk-a"})
    assert records("keys_unavailable") == [{"service": "ssm", "name": "/qwarm/key", "reason": "ParameterNotFound"}]


@pytest.mark.parametrize("value", [",", " , "])
def test_an_empty_parameter_is_no_key(aws: None, clock: Clock, value: str) -> None:
    put_parameter(value)
    with pytest.raises(KeysUnavailable):
        in_ssm(clock).check({"authorization": "Bearer ,"})


def test_keys_read_before_stay_valid_while_the_store_cannot_be_read(aws: None, clock: Clock) -> None:
    put_parameter("sk-a")
    keys = in_ssm(clock)
    assert let_in(keys, "sk-a")
    boto3.client("ssm").delete_parameter(Name="/qwarm/key")
    clock.now += REFRESH_S
    assert let_in(keys, "sk-a") and not let_in(keys, "sk-b")


def test_without_any_key_the_function_answers_503_and_not_openly(aws: None) -> None:
    app = app_with(ScriptedEngine(), QWARM_API_KEY="", QWARM_API_KEY_SSM="/qwarm/key")
    result = app.handle(url_event(chat()), LambdaContext())
    assert (result["statusCode"], json.loads(result["body"])["error"]["code"]) == (503, "keys_unavailable")
    assert result["headers"]["retry-after"] == "3"


def test_a_key_that_is_not_text_is_only_wrong(clock: Clock) -> None:
    keys = Keys(Settings(QWARM_API_KEY="sk-a"), clock)
    assert not let_in(keys, "\ud83d") and not let_in(keys, "ключ")
