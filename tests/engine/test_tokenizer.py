"""Text to tokens and back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_builder import Gguf, byte_characters, small_model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelFileError
from engine.model_file import ModelFile
from engine.tokenizer import Tokenizer


def tokenizer_of(gguf: Gguf, folder: Path) -> Tokenizer:
    with ModelFile(gguf.write(folder)) as file:
        return Tokenizer(file)


def printed(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    return b"".join(tokenizer.decode_bytes(id_) for id_ in ids)


def without_nfc(fixture: dict[str, Any]) -> set[str]:
    return {fixture["strings"][int(index)]["text"] for index in fixture["ids_no_nfc"]}


@pytest.mark.parametrize("vocabulary", ["tiny", "real"])
def test_every_string_of_the_oracle_has_its_ids(oracle: Path, vocabulary: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(vocabulary)
    name = {"tiny": "tok_tiny.json", "real": "tok_qwen35.json"}[vocabulary]
    fixture = json.loads((oracle / name).read_text(encoding="utf-8"))
    wrong = [case["text"] for case in fixture["strings"] if tokenizer.encode_with_specials(case["text"]) != case["ids"]]
    assert len(fixture["strings"]) == 233
    assert wrong == []


def test_bytes_that_are_not_utf8_have_the_ids_of_the_replacement(oracle: Path, real: Tokenizer) -> None:
    for case in json.loads((oracle / "tok_qwen35.json").read_text(encoding="utf-8"))["invalid_utf8"]:
        assert real.encode(bytes.fromhex(case["hex"]).decode(errors="replace")) == case["ids_of_replaced"]


def test_decoding_gives_the_text_back(oracle: Path, real: Tokenizer) -> None:
    fixture = json.loads((oracle / "tok_qwen35.json").read_text(encoding="utf-8"))
    changed_by_nfc = without_nfc(fixture)
    for case in fixture["strings"]:
        if case["text"] not in changed_by_nfc:
            assert printed(real, real.encode(case["text"])).decode() == case["text"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("हिन्दी", [215989, 150127, 177453]),
        ("العَرَبِيَّة", [179415, 153458, 150765, 151003, 178402]),
        ("q\u0301x", [80, 52033, 87]),
    ],
)
def test_a11_combining_marks_belong_to_the_word(real: Tokenizer, text: str, ids: list[int]) -> None:
    assert real.encode(text) == ids


def test_a12_the_qwen2_rule_is_used_when_the_file_names_it(
    real_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {**real_file.metadata, "tokenizer.ggml.pre": "qwen2"}
    monkeypatch.setattr(real_file, "metadata", metadata)
    tokenizer = Tokenizer(real_file)
    assert tokenizer.encode("हिन्दी") == [90703, 181077, 28640, 148651, 42201]
    assert tokenizer.encode("العَرَبِيَّة") == [179415, 153458, 150765, 151003, 148515, 25046]


@pytest.mark.parametrize(
    ("key", "value"), [("pre", "something-else"), ("pre", None), ("model", "llama"), ("model", None)]
)
def test_a12_another_tokenizer_is_refused(tmp_path: Path, key: str, value: str | None) -> None:
    gguf = small_model()
    del gguf.keys[f"tokenizer.ggml.{key}"]
    if value is not None:
        gguf.keys[f"tokenizer.ggml.{key}"] = ("string", value)
    with pytest.raises(ModelFileError, match=rf"key tokenizer\.ggml\.{key} is {value!r}, expected '"):
        tokenizer_of(gguf, tmp_path)


@pytest.mark.parametrize("char", ["A", "界", " "])
def test_a13_a_long_unbroken_run_is_tokenized(real: Tokenizer, char: str) -> None:
    assert printed(real, real.encode(char * 50_000)).decode() == char * 50_000


@pytest.mark.parametrize("char", ["_", "a"])
def test_a14_a_million_characters_take_less_than_two_seconds(real: Tokenizer, char: str) -> None:
    start = time.process_time()
    ids = real.encode(char * 1_000_000)
    assert time.process_time() - start < 2
    assert len(printed(real, ids)) == 1_000_000


@pytest.mark.parametrize(
    ("text", "ids"), [("->", [397]), ("(x):\n", [2007, 1590, 198]), ("12345", [16, 17, 18, 19, 20])]
)
def test_a15_symbols_stay_together_and_digits_are_single(real: Tokenizer, text: str, ids: list[int]) -> None:
    assert real.encode(text) == ids


def test_a16_a_control_token_spelled_in_text_is_text(real: Tokenizer) -> None:
    assert real.encode("<|im_end|>") == [27, 91, 316, 6018, 91, 29]
    assert real.encode_with_specials("<|im_end|>") == [248046]


def test_a16_no_text_becomes_a_special_token(tiny: Tokenizer) -> None:
    specials = set(tiny.specials.values())
    for text in tiny.specials:
        assert not specials & set(tiny.encode(f"a{text}b{text}{text} {text}"))


def test_a17_padding_and_rows_past_the_vocabulary_print_nothing_and_are_not_sampled(
    real: Tokenizer, tmp_path: Path
) -> None:
    assert (real.n_vocab, real.n_real) == (248320, 248077)
    assert np.flatnonzero(~real.sampleable).tolist() == list(range(248077, 248320))
    short = tokenizer_of(small_model(), tmp_path)
    assert (short.n_vocab, short.n_real) == (288, 267)
    assert not short.sampleable[267:].any()
    for tokenizer, ids in ((real, (248077, 248200, 248319, 248320)), (short, (267, 268, 287, 288))):
        assert printed(tokenizer, [-1, *ids, 1 << 40]) == b""


def test_a18_a_nul_is_a_character_like_any_other(real: Tokenizer) -> None:
    assert printed(real, real.encode("before\0after")) == b"before\0after"


def test_control_tokens_print_nothing_and_user_defined_ones_their_text(real: Tokenizer) -> None:
    assert real.decode_bytes(real.control["<|im_end|>"]) == b""
    assert real.decode_bytes(real.user_defined["</think>"]) == b"</think>"


def test_a_character_may_be_split_over_tokens(tiny: Tokenizer) -> None:
    ids = tiny.encode("🦭")
    assert len(ids) > 1
    assert printed(tiny, ids).decode() == "🦭"


@pytest.mark.parametrize("text", ["x\ud83d", "\udc00y", "\ud800\ud800"])
def test_a55_a_lone_surrogate_becomes_the_replacement_character(tiny: Tokenizer, text: str) -> None:
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert tiny.encode(text) == tiny.encode(expected)


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii")))
def test_any_ascii_text_comes_back_unchanged(tiny: Tokenizer, text: str) -> None:
    assert printed(tiny, tiny.encode(text)).decode() == text


def test_generation_stops_at_the_end_of_turn_and_of_text(real: Tokenizer, tmp_path: Path) -> None:
    assert real.stop_ids == {248046, 248044, 248063, 248064, 248065}
    gguf = small_model()
    gguf.keys["tokenizer.ggml.eot_token_id"] = ("u32", 5)
    assert 5 in tokenizer_of(gguf, tmp_path).stop_ids


def test_a07_without_an_eos_key_the_end_of_turn_is_found_by_name(tmp_path: Path) -> None:
    gguf = small_model()
    del gguf.keys["tokenizer.ggml.eos_token_id"]
    tokenizer = tokenizer_of(gguf, tmp_path)
    assert tokenizer.token_to_id("<|im_end|>") in tokenizer.stop_ids


def test_a07_a_file_without_any_end_of_turn_is_refused(tmp_path: Path) -> None:
    gguf = small_model()
    del gguf.keys["tokenizer.ggml.eos_token_id"]
    gguf.keys["tokenizer.ggml.token_type"] = ("[]i32", [1] * 268)
    with pytest.raises(ModelFileError, match="no end-of-turn token"):
        tokenizer_of(gguf, tmp_path)


@pytest.mark.parametrize(
    ("key", "index", "value", "said"),
    [
        ("tokens", 65, "xx", r"no token for the byte b'A'"),
        ("tokens", 3, b"\xff", "not UTF-8"),
        ("merges", 0, "th", "expected two tokens and a space"),
        ("merges", 0, "a b c", "expected two tokens and a space"),
        ("merges", 0, "zz yy", "does not fit the tokens"),
        ("merges", 0, "\u0100\u0101\u0102 \u0100\u0101\u0102", "which does not fit the tokens"),
        ("tokens", 266, "a\0b", "an element with a NUL"),
        ("merges", 0, b"\xff a", "not UTF-8"),
    ],
)
def test_a_vocabulary_that_does_not_fit_together_is_refused(
    tmp_path: Path, key: str, index: int, value: str | bytes, said: str
) -> None:
    gguf = small_model()
    gguf.keys[f"tokenizer.ggml.{key}"][1][index] = value
    with pytest.raises(ModelFileError, match=said):
        tokenizer_of(gguf, tmp_path)


def test_tokens_are_found_by_their_spelling(tiny: Tokenizer) -> None:
    assert tiny.token_to_id("<|im_end|>") == tiny.control["<|im_end|>"]
    assert tiny.token_to_id(byte_characters()[ord("\n")]) == tiny.encode("\n")[0]
    assert tiny.token_to_id("no such token") is None
