"""/tokenize and /apply-template: what a prompt consists of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.handler.scripted import ScriptedEngine, app_with, chat, post


def ask(path: str, body: Any) -> tuple[int, Any]:
    return post(app_with(ScriptedEngine()), body, path=path)


def test_a_text_is_told_as_tokens() -> None:
    assert ask("/tokenize", {"content": "Hi", "add_special": True}) == (200, {"tokens": [72, 105]})
    assert ask("/tokenize", {"content": ""}) == (200, {"tokens": []})


def test_special_tokens_are_matched_unless_that_is_declined() -> None:
    assert ask("/tokenize", {"content": "a<|im_end|>"})[1]["tokens"] == [97, 256]
    assert len(ask("/tokenize", {"content": "a<|im_end|>", "parse_special": False})[1]["tokens"]) == 11


def test_pieces_are_text_or_the_bytes_of_part_of_a_character() -> None:
    tokens = ask("/tokenize", {"content": "aé", "with_pieces": True})[1]["tokens"]
    assert tokens == [{"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]


@pytest.mark.parametrize("body", [{}, {"content": None}, {"content": ["a"]}, {"content": "a", "with_pieces": "yes"}])
def test_a_text_to_tokenize_is_checked(body: Any) -> None:
    assert ask("/tokenize", body)[0] == 400


def test_a_conversation_is_told_as_its_prompt() -> None:
    assert ask("/apply-template", chat("Hi")) == (200, {"prompt": "<user>Hi", "tokens": 8})
    assert ask("/apply-template", {"messages": []})[0] == 400
