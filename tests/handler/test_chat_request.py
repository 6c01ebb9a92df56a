"""A chat-completions body as clients write it, and what the engine is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.request import ToolChoice
from handler.body import json_object
from handler.errors import BadRequest
from handler.request import ChatCompletion, read_request, unknown_fields
from tests.handler.scripted import chat

RECORDED = sorted((Path(__file__).parent / "requests").glob("*.json"))
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def refused(body: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_request(body).for_engine(splice=True)
    return caught.value


def contents(*messages: dict[str, Any]) -> list[str]:
    asked = read_request({"messages": list(messages)}).for_engine(splice=True)
    return [message["content"] for message in asked.messages]


ANSWERED = {"role": "tool", "content": "1", "tool_call_id": "c1"}


def called(arguments: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_recorded_client_request_is_valid(path: Path) -> None:
    body = json.loads(path.read_text())
    assert isinstance(read_request(body), ChatCompletion)
    assert unknown_fields(body) == []


def test_there_are_recorded_requests_of_every_client() -> None:
    clients = {path.stem.split("-")[0] for path in RECORDED}
    assert clients == {"ai", "instructor", "langchain", "litellm", "openai", "pydantic", "strands"}


def test_a18_a_nul_in_a_message_is_kept_with_all_that_follows() -> None:
    assert contents({"role": "user", "content": "before\0after"}) == ["before\0after"]


def test_a20_an_unknown_role_is_refused_by_name() -> None:
    for role in ("function", "foo"):
        error = refused({"messages": [{"role": role, "content": "x"}]})
        assert (error.param, repr(role) in str(error)) == ("messages[0].role", True)


def test_a20_developer_messages_reach_the_engine() -> None:
    asked = read_request({"messages": [{"role": "developer", "content": "Be brief."}]}).for_engine(splice=True)
    assert asked.messages == ({"role": "developer", "content": "Be brief."},)


def test_a21_null_and_absent_content_are_empty_and_arguments_are_objects() -> None:
    with_null = called('{"x": 1, "s": "a\\nb"}')
    absent = {name: value for name, value in called("{}").items() if name != "content"}
    asked = read_request({"messages": [with_null, absent, ANSWERED]}).for_engine(splice=True)
    functions = [message["tool_calls"][0]["function"] for message in asked.messages[:2]]
    assert [message["content"] for message in asked.messages[:2]] == ["", ""]
    assert [function["arguments"] for function in functions] == [{"x": 1, "s": "a\nb"}, {}]
    assert asked.messages[0]["tool_calls"][0]["id"] == "c1"


@pytest.mark.parametrize("arguments", ['{"code": """unterminated', "[1]", "7", "null", "NaN", "[" * 5000])
def test_a22_arguments_that_are_no_json_object_are_refused_by_their_place(arguments: str) -> None:
    error = refused({"messages": [{"role": "user", "content": "x"}, called(arguments)]})
    assert error.param == "messages[1].tool_calls[0].function.arguments"


def test_a22_empty_arguments_are_an_empty_object() -> None:
    asked = read_request({"messages": [called(""), ANSWERED]}).for_engine(splice=True)
    assert asked.messages[0]["tool_calls"][0]["function"]["arguments"] == {}


def test_a23_a_tool_keeps_its_key_order_and_loses_what_the_template_does_not_show() -> None:
    parameters = {"type": "object", "properties": {"z": {}, "a": {}}}
    sent = {
        "function": {"parameters": parameters, "strict": True, "name": "f", "description": "> & <"},
        "type": "function",
    }
    asked = read_request(chat(tools=[sent])).for_engine(splice=True)
    kept = {"function": {"parameters": parameters, "name": "f", "description": "> & <"}, "type": "function"}
    assert json.dumps(asked.tools) == json.dumps([kept])


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        ({}, None),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "none"}, True),
        ({"enable_thinking": False}, False),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, False),
        ({"reasoning_effort": "low"}, True),
    ],
)
def test_a24_thinking_is_switched_by_the_template_argument_first(fields: dict[str, Any], thinking: bool | None) -> None:
    assert read_request(chat(**fields)).for_engine(splice=True).thinking is thinking


def test_a25_text_parts_are_joined_with_nothing_between_in_every_role() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    roles = ("system", "user", "assistant", "tool")
    assert contents(*({"role": role, "content": parts} for role in roles)) == ["ab"] * 4
    assert contents({"role": "user", "content": []}, {"role": "user", "content": ""}) == ["", ""]


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "unknown"])
def test_a26_a_part_that_is_not_text_is_refused_by_type_and_place(kind: str) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {}}]
    error = refused({"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": parts}]})
    assert (error.param, error.code) == ("messages[1].content[1]", "unsupported_content_type")
    assert repr(kind) in str(error)


def test_a37_tool_choice_none_keeps_the_tools_and_looks_for_no_call() -> None:
    asked = read_request(chat(tools=[TOOL], tool_choice="none")).for_engine(splice=True)
    assert (asked.tool_choice, len(asked.tools)) == (ToolChoice("none"), 1)


@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("named", "f")),
    ],
)
def test_a37_a_forced_call_is_asked_of_the_engine(choice: Any, asked: ToolChoice) -> None:
    assert read_request(chat(tools=[TOOL], tool_choice=choice)).for_engine(splice=True).tool_choice == asked


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "b"}}},
        {"tools": [TOOL], "tool_choice": "sometimes"},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    ],
)
def test_a37_a_choice_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    error = refused(chat(**fields))
    assert (error.param, error.code) == ("tool_choice", None)


@pytest.mark.parametrize(
    ("wanted", "param"), [("json_schema", "response_format.json_schema"), ("xml", "response_format")]
)
def test_a40_structure_that_cannot_be_kept_is_refused(wanted: str, param: str) -> None:
    assert refused(chat(response_format={"type": wanted})).param == param


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [-1, 2.1, "hot", True, []]),
        ("top_p", [-0.1, 1.1, "1"]),
        ("min_p", [1.5, -1]),
        ("top_k", [-2, 1.5, "20"]),
        ("presence_penalty", [2.5, "a"]),
        ("frequency_penalty", [-2.5]),
        ("repetition_penalty", [0]),
        ("seed", ["7", 1.5, 2**63]),
        ("top_logprobs", [21, -1, 5]),
        ("stop", [7, [""], [1], ["a"] * 17]),
        ("stream", ["yes", 1]),
        ("n", [0, 2, "1"]),
        ("max_tokens", [0, -1, 1.5, "5"]),
        ("max_completion_tokens", [0, -1]),
        ("modalities", [["text", "audio"]]),
        ("functions", [[{"name": "f"}]]),
        ("reasoning_effort", ["enormous"]),
        ("messages", [None, [], {}, "Hi", [7]]),
        (
            "tools",
            [
                {},
                [{}],
                [{"type": "function"}],
                [{"type": "function", "function": {"name": "a b"}}],
                [TOOL] * 129,
            ],
        ),
        ("chat_template_kwargs", [7, {"messages": []}, {"enable_thinking": "no"}]),
        ("continue_final_message", [True]),
    ],
)
def test_a43_a52_a57_a_value_out_of_range_or_of_the_wrong_type_is_refused_naming_the_field(
    field: str, values: list[Any]
) -> None:
    for value in values:
        error = refused({**chat(), field: value})
        assert str(error.param).startswith(field), value
        assert str(error).count("\n") == 0 and f"'{error.param}'" in str(error), value


def test_a43_values_in_range_reach_the_sampler_as_they_are() -> None:
    sampling = (
        read_request(chat(temperature=0, top_p=1e-9, min_p=1, top_k=10**9, seed=7)).for_engine(splice=True).sampling
    )
    assert (sampling.temperature, sampling.top_p, sampling.min_p, sampling.top_k, sampling.seed) == (
        0,
        1e-9,
        1,
        10**9,
        7,
    )


@pytest.mark.parametrize("bias", [{"-1": 5}, {"abc": 1}, {"42": "x"}, {"42": 101}, {"": 1}, {"١": 1}])
def test_a44_a_bad_logit_bias_is_refused(bias: dict[str, Any]) -> None:
    assert refused(chat(logit_bias=bias)).param == "logit_bias"


def test_a44_a_logit_bias_has_token_ids_for_the_engine() -> None:
    assert read_request(chat(logit_bias={"42": -100})).for_engine(splice=True).sampling.logit_bias == {42: -100}


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 100_000_000}, 100_000_000),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 9}, 5),
    ],
)
def test_a52_the_smaller_token_limit_counts(fields: dict[str, Any], limit: int | None) -> None:
    assert read_request(chat(**fields)).for_engine(splice=True).max_tokens == limit


@pytest.mark.parametrize("half", ["x\\ud83d", "\\udc00", "\\udc00\\ud83d"])
def test_a55_half_a_surrogate_pair_becomes_a_replacement_character(half: str) -> None:
    body = json_object(f'{{"messages":[{{"role":"user","content":"{half}"}}]}}'.encode())
    text = read_request(body).for_engine(splice=True).messages[0]["content"]
    assert text == json.loads(f'"{half}"').translate(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))


def test_a55_a_whole_surrogate_pair_is_the_character_it_spells() -> None:
    assert json_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"[]",
        b'"x"',
        b"{",
        b'{"a": "\xff\xfe"}',
        b'{"a": NaN}',
        b"[" * 9000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_json_object_is_refused_in_one_sentence(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^[^\n]{10,120}\.$"):
        json_object(body)


def test_a_body_nested_deeper_than_any_schema_is_refused() -> None:
    with pytest.raises(BadRequest, match="nested more than 100 deep"):
        json_object(b'{"a":' * 102 + b"1" + b"}" * 102)


def test_reasoning_comes_back_under_either_name() -> None:
    for name in ("reasoning_content", "reasoning"):
        body = chat()
        body["messages"].insert(0, {"role": "assistant", "content": "a", name: "hm"})
        assert read_request(body).for_engine(splice=True).messages[0]["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    ("choice", "given", "several"),
    [
        ("auto", None, True),
        ("auto", False, False),
        ("required", None, True),
        ("named", None, False),
        ("named", True, True),
    ],
)
def test_a_named_tool_is_called_once_unless_several_calls_are_asked_for(
    choice: str, given: bool | None, several: bool
) -> None:
    named = {"type": "function", "function": {"name": "f"}} if choice == "named" else choice
    body = chat(tools=[TOOL], tool_choice=named, parallel_tool_calls=given)
    assert read_request(body).for_engine(splice=True).parallel_tool_calls is several


PREFILL = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Sure, "}]


def test_an_assistant_message_at_the_end_is_refused_unless_it_is_to_be_continued() -> None:
    error = refused({"messages": PREFILL})
    assert error.param == "messages[1].role" and "'continue_final_message' to true" in str(error)
    for more in ({}, {"add_generation_prompt": False}):
        body = {"messages": PREFILL, "continue_final_message": True, **more}
        assert read_request(body).for_engine(splice=True).continue_final
    assert not read_request(chat(add_generation_prompt=True)).for_engine(splice=True).continue_final


@pytest.mark.parametrize(
    ("messages", "fields", "param"),
    [
        (PREFILL, {"continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
        (PREFILL[:1], {"add_generation_prompt": False}, "add_generation_prompt"),
        (PREFILL[:1], {"continue_final_message": True}, "continue_final_message"),
        ([*PREFILL[:1], called("{}")], {"continue_final_message": True}, "continue_final_message"),
    ],
)
def test_a_continuation_that_makes_no_sense_is_refused(messages: Any, fields: dict[str, Any], param: str) -> None:
    assert refused({"messages": messages, **fields}).param == param


def test_unknown_fields_are_named_only_if_they_look_like_names() -> None:
    body = chat(guided_regex="x", user="u", **{"my secret text": 1, "x" * 41: 1})
    assert unknown_fields(body) == ["guided_regex"]


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(ChatCompletion.model_fields)),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=8,
        ),
    )
)
def test_any_json_is_either_understood_or_refused(body: dict[str, Any]) -> None:
    refusal = refusal_of(body)
    assert refusal is None or (refusal.param and str(refusal).endswith("."))


def refusal_of(body: dict[str, Any]) -> BadRequest | None:
    try:
        read_request(body).for_engine(splice=True)
    except BadRequest as error:
        return error
    return None
