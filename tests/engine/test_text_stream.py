"""Bytes to text: characters and stop strings across the borders of tokens."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text_stream import HeldEnd, StopStrings, Utf8Stream


def decode(pieces: list[bytes]) -> list[str]:
    stream = Utf8Stream()
    return [*map(stream.feed, pieces), stream.finish()]


def stop_at(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    stream = StopStrings(stops)
    return "".join([*map(stream.feed, pieces), stream.flush()]), stream.stopped


def test_a46_a_character_leaves_with_the_byte_that_completes_it() -> None:
    man, joiner, woman = "👨".encode(), "\u200d".encode(), "👩".encode()
    pieces = [man[:2], man[2:3], man[3:], joiner[:1], joiner[1:], woman[:3], woman[3:]]
    assert decode(pieces) == ["", "", "👨", "", "\u200d", "", "👩", ""]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xe2\x28\xa1 good", "\ufffd(\ufffd good"),
        (b"\xf0\x9f\x91 good", "\ufffd good"),  # three bytes of four: one ill-formed run
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),  # a surrogate: no byte begins a character
        (b"\xc0\xaf", "\ufffd\ufffd"),
        (b"cut \xf0\x9f", "cut \ufffd"),
    ],
)
def test_a56_each_ill_formed_run_is_replaced_once(data: bytes, text: str) -> None:
    assert "".join(decode([data])) == text
    assert "".join(decode([data[i : i + 1] for i in range(len(data))])) == text


@given(st.lists(st.binary(max_size=6)))
def test_a56_decoding_does_not_depend_on_the_cuts(pieces: list[bytes]) -> None:
    assert "".join(decode(pieces)) == b"".join(pieces).decode("utf-8", "replace")


def test_a47_nothing_of_a_stop_string_is_sent() -> None:
    stream = StopStrings(["\nUser:"])
    assert [stream.feed(piece) for piece in ["the end", "\nUser", ":", " hi"]] == ["the end", "", "", ""]
    assert stream.stopped == "\nUser:"
    assert stream.flush() == ""


def test_a47_of_two_stops_the_one_complete_first_wins() -> None:
    assert stop_at(["END", "ENDING"], ["the ENDING"]) == ("the ", "END")
    assert stop_at(["abcd", "bc"], ["xabcd"]) == ("xa", "bc")


def test_a47_of_two_stops_that_end_together_the_longer_wins() -> None:
    assert stop_at(["b\n", "ab\n"], ["xab\n"]) == ("x", "ab\n")


def test_a47_a_long_stop_string_is_found_across_many_pieces() -> None:
    stop = "-".join(map(str, range(60)))
    assert stop_at([stop], list("so " + stop + "!")) == ("so ", stop)


def test_a48_text_held_back_is_sent_when_it_cannot_be_a_stop() -> None:
    stream = StopStrings(["<END>"])
    assert [stream.feed(piece) for piece in ["a <E", "N", "T>"]] == ["a ", "", "<ENT>"]


def test_a48_text_held_back_is_sent_at_the_end() -> None:
    assert stop_at(["<END>"], ["a <E"]) == ("a <E", None)


def test_only_what_may_grow_into_a_stop_is_held() -> None:
    stream = StopStrings(["aab"])
    assert stream.feed("aaa") == "a"  # "aa" may


@given(
    st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=12),
)
def test_stops_are_found_where_a_search_of_the_whole_text_finds_them(stops: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if ends:
        end, _, stop = min(ends)
        assert stop_at(stops, pieces) == (text[: end - len(stop)], stop)
    else:
        assert stop_at(stops, pieces) == (text, None)


def test_after_a_flush_a_stop_begins_anew() -> None:
    stream = StopStrings(["ab"])
    assert [stream.feed("a"), stream.flush(), stream.feed("b")] == ["", "a", "b"]


def test_stop_strings_take_linear_time() -> None:
    stream = StopStrings(["a" * 20_000 + "b"])
    begin_s = time.process_time()
    for _ in range(200_000):
        stream.feed("a")
    assert time.process_time() - begin_s < 5  # comparing the whole stop each time would take minutes
    assert len(stream.flush()) == 20_000


def test_space_at_the_end_waits_for_what_follows() -> None:
    end = HeldEnd(" \n")
    assert [end.feed(piece) for piece in [" a \n", "\n", "b", " "]] == [" a", "", " \n\nb", ""]
    assert (end.flush(), end.flush()) == (" ", "")
