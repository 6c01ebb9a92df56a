"""Answers whose tool call ids come back are put into the prompt as they were generated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.chat_template import ChatTemplate
from engine.splice import Answer, Splicer
from make_synth import TEMPLATE

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"on": {"type": "boolean"}}}}}]
GENERATED = (
    "I should call it.\n</think>\n\n"
    "<tool_call>\n<function=f>\n<parameter=on>\ntrue\n</parameter>\n</function>\n</tool_call>"
)
ANSWER = Answer(tokens=(), content="", calls=(("call_1", "f", {"on": True}),))


@pytest.fixture(scope="module")
def chat(real):
    return ChatTemplate(TEMPLATE.read_text(), real)


class Conversation:
    """One tool step: the prompt, the answer generated, and the prompt that brings its result."""

    def __init__(self, tokenizer, chat):
        self.tokenizer, self.chat = tokenizer, chat
        self.splicer = Splicer(tokenizer)
        self.user = {"role": "user", "content": "Switch it on."}
        first = chat.encode_chat([self.user], TOOLS, True)
        self.live = [*first.ids, *tokenizer.encode_with_specials(GENERATED)]
        self.answer = tuple(self.live[first.anchor :])
        self.splicer.remember(replace(ANSWER, tokens=self.answer))

    def step(self, *later, **changes):
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"on": True}}}
        assistant = {"role": "assistant", "content": None, "tool_calls": [call], **changes}
        result = {"role": "tool", "tool_call_id": "call_1", "content": "done"}
        messages = [self.user, assistant, result, *later]
        rendered = self.chat.encode_chat(messages, TOOLS, True)
        return rendered.ids, *self.splicer.splice(rendered.ids, messages)


@pytest.fixture
def conversation(real, chat):
    return Conversation(real, chat)


def test_a_tool_step_of_a_client_that_drops_reasoning_extends_the_live_state(conversation):
    rendered, ids, count = conversation.step()
    assert rendered[: len(conversation.live)] != conversation.live
    assert ids[: len(conversation.live)] == conversation.live
    assert count == len(conversation.answer)


def test_what_follows_the_answer_is_as_rendered(conversation):
    rendered, ids, _ = conversation.step()
    after = ids[len(conversation.live) :]
    assert after == rendered[-len(after) :]


def test_an_answer_before_the_last_user_message_stays_as_rendered(conversation):
    rendered, ids, count = conversation.step({"role": "user", "content": "And now?"})
    assert (ids, count) == (rendered, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"content": "I changed this."},
        {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"on": False}}}]},
        {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "g", "arguments": {"on": True}}}]},
        {"tool_calls": [{"id": "call_2", "type": "function", "function": {"name": "f", "arguments": {"on": True}}}]},
    ],
)
def test_an_answer_that_the_client_changed_stays_as_rendered(conversation, changed):
    rendered, ids, count = conversation.step(**changed)
    assert (ids, count) == (rendered, 0)


def test_only_the_latest_answers_are_remembered(real):
    splicer = Splicer(real)
    for number in range(300):
        splicer.remember(Answer((number,), "", ((f"call_{number}", "f", {}),)))
    assert len(splicer._answers) == 256
    assert "call_299" in splicer._answers
