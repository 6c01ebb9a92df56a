"""Settings read from the environment."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from handler.settings import Settings, SettingsError, read_settings

KEY = {"QWARM_API_KEY": "sk-test"}


def test_the_environment_sets_every_field_and_an_empty_variable_sets_none() -> None:
    settings = read_settings(
        KEY
        | {
            "QWARM_MODEL": "/m.gguf",
            "QWARM_CONTEXT": "4096",
            "QWARM_THREADS": "",
            "QWARM_SPLICE": "false",
            "QWARM_INVOKE_MODE": "RESPONSE_STREAM",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "2048",
        }
    )
    assert (settings.model, settings.context, settings.threads, settings.splice) == (
        "/m.gguf",
        4096,
        None,
        False,
    )
    assert (settings.memory_mb, settings.streaming) == (2048, True)


def test_sam_local_is_always_answered_buffered() -> None:
    settings = read_settings(KEY | {"QWARM_INVOKE_MODE": "RESPONSE_STREAM", "AWS_SAM_LOCAL": "true"})
    assert settings.streaming is False


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("QWARM_CONTEXT", "many", "QWARM_CONTEXT is 'many': it should be a valid integer"),
        ("QWARM_CONTEXT", "0", "QWARM_CONTEXT is '0': it should be greater than or equal to 16"),
        (
            "QWARM_INVOKE_MODE",
            "STREAM",
            "QWARM_INVOKE_MODE is 'STREAM': it should be 'BUFFERED' or 'RESPONSE_STREAM'",
        ),
        ("QWARM_AUTH", "off", "QWARM_AUTH is 'off': it should be 'key' or 'none'"),
        ("QWARM_SNAPSHOT_S3", "my-bucket", "QWARM_SNAPSHOT_S3 is 'my-bucket': it should be of the form s3://bucket/"),
        ("QWARM_SNAPSHOT_WRITE_MS", "-1", "QWARM_SNAPSHOT_WRITE_MS is '-1': it should be greater than or equal to 0"),
        ("QWARM_SPLICE", "perhaps", "QWARM_SPLICE is 'perhaps': it should be a valid boolean"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_variable(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(KEY | {variable: value})
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keys", [{}, {"QWARM_API_KEY": " , "}, {"QWARM_API_KEY": ""}])
def test_without_a_key_the_function_does_not_start(keys: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"^QWARM_API_KEY is not set"):
        read_settings(keys)
    assert read_settings(keys | {"QWARM_AUTH": "none"}).keys == ()


def test_snapshots_are_kept_in_tmp_on_lambda_only_unless_a_setting_says_where() -> None:
    function = {"AWS_LAMBDA_FUNCTION_NAME": "qwarm"}
    assert read_settings(KEY | function).snapshot_folder == "/tmp/qwarm"
    assert read_settings(KEY).snapshot_folder is None
    assert read_settings(KEY | function | {"QWARM_SNAPSHOT_DIR": "off"}).snapshot_folder is None
    assert read_settings(KEY | {"QWARM_SNAPSHOT_DIR": "/mnt/x"}).snapshot_folder == "/mnt/x"


def test_settings_are_frozen_and_do_not_show_the_key() -> None:
    settings = read_settings(KEY)
    assert "sk-test" not in repr(settings)
    with pytest.raises(ValidationError):
        settings.context = 1


def test_every_setting_is_a_variable_with_a_description() -> None:
    for name, field in Settings.model_fields.items():
        assert field.alias and field.description and field.description.endswith("."), name
