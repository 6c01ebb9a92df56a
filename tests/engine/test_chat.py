"""The terminal chat, with lines from a script."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from dataclasses import replace

import pytest

import make_synth
from engine.__main__ import main
from engine.chat import Conversation
from engine.errors import ContextFull, OutOfTime
from engine.events import Finished, Reasoning, Text, ToolArguments, ToolCall
from engine.request import ChatRequest
from make_synth import SHAPES
from tests.handler.scripted import ScriptedEngine, finished, prefilled, said


@pytest.fixture
def type_in(monkeypatch):
    return lambda *lines: monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))


def talk(engine, *, color=False, **asked):
    Conversation(engine, ChatRequest(**{"messages": (), **asked}), color=color).talk()


def roles(request):
    return [message["role"] for message in request.messages]


def test_an_answer_is_followed_by_its_path_counts_and_speeds(type_in, capsys):
    type_in("Hi")
    talk(ScriptedEngine([prefilled(1046, 1000), Text("Hello"), finished(2)]))
    assert capsys.readouterr().out == (
        "Hello\n[base: 1,000 tokens reused, 46 computed, 2,300 tok/s; answer: 2 tokens, 200.0 tok/s]\n"
    )


def test_each_turn_repeats_the_ones_before_and_new_forgets_them_but_not_the_system_text(type_in):
    type_in("Hi", "", "More", "/new", "Again")
    engine = ScriptedEngine()
    talk(engine, messages=({"role": "system", "content": "Be brief."},))
    assert [roles(request) for request in engine.requests] == [
        ["system", "user"],
        ["system", "user", "assistant", "user"],
        ["system", "user"],
    ]
    assert engine.requests[1].messages[2]["content"] == "Hello world"


def test_quit_leaves_and_another_command_explains_the_commands(type_in, capsys):
    type_in("/help", "/quit", "Hi")
    engine = ScriptedEngine()
    talk(engine)
    assert engine.requests == []
    assert "/quit" in capsys.readouterr().out


def test_reasoning_is_dim_and_goes_back_with_the_history(type_in, capsys):
    type_in("Hi", "More")
    engine = ScriptedEngine([prefilled(), Reasoning("Let "), Reasoning("me"), Text("Yes"), finished(3, 2)])
    talk(engine, color=True)
    assert "\x1b[2mLet me\x1b[0m\n\nYes\n" in capsys.readouterr().out
    assert engine.requests[1].messages[1]["reasoning_content"] == "Let me"


def test_tool_calls_are_shown_and_the_next_lines_are_their_results(type_in, capsys):
    calls = [ToolCall(0, "call_0", "level"), ToolArguments(0, '{"river": '), ToolArguments(0, '"Rhine"}')]
    calls += [ToolCall(1, "call_1", "level"), ToolArguments(1, "{}")]
    type_in("How high?", "2 m", "3 m")
    engine = ScriptedEngine([prefilled(), *calls, finished(9, reason="tool_calls")], said("High."))
    talk(engine)
    assert 'level {"river": "Rhine"}\nlevel {}\n' in capsys.readouterr().out
    answer, *results = engine.requests[1].messages[1:]
    assert answer["tool_calls"][0]["function"]["arguments"] == {"river": "Rhine"}
    assert [(result["tool_call_id"], result["content"]) for result in results] == [("call_0", "2 m"), ("call_1", "3 m")]


def test_a_call_that_was_cut_off_is_not_repeated(type_in):
    type_in("How high?", "And now?")
    cut = [
        prefilled(),
        Text("So"),
        ToolCall(0, "call_0", "level"),
        ToolArguments(0, '{"riv'),
        finished(9, reason="length"),
    ]
    engine = ScriptedEngine(cut, said("High."))
    talk(engine)
    assert engine.requests[1].messages[1:] == (
        {"role": "assistant", "content": "So"},
        {"role": "user", "content": "And now?"},
    )


def test_a_refused_turn_is_one_line_and_did_not_happen(type_in, capsys):
    type_in("Too long", "Hi")
    engine = ScriptedEngine([ContextFull(5000, 4096)], said("Hello"))
    talk(engine)
    assert capsys.readouterr().out.startswith("error: 5000 tokens needed, the context holds 4096\nHello\n")
    assert roles(engine.requests[1]) == ["user"]


class EndlessEngine(ScriptedEngine):
    """Says words until no time is left, as the engine does; then, once, answers in full."""

    def chat(self, request, remaining_ms):
        self.requests.append(request)
        if len(self.requests) > 1:
            yield from said("Done")
            return
        yield prefilled()
        for n in range(10_000):
            if remaining_ms() <= 0:
                yield Finished("length", "deadline", n, 0, 1.0)
                return
            yield Text("word ")
            if n == 2:
                os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(type_in, capsys):
    type_in("Go on", "And?")
    engine = EndlessEngine()
    before = signal.getsignal(signal.SIGINT)
    talk(engine)
    assert "word word word \n[full" in capsys.readouterr().out
    assert roles(engine.requests[1]) == ["user", "assistant", "user"]
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_the_prompt_is_read_takes_the_turn_back(type_in, capsys):
    type_in("Long", "Hi")
    engine = ScriptedEngine([OutOfTime("no time")], said("Hello"))
    talk(engine)
    assert capsys.readouterr().out.startswith("stopped\nHello\n")
    assert roles(engine.requests[1]) == ["user"]


def test_control_characters_of_the_model_do_not_reach_the_terminal(type_in, capsys):
    type_in("Hi")
    talk(ScriptedEngine(said("a\x1b[2J\x9bb\n\tc")))
    assert capsys.readouterr().out.startswith("a[2Jb\n\tc\n")


def test_the_command_answers_with_a_model_file(tmp_path, type_in, capsys):
    model = tmp_path / "tiny.gguf"
    make_synth.write_model(model, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    (tmp_path / "system.txt").write_text("Be brief.\n")
    (tmp_path / "tools.json").write_text(json.dumps([{"type": "function", "function": {"name": "level"}}]))
    options = ["--context", "512", "--threads", "1", "--max-tokens", "3", "--temperature", "0", "--thinking", "off"]
    type_in("Hi", "More")
    files = ["--system", str(tmp_path / "system.txt"), "--tools", str(tmp_path / "tools.json")]
    assert main(["chat", str(model), *files, *options]) == 0
    out = capsys.readouterr().out
    assert "[full: 0 tokens reused" in out
    assert "[anchor: " in out
    assert out.count("answer: 3 tokens") == 2
    (tmp_path / "tools.json").write_text("{")
    assert main(["chat", str(model), *files]) == 1
    assert "is not a JSON list of tools" in capsys.readouterr().err
