"""What the template makes of its parameters, as written and translated: what the linters do not look at."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from engine.events import Finished, Prefilled
from handler.log import METRIC_UNITS
from handler.record import Record
from handler.settings import Settings
from tests.deploy.stack import RefusedParameters, Stack, parse_template

ROOT = Path(__file__).parents[2]
KEY = {"ApiKeyParameter": "/qwarm/api-key"}
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:qwarm-AbCdEf"


@pytest.fixture(scope="module")
def stack() -> Stack:
    return Stack(**KEY)


def function_of(stack: Stack) -> dict[str, Any]:
    (function,) = stack.of_type("AWS::Serverless::Function")
    return function


def variables_of(stack: Stack) -> dict[str, Any]:
    variables: dict[str, Any] = function_of(stack)["Environment"]["Variables"]
    return variables


def statements_of(stack: Stack) -> list[dict[str, Any]]:
    (role,) = stack.of_type("AWS::IAM::Role")
    return [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]


def test_a_public_url_without_a_key_cannot_be_deployed() -> None:
    with pytest.raises(RefusedParameters, match="set ApiKeyParameter or ApiKeySecret"):
        Stack()
    assert Stack(**KEY)
    assert Stack(ApiKeySecret=SECRET)
    assert Stack(AuthType="AWS_IAM")


@pytest.mark.parametrize(("parameters", "auth"), [(KEY, "key"), ({"AuthType": "AWS_IAM"}, "none")])
def test_the_function_asks_for_a_key_exactly_where_the_url_asks_for_nothing(
    parameters: dict[str, str], auth: str
) -> None:
    stack = Stack(**parameters)
    assert variables_of(stack)["QWARM_AUTH"] == auth
    assert (function_of(stack)["FunctionUrlConfig"]["AuthType"] == "NONE") == (auth == "key")


def test_a_public_url_has_both_permissions_it_needs_and_a_signed_one_has_none(stack: Stack) -> None:
    permissions = stack.of_type("AWS::Lambda::Permission", translated=True)
    assert {permission["Action"] for permission in permissions} == {
        "lambda:InvokeFunctionUrl",
        "lambda:InvokeFunction",
    }
    for permission in permissions:
        assert permission.get("FunctionUrlAuthType") == "NONE" or permission["InvokedViaFunctionUrl"] is True
    assert Stack(AuthType="AWS_IAM").of_type("AWS::Lambda::Permission", translated=True) == []


@pytest.mark.parametrize("mode", ["RESPONSE_STREAM", "BUFFERED"])
def test_the_function_is_told_the_invoke_mode_of_its_url(mode: str) -> None:
    stack = Stack(**KEY, InvokeMode=mode)
    (url,) = stack.of_type("AWS::Lambda::Url", translated=True)
    assert (url["InvokeMode"], variables_of(stack)["QWARM_INVOKE_MODE"]) == (mode, mode)


def test_a87_every_setting_is_declared_and_nothing_else_is(stack: Stack) -> None:
    settings = {field.alias for field in Settings.model_fields.values()}
    set_by_lambda = {name for name in settings if name and name.startswith("AWS_")}
    assert set(variables_of(stack)) == settings - set_by_lambda


def test_the_variables_are_settings_that_the_function_accepts(stack: Stack) -> None:
    given = {name: str(value) for name, value in variables_of(stack).items() if str(value)}
    settings = Settings.model_validate(given)
    assert (settings.api_key_ssm, settings.invoke_mode, settings.model) == (
        "/qwarm/api-key",
        "RESPONSE_STREAM",
        "/opt/qwarm/model.gguf",
    )


def test_no_variable_holds_a_key(stack: Stack) -> None:
    assert variables_of(stack)["QWARM_API_KEY"] == ""


def test_a84_the_function_is_an_arm64_image_within_lambdas_limits(stack: Stack) -> None:
    function = function_of(stack)
    assert (function["PackageType"], function["Architectures"]) == ("Image", ["arm64"])
    bounds = {
        name: (said["MinValue"], said["Default"], said["MaxValue"])
        for name, said in stack.source["Parameters"].items()
        if "MaxValue" in said
    }
    assert bounds == {
        "MemorySize": (512, 10240, 10240),
        "Timeout": (10, 900, 900),
        "EphemeralStorage": (512, 512, 10240),
    }
    assert stack.source["Parameters"]["InvokeMode"]["AllowedValues"] == ["RESPONSE_STREAM", "BUFFERED"]
    assert stack.source["Parameters"]["AuthType"]["AllowedValues"] == ["NONE", "AWS_IAM"]


def test_a86_the_template_builds_with_the_dockerfiles_own_defaults() -> None:
    template = parse_template()
    function = template["Resources"]["ChatFunction"]
    metadata = function["Metadata"]
    assert {"Dockerfile", "DockerContext", "DockerTag"} <= set(metadata)
    assert "ImageUri" not in function["Properties"]  # `sam build` fills it in
    dockerfile = (ROOT / metadata["DockerContext"] / metadata["Dockerfile"]).read_text()
    assert f" AS {metadata['DockerBuildTarget']}\n" in dockerfile
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.MULTILINE))
    assert {
        name: template["Parameters"][argument["Ref"]]["Default"]
        for name, argument in metadata["DockerBuildArgs"].items()
    } == defaults


def test_the_role_may_only_write_its_log_and_read_what_is_named(stack: Stack) -> None:
    assert statements_of(stack) == [
        {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "<LogGroup.Arn>"},
        {
            "Effect": "Allow",
            "Action": "ssm:GetParameter",
            "Resource": "arn:aws:ssm:eu-central-1:123456789012:parameter/qwarm/api-key",
        },
    ]
    everything = Stack(ApiKeySecret=SECRET, ModelUri="s3://models/qwen/m.gguf", SnapshotUri="s3://kept/a/b")
    allowed = [(said["Action"], said["Resource"]) for said in statements_of(everything)[1:]]
    assert allowed == [
        ("secretsmanager:GetSecretValue", SECRET),
        ("s3:GetObject", "arn:aws:s3:::models/qwen/m.gguf"),
        (["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::kept/a/b/*"),
        ("s3:ListBucket", "arn:aws:s3:::kept"),
    ]
    assert everything.of_type("AWS::IAM::Role")[0].get("ManagedPolicyArns") is None


NAMED: dict[str, tuple[str, dict[str, set[str]]]] = {  # by parameter: a value, and what may be done with which resource
    "ApiKeyParameter": (
        "/qwarm/api-key",
        {"arn:aws:ssm:eu-central-1:123456789012:parameter/qwarm/api-key": {"ssm:GetParameter"}},
    ),
    "ApiKeySecret": (SECRET, {SECRET: {"secretsmanager:GetSecretValue"}}),
    "ModelUri": ("s3://models/qwen/m.gguf", {"arn:aws:s3:::models/qwen/m.gguf": {"s3:GetObject"}}),
    "SnapshotUri": (
        "s3://kept/a/b",
        {
            "arn:aws:s3:::kept/a/b/*": {"s3:GetObject", "s3:PutObject"},
            "arn:aws:s3:::kept": {"s3:ListBucket"},  # it is the bucket that is listed, though only under the prefix
        },
    ),
}


@pytest.mark.parametrize("names", [names for n in range(5) for names in combinations(NAMED, n)], ids="+".join)
def test_a_role_may_do_with_each_thing_that_is_named_what_the_function_does_and_nothing_else(
    names: tuple[str, ...],
) -> None:
    expected: dict[str, set[str]] = {"<LogGroup.Arn>": {"logs:CreateLogStream", "logs:PutLogEvents"}}
    for name in names:
        expected |= NAMED[name][1]
    allowed: dict[str, set[str]] = {}
    for statement in statements_of(Stack(AuthType="AWS_IAM", **{name: NAMED[name][0] for name in names})):
        assert set(statement) == {"Effect", "Action", "Resource"} and statement["Effect"] == "Allow"
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        allowed.setdefault(statement["Resource"], set()).update(actions)
    assert allowed == expected
    assert [resource for resource in allowed if "*" in resource.removesuffix("/*")] == []


def test_only_lambda_may_take_the_role_and_nothing_else_grants_anything(stack: Stack) -> None:
    (role,) = stack.of_type("AWS::IAM::Role")
    assert set(role) == {"AssumeRolePolicyDocument", "Policies"}
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust == {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    assert not any(kind.startswith("AWS::IAM::") and kind != "AWS::IAM::Role" for kind in types_of(stack))
    assert "Policies" not in function_of(stack)


@pytest.mark.parametrize("name", NAMED)
def test_a_name_with_a_wildcard_would_allow_more_than_it_names_and_is_refused(stack: Stack, name: str) -> None:
    pattern = stack.source["Parameters"][name]["AllowedPattern"]
    value = NAMED[name][0]
    assert re.fullmatch(pattern, value) and re.fullmatch(pattern, "")
    for wild in (value + "*", value[:-1] + "?", value.replace("q", "*")):
        assert wild == value or not re.fullmatch(pattern, wild), wild


def types_of(stack: Stack) -> set[str]:
    return {resource["Type"] for resource in stack.resources.values()}


def test_the_function_has_that_role_and_no_other(stack: Stack) -> None:
    (function,) = stack.of_type("AWS::Lambda::Function", translated=True)
    assert (function["Role"], len(stack.of_type("AWS::IAM::Role", translated=True))) == ("<Role.Arn>", 1)


def test_the_log_group_is_the_functions_own_and_does_not_grow_for_ever(stack: Stack) -> None:
    logging = function_of(stack)["LoggingConfig"]
    assert (logging["LogFormat"], logging["LogGroup"]) == ("JSON", "<LogGroup>")
    (group,) = stack.of_type("AWS::Logs::LogGroup")
    assert group == {"LogGroupName": "/qwarm/qwarm", "RetentionInDays": 30}


def test_nothing_that_costs_while_idle_is_made_unless_asked_for(stack: Stack) -> None:
    made = {resource["Type"] for resource in stack.resources.values()}
    assert not made & {"AWS::Lambda::Alias", "AWS::Lambda::Version", "AWS::SecretsManager::Secret", "AWS::KMS::Key"}
    assert "ReservedConcurrentExecutions" not in function_of(stack)
    assert function_of(Stack(**KEY, ReservedConcurrency=0))["ReservedConcurrentExecutions"] == 0


def test_provisioned_concurrency_serves_a_url_of_its_own_with_the_same_locks() -> None:
    stack = Stack(**KEY, ProvisionedConcurrency=2, CorsOrigins="https://a.example,https://b.example")
    (alias,) = stack.of_type("AWS::Lambda::Alias")
    assert alias["ProvisionedConcurrencyConfig"] == {"ProvisionedConcurrentExecutions": 2}
    latest, ready = function_of(stack)["FunctionUrlConfig"], stack.resources["ReadyUrl"]["Properties"]
    same = ("AuthType", "InvokeMode", "Cors")
    assert [latest[name] for name in same] == [ready[name] for name in same]
    assert latest["Cors"]["AllowOrigins"] == ["https://a.example", "https://b.example"]
    assert ready["Qualifier"] == alias["Name"]
    assert len(stack.of_type("AWS::Lambda::Permission")) == 4
    assert stack.outputs["Url"] == "<ReadyUrl.FunctionUrl>v1"
    signed = Stack(AuthType="AWS_IAM", ProvisionedConcurrency=2)
    assert signed.of_type("AWS::Lambda::Permission") == []


def test_another_kind_of_access_is_another_version() -> None:
    descriptions = {
        Stack(**parameters, ProvisionedConcurrency=1).of_type("AWS::Lambda::Version")[0]["Description"]
        for parameters in (KEY, {"AuthType": "AWS_IAM"}, {**KEY, "Release": "2"})
    }
    assert len(descriptions) == 3
    assert max(map(len, descriptions)) + 100 <= 256  # CloudFormation's limit, and Release may have 100


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (KEY, '-H "Authorization: Bearer $(aws ssm get-parameter --with-decryption --name /qwarm/api-key'),
        ({"ApiKeySecret": SECRET}, f"--secret-id {SECRET}"),
        ({"AuthType": "AWS_IAM"}, "--aws-sigv4 aws:amz:eu-central-1:lambda"),
    ],
)
def test_the_first_request_in_the_outputs_carries_what_the_url_asks_for(parameters: dict[str, str], said: str) -> None:
    curl = Stack(**parameters).outputs["Curl"]
    assert curl.startswith("curl -N <ChatFunctionUrl.FunctionUrl>v1/chat/completions")
    assert said in curl
    assert "\n" not in curl
    assert json.loads(curl.split(" -d ")[1].strip("'"))["stream"] is True


def logged_fields() -> dict[str, set[str]]:
    """The names in the two records that the queries read."""
    common = set(Record("", False, lambda: 0.0, "off", None)._common())
    return {
        "prefill": {*Prefilled.__slots__, "prefill_path", "cached_tokens", "prefill_tok_s", *common},
        "completion": {*Finished.__slots__, "decode_tok_s", "finish_reason", "stop", *common},
    }


def queries_of(stack: Stack) -> list[str]:
    (dashboard,) = stack.of_type("AWS::CloudWatch::Dashboard")
    widgets = json.loads(dashboard["DashboardBody"])["widgets"]
    shown = [widget["properties"]["query"] for widget in widgets if widget["type"] == "log"]
    return shown + [query["QueryString"] for query in stack.of_type("AWS::Logs::QueryDefinition")]


QUERY_WORDS = set(
    """SOURCE filter stats fields sort limit by as in not and or desc count pct avg sum bin message type requests
    record metrics billedDurationMs memorySizeMB timestamp per_turn total turns usd tokens""".split()
)


def test_the_queries_use_names_that_the_log_has(stack: Stack) -> None:
    known = set.union(*logged_fields().values()) | QUERY_WORDS
    queries = queries_of(stack)
    assert len(queries) == 6
    for query in queries:
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'|\b\d\w*", "", query))
        made = set(re.findall(r"\bas (\w+)", query))
        assert set(words) - known - made == set(), query


def test_the_metrics_that_are_shown_and_watched_are_written(stack: Stack) -> None:
    (dashboard,) = stack.of_type("AWS::CloudWatch::Dashboard")
    shown = [
        metric[:2]
        for widget in json.loads(dashboard["DashboardBody"])["widgets"]
        for metric in widget["properties"].get("metrics", [])
    ]
    watched = [
        [query["MetricStat"]["Metric"]["Namespace"], query["MetricStat"]["Metric"]["MetricName"]]
        for alarm in stack.of_type("AWS::CloudWatch::Alarm")
        for query in alarm["Metrics"]
        if "MetricStat" in query
    ]
    counted = {
        made["MetricName"]
        for metric_filter in stack.of_type("AWS::Logs::MetricFilter")
        for made in metric_filter["MetricTransformations"]
    }
    ours = {name for namespace, name in shown + watched if namespace == Settings.model_fields["metrics"].default}
    assert ours - counted <= set(METRIC_UNITS)
    assert counted == {"qwarm-failed", "qwarm-refused"} and counted <= ours
    assert {name for namespace, name in shown + watched if namespace == "AWS/Lambda"} == {"Errors", "Throttles"}


def test_alarms_tell_the_topic_if_there_is_one(stack: Stack) -> None:
    assert all("AlarmActions" not in alarm for alarm in stack.of_type("AWS::CloudWatch::Alarm"))
    topic = "arn:aws:sns:eu-central-1:123456789012:alarms"
    alarms = Stack(**KEY, AlarmTopic=topic).of_type("AWS::CloudWatch::Alarm")
    assert [alarm["AlarmActions"] for alarm in alarms] == [[topic], [topic]]
