"""Four times the text takes about four times as long to read and to make into tokens, whatever it consists of."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Callable

import pytest

from engine.chat_template import ChatTemplate
from engine.tokenizer import Tokenizer
from handler.body import json_object

N_BYTES = 125_000
MOST_RATIO = 9.0  # for four times the size; quadratic time would be 16, caches that overflow make it about 6
TRIES = 5
PIECES = {
    "letters": "a",
    "underscores": "_",
    "ideographs": "界",
    "spaces": " ",
    "line breaks": "\r\n",
    "spaces and line breaks": " \n\t",
    "digits": "1",
    "quotes": "'s",
    "markers": "<|im_start|",
    "whole markers": "<|im_start|>",
    "tags": "<tool_call>",
    "beginnings of markers": "<",
    "combining marks": "\u0301",
    "marks out of order": "\u0301\u0316\u0327",
    "letters to compose": "e\u0301",
    "jamo to compose": "\u1100\u1161\u11a8",
    "joiners": "\u200d",
    "emoji": "\U0001f600",
    "lone surrogates": "\ud800",
    "NUL": "\0",
}


def is_linear(run: Callable[[int], object], size: int) -> bool:
    """Whether four times the size takes less than MOST_RATIO times as long.

    Other programs can only add to a time, so the least of several counts, and no more are taken than it needs.
    """
    small = large = float("inf")
    for _ in range(TRIES):
        small, large = min(small, seconds(run, size)), min(large, seconds(run, 4 * size))
        if large < MOST_RATIO * small:
            return True
    return False


def seconds(run: Callable[[int], object], size: int) -> float:
    gc.collect()
    gc.freeze()  # or a collection meanwhile would go through what all other tests hold
    try:
        started = time.process_time()
        run(size)
        return time.process_time() - started
    finally:
        gc.unfreeze()


def repeated(piece: str, n_bytes: int) -> str:
    return piece * (n_bytes // len(piece.encode(errors="replace")))


def test_quadratic_time_is_told_from_linear() -> None:
    def quadratic(n: int) -> None:
        for _ in range(n):
            sum(range(n))

    assert not is_linear(quadratic, 500)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_a14_a_text_without_any_place_to_cut_becomes_tokens_in_linear_time(real: Tokenizer, piece: str) -> None:
    def encode(n_bytes: int) -> None:
        real.encode(repeated(piece, n_bytes))

    assert is_linear(encode, N_BYTES)


@pytest.mark.parametrize("piece", ["a", "<", "<|im_start|>", "e\u0301", "<think>"])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a14_a_long_message_becomes_a_prompt_in_linear_time(
    released_template: str, real: Tokenizer, piece: str, role: str
) -> None:
    template = ChatTemplate(released_template, real)
    question = {"role": "user", "content": "x"}

    def encode(n_bytes: int) -> None:
        template.encode_chat([question, {"role": role, "content": repeated(piece, n_bytes)}, question])

    assert is_linear(encode, N_BYTES)


@pytest.mark.parametrize("part", ["0", "[]", "{}", '"a"', '{"role":"user","content":"x"}', '"\\ud800"', "1e1", '"\\n"'])
def test_a_body_of_many_small_parts_is_read_in_linear_time(part: str) -> None:
    def read(n_parts: int) -> None:
        json_object(b'{"a":[' + b",".join([part.encode()] * n_parts) + b"]}")

    assert is_linear(read, 40_000)


def test_a_body_of_many_small_messages_becomes_a_prompt_in_linear_time(tiny: Tokenizer) -> None:
    source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}"
    template = ChatTemplate(source, tiny)

    def encode(n_messages: int) -> None:
        template.encode_chat(json.loads(json.dumps([{"role": "user", "content": "x <b>"}] * n_messages)))

    assert is_linear(encode, 500)


@pytest.mark.parametrize("char", ["A", "界", " ", "\u0301", "<"])
def test_a13_a_long_run_needs_no_deep_stack(real: Tokenizer, char: str) -> None:
    text = char * 50_000
    expected = real.encode(text)
    found: list[list[int]] = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(real.encode(text)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert found == [expected]
