"""Tool calls in the model's text, whole and in pieces."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.events import Text, ToolArguments, ToolCall
from engine.tool_calls import ToolCallParser, new_call_id

A27 = (
    "<tool_call>\n<function=write_file>\n<parameter=path>\n/a.md\n</parameter>\n<parameter=content>\n"
    "ends with </tool_call> and </parameter> here.\n</parameter>\n</function>\n</tool_call>"
)
A27_ARGUMENTS = {"path": "/a.md", "content": "ends with </tool_call> and </parameter> here."}


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": value} for key, value in parameters.items()}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = (
    tool("write_file", path="string", content="string"),
    tool("f", s="string", i="integer", n="number", b="boolean", o="object", a="array"),
    {"type": "function", "function": {"name": "now"}},
)


def call(name: str, *parameters: tuple[str, str]) -> str:
    """A call as the chat template renders it."""
    values = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


@dataclass
class Output:
    """What a client puts together from the events."""

    text: str = ""
    calls: list[list[str]] = field(default_factory=list)  # name, arguments
    ids: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> list[Any]:
        return [json.loads(arguments) for _, arguments in self.calls]


def parse(*pieces: str) -> Output:
    parser = ToolCallParser(TOOLS)
    output = Output()
    for event in [*(event for piece in pieces for event in parser.feed(piece)), *parser.finish()]:
        match event:
            case Text(text=text):
                assert text
                output.text += text
            case ToolCall(index=index, id=call_id, name=name):
                assert index == len(output.calls)
                output.calls.append([name, ""])
                output.ids.append(call_id)
            case ToolArguments(index=index, json=piece):
                assert piece
                assert index == len(output.calls) - 1
                output.calls[index][1] += piece
    return output


def same_in_pieces(text: str) -> Output:
    whole, in_chars = parse(text), parse(*text)
    assert (whole.text, whole.calls) == (in_chars.text, in_chars.calls)
    return whole


def test_a27_closing_markers_inside_a_value_are_part_of_it() -> None:
    output = same_in_pieces(A27)
    assert [name for name, _ in output.calls] == ["write_file"]
    assert output.arguments == [A27_ARGUMENTS]
    assert output.text == ""


@pytest.mark.parametrize(
    "value",
    [
        "</parameter>",
        "\n</parameter>\nmore",
        "a\n</parameter>\n</tool_call>\nb",
        "a\n</parameter>\n\n</parameter>\nb",
        "a\n</parameter></function>\nb",
        "a\n  </parameter>\n</function>\n</tool_call>",
        "a </parameter>\n</function>\nb",
        "<parameter=x>\n1\n</parameter >\n<parameter=y>",
        "<tool_call>\n<function=f>\nb",
        "a\n</parameter>\n</func",
        "a\n</parameter>\n<parameter=\nx>",
    ],
)
def test_a27_a_value_ends_only_at_its_own_line_before_a_parameter_or_the_end(value: str) -> None:
    output = same_in_pieces(call("write_file", ("content", value), ("path", "/p")) + " after")
    assert output.arguments == [{"content": value, "path": "/p"}]
    assert output.text == " after"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("\n\n  indented\n\n", "\n  indented\n"),
        ("\n\tx\r\ny\r\n\n", "\tx\r\ny\r\n"),
        ("\n\n", ""),
        ("\n", ""),
        ("\n\n\n", "\n"),
        ("\n \n", " "),
    ],
)
def test_a28_exactly_one_newline_is_removed_at_each_end(written: str, value: str) -> None:
    text = f"<tool_call>\n<function=f>\n<parameter=s>{written}</parameter>\n</function>\n</tool_call>"
    assert same_in_pieces(text).arguments == [{"s": value}]


@pytest.mark.parametrize("value", ["x", "", "a </parameter> b", "a\nb"])
def test_a_value_that_begins_on_the_markers_line_may_end_on_a_line(value: str) -> None:
    text = f"<tool_call><function=f><parameter=s>{value}</parameter><parameter=i>5</parameter>\n</function></tool_call>"
    assert same_in_pieces(text).arguments == [{"s": value, "i": 5}]


def test_a29_values_are_typed_by_the_schema() -> None:
    values = (("s", "123"), ("i", "5"), ("n", "1.5"), ("b", "true"), ("o", '{"a":[1]}'), ("a", "[1,2]"))
    output = same_in_pieces(call("f", *values, ("other", "5")))
    expected = '{"s": "123", "i": 5, "n": 1.5, "b": true, "o": {"a":[1]}, "a": [1,2], "other": "5"}'
    assert output.calls == [["f", expected]]


@pytest.mark.parametrize(("key", "value"), [("i", "-"), ("i", ""), ("i", "-\n"), ("b", "maybe"), ("o", "{broken")])
def test_a31_a_value_that_does_not_fit_is_kept_as_a_string(key: str, value: str) -> None:
    assert same_in_pieces(call("f", (key, value))).arguments == [{key: value}]


@pytest.mark.parametrize(
    "tail",
    [
        "<tool_call>",
        "<tool_call>\n",
        "<tool_call>\n<function=now",
        "<tool_call>\n<function=now>\n<parameter=x",
        "<tool_call>\n{}\n</tool_call>",
        "<tool_call>\n<function=now>\nand so on",
        "<tool_call>\n<function=a\nb>\n</function>",
        "<tool",
        "</tool_call>",
        "<function=now>\n</function>",
        "<<tool_call><<tool_call",
    ],
)
def test_a33_what_does_not_begin_like_a_call_is_text(tail: str) -> None:
    output = same_in_pieces("A long answer. " + tail)
    assert output.text == "A long answer. " + tail
    assert output.calls == []


def test_a33_a_false_start_does_not_hide_the_call_after_it() -> None:
    output = same_in_pieces("<tool_call>\n" + call("now"))
    assert (output.text, output.calls) == ("<tool_call>\n", [["now", "{}"]])


@pytest.mark.parametrize("text", [A27, call("f", ("o", '{"a": 1}'), ("i", "5"))])
def test_a33_the_arguments_are_json_wherever_the_output_ends(text: str) -> None:
    for end in range(len(text)):
        output = same_in_pieces(text[:end])
        assert len(output.arguments) == len(output.calls)
        assert output.calls or output.text == text[:end]


@pytest.mark.parametrize("tail", ["\n</parameter>", "\n</parameter>\n", "\n</parameter>\n</function"])
def test_a_closed_value_at_the_end_of_the_output_is_whole(tail: str) -> None:
    assert same_in_pieces("<tool_call>\n<function=f>\n<parameter=s>\nx" + tail).arguments == [{"s": "x"}]


def test_a34_a_call_without_parameters_has_empty_arguments() -> None:
    assert same_in_pieces("<tool_call>\n<function=now>\n</function>\n</tool_call>").calls == [["now", "{}"]]


def test_a35_two_calls_are_two_entries_with_ids_of_their_own() -> None:
    output = same_in_pieces(call("f", ("i", "1")) + "\nand\n" + call("f", ("i", "2")) + call("now"))
    assert output.calls == [["f", '{"i": 1}'], ["f", '{"i": 2}'], ["now", "{}"]]
    assert output.text == "\nand\n"
    assert len(set(output.ids)) == 3


def test_a36_a_call_begins_before_its_arguments_and_a_string_arrives_in_pieces() -> None:
    parser = ToolCallParser(TOOLS)
    first = parser.feed("<tool_call>\n<function=write_file>\n<parameter=content>\nOnce")
    assert isinstance(first[0], ToolCall)
    assert first[1:] == [ToolArguments(0, '{"content": "Once')]
    assert parser.feed(' "upon"\n') == [ToolArguments(0, ' \\"upon\\"')]
    assert parser.feed("</parameter>\n</function>") == [ToolArguments(0, '"}')]
    assert parser.feed("\n</tool_call>") == []


def test_a36_a_value_of_another_type_arrives_whole() -> None:
    parser = ToolCallParser(TOOLS)
    parser.feed("<tool_call>\n<function=f>\n<parameter=i>\n")
    assert parser.feed("1") == []
    assert parser.feed("2\n</parameter>\n</function>") == [ToolArguments(0, "12}")]


def test_a41_an_undeclared_function_is_a_call_with_that_name() -> None:
    output = same_in_pieces(call("toolbox.web.answer", ("q", "5")))
    assert output.calls == [["toolbox.web.answer", '{"q": "5"}']]


def test_calls_are_counted_when_complete() -> None:
    parser = ToolCallParser(TOOLS)
    counts = []
    for piece in [
        "<tool_call>\n<function=f>\n<parameter=i>\n5\n</parameter>\n",
        "</function>",
        "\n",
        call("now"),
    ]:
        parser.feed(piece)
        counts.append(parser.completed_calls)
    assert counts == [0, 1, 1, 2]


def test_an_unfinished_end_marker_is_not_text() -> None:
    assert same_in_pieces(call("now").removesuffix("call>")).text == ""
    assert same_in_pieces(call("now").removesuffix("</tool_call>") + "so").text == "\nso"


def test_call_ids_are_24_base62_characters() -> None:
    ids = {new_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(i) == 29 and i.startswith("call_") and i[5:].isalnum() and i.isascii() for i in ids)


MARKS = [
    "<tool_call>",
    "<function=f>",
    "<parameter=s>",
    "<parameter=i>",
    "</parameter>",
    "</function>",
    "</tool_call>",
]
FRAGMENTS = st.sampled_from(
    [*MARKS, "\n</parameter>\n", "<function=", "</", "<", "\n", "\r", " ", "5", "x", "é", '"', "\\"]
)


@given(st.lists(FRAGMENTS, max_size=25).map("".join), st.data())
def test_events_do_not_depend_on_the_cuts_and_no_output_raises(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, cut = (
        same_in_pieces("<tool_call>\n<function=f>\n" + text),
        parse("<tool_call>\n<function=f>\n", *pieces),
    )
    assert (whole.text, whole.calls) == (cut.text, cut.calls)
    assert len(whole.arguments) == len(whole.calls)


@given(st.lists(FRAGMENTS, max_size=12).map("".join), st.lists(FRAGMENTS, max_size=12).map("".join))
def test_rendered_arguments_are_parsed_back(first: str, second: str) -> None:
    end_of_a_value = r"\n</parameter>[\r ]*\n\s*<(parameter=.|/function>)"
    assume(not any(re.search(end_of_a_value, f"\n{value}\n") for value in (first, second)))
    output = parse(call("write_file", ("path", first), ("content", second)))
    assert output.arguments == [{"path": first, "content": second}]


@pytest.mark.parametrize("unit", ["<", "\n</parameter>\n", "\n</parameter>" + " " * 40])
def test_parsing_takes_linear_time(unit: str) -> None:
    def seconds(n_chars: int) -> float:
        text = "<tool_call>\n<function=f>\n<parameter=s>\n" + unit * (n_chars // len(unit))
        begin_s = time.process_time()
        parse(text)
        parse(*text)
        return time.process_time() - begin_s

    rounds = [(seconds(20_000), seconds(80_000)) for _ in range(4)]  # the least of several: the machine has other work
    assert min(long for _, long in rounds) < 10 * min(short for short, _ in rounds)  # 4 if linear, 16 if quadratic
