"""Text to tokens and back: byte-level BPE with the vocabulary of a model file.

Text never becomes a special token by its spelling alone.  ``encode`` gives ordinary tokens only;
who means a special token passes its id (``encode_segments``) or asks for the spellings to be
matched (``encode_with_specials``).  Text is NFC-normalized and lone surrogates become U+FFFD.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as BpeTokenizer

from engine.errors import TextTooLong
from engine.model_file import ModelFile

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # token types of GGUF
STOP_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")

_SPLIT_RULES = {
    "qwen35": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
MOST_BYTES_PER_TOKEN = 32
NUL = "\0"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Segment = str | int
"""Ordinary text, or the id of a special token."""


class Tokenizer:
    """The vocabulary of one model file.

    ``control`` and ``user_defined`` map the spellings of special tokens to ids.  ``sampleable`` has
    one flag per row of the output matrix: False for padding and for rows past the vocabulary.
    ``n_real`` is one more than the highest sampleable id.
    """

    def __init__(self, file: ModelFile) -> None:
        rule = _split_rule(file)
        with _collector_paused():
            vocabulary = _texts(file, "tokenizer.ggml.tokens").split(NUL)[1:]
            types = file.array("tokenizer.ggml.token_type").numbers()
            self.control = _select(vocabulary, types, CONTROL)
            self.user_defined = _select(vocabulary, types, USER_DEFINED)
            self._bpe = _build_bpe(file, _select(vocabulary, types, NORMAL), rule)
        self.specials = self.control | self.user_defined
        self.special_pattern = spelling_pattern(self.specials)
        self.n_vocab = file.config.n_vocab
        self.sampleable: NDArray[np.bool_] = np.zeros(self.n_vocab, bool)
        self.sampleable[: len(types)] = np.isin(types, (NORMAL, CONTROL, USER_DEFINED))
        self.n_real = int(np.flatnonzero(self.sampleable)[-1]) + 1
        self.stop_ids = _stop_ids(file, self.specials)
        self._printed = {id_: text.encode() for text, id_ in self.user_defined.items()} | dict.fromkeys(
            self.control.values(), b""
        )

    def encode(self, text: str) -> list[int]:
        """The tokens of ordinary text; a special token's spelling is text like any other."""
        ids: list[int] = self._bpe.encode(replace_surrogates(text), add_special_tokens=False).ids
        return ids

    def encode_with_specials(self, text: str) -> list[int]:
        """The tokens of trusted text: special tokens are matched by spelling, longest first."""
        return self.encode_segments(self.split_specials(text))

    def encode_segments(self, segments: Iterable[Segment]) -> list[int]:
        """The tokens of a sequence of texts and special token ids."""
        ids: list[int] = []
        for segment in segments:
            if isinstance(segment, int):
                ids.append(segment)
            else:
                ids.extend(self.encode(segment))
        return ids

    def split_specials(self, text: str) -> Iterator[Segment]:
        """Trusted text as segments, special tokens matched by spelling."""
        position = 0
        for match in self.special_pattern.finditer(text):
            if match.start() > position:
                yield text[position : match.start()]
            yield self.specials[match.group()]
            position = match.end()
        if position < len(text):
            yield text[position:]

    def decode_bytes(self, id_: int) -> bytes:
        """What a token prints.  Control tokens, padding and rows past the vocabulary print nothing."""
        if id_ in self._printed:
            return self._printed[id_]
        token = self._bpe.id_to_token(id_) if 0 <= id_ < self.n_vocab else None
        return b"" if token is None else b"".join(_BYTE_OF.get(char) or char.encode() for char in token)

    def every_token(self) -> list[bytes]:
        """The bytes of every row, special tokens spelled out; padding and rows past the vocabulary have none."""
        with _collector_paused():
            names = map(self._bpe.id_to_token, range(self.n_vocab))
            rows = [b"" if name is None else name.translate(_LATIN1_OF).encode("latin-1") for name in names]
        for text, id_ in self.specials.items():
            rows[id_] = text.encode()
        return rows

    @cached_property
    def byte_ids(self) -> list[int]:
        """The tokens of the 256 single bytes."""
        chars = sorted(_BYTE_OF, key=lambda char: _BYTE_OF[char])
        return [id_ for char in chars if (id_ := self._bpe.token_to_id(char)) is not None]  # a file without is refused

    def token_to_id(self, text: str) -> int | None:
        """The id of a special token, or of a normal token spelled in the byte alphabet."""
        id_: int | None = self.specials.get(text)
        return self._bpe.token_to_id(text) if id_ is None else id_


def check_length(text: str, context: int) -> None:
    """Raise TextTooLong for a text that has more bytes for each token of the context than any language or code has.

    One run of letters takes seconds for each megabyte to become tokens, and this function answers one caller at a time.
    """
    n_bytes = len(text) if text.isascii() else len(text.encode(errors="replace"))
    if n_bytes > context * MOST_BYTES_PER_TOKEN:
        raise TextTooLong(n_bytes, context * MOST_BYTES_PER_TOKEN, context)


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot say, replaced by U+FFFD."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def spelling_pattern(spellings: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the spellings, longest first; nothing if there are none."""
    by_length = sorted(spellings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, by_length)) if by_length else r"(?!)")


def _byte_alphabet() -> dict[str, bytes]:
    """What the characters of token strings stand for: printable bytes themselves, the others U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): bytes([byte]) for byte in printable} | {
        chr(0x100 + i): bytes([byte]) for i, byte in enumerate(others)
    }


class _Latin1(dict[int, str]):
    """Characters of token strings as the Latin-1 characters of the bytes they stand for."""

    def __missing__(self, char: int) -> str:
        return chr(char).encode().decode("latin-1")


_BYTE_OF = _byte_alphabet()
_LATIN1_OF = _Latin1({ord(char): byte.decode("latin-1") for char, byte in _BYTE_OF.items()})


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Half a million new objects, none of them garbage: collecting between them costs a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _split_rule(file: ModelFile) -> str:
    for key, expected in (("tokenizer.ggml.model", ("gpt2",)), ("tokenizer.ggml.pre", tuple(_SPLIT_RULES))):
        found = file.metadata.get(key)
        if found not in expected:
            file.refuse(f"key {key} is {found!r}, expected {' or '.join(map(repr, expected))}")
    return _SPLIT_RULES[str(file.metadata["tokenizer.ggml.pre"])]


def _texts(file: ModelFile, key: str) -> str:
    """The strings of an array, each behind a NUL."""
    joined = file.array(key).joined()
    if joined.count(0) != file.array(key).count:
        file.refuse(f"key {key} has an element with a NUL character")
    try:
        return joined.decode()
    except UnicodeDecodeError as error:
        element = joined[joined.rfind(0, 0, error.start) + 1 :].partition(b"\0")[0]
        file.refuse(f"key {key} has the element {element!r}, which is not UTF-8")


def _select(vocabulary: list[str], types: NDArray[np.generic], wanted: int) -> dict[str, int]:
    ids = np.flatnonzero(types == wanted).tolist()
    return dict(zip(map(vocabulary.__getitem__, ids), ids, strict=True))


def _build_bpe(file: ModelFile, vocabulary: dict[str, int], rule: str) -> BpeTokenizer:
    missing = [repr(byte) for char, byte in _BYTE_OF.items() if char not in vocabulary]
    if missing:
        file.refuse(f"key tokenizer.ggml.tokens has no token for the byte {missing[0]}, expected all 256")
    longest = max(map(len, map(str.encode, vocabulary)))
    try:
        bpe = BpeTokenizer(models.BPE(vocab=vocabulary, merges=_merges(file, longest)))
    except Exception as error:  # noqa: BLE001  tokenizers raises nothing narrower
        file.refuse(f"key tokenizer.ggml.merges does not fit the tokens: {error}")
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rule), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return bpe


def _merges(file: ModelFile, longest_token_bytes: int) -> list[tuple[str, str]]:
    text = _texts(file, "tokenizer.ggml.merges")
    codes = np.frombuffer(text.encode(), np.uint8)
    starts = np.flatnonzero(codes == 0)

    def refuse_any(wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            merge = text.split(NUL)[1 + int(wrong.argmax())]
            file.refuse(f"key tokenizer.ggml.merges has the element {merge!r}, {why}")

    refuse_any(np.add.reduceat(codes == 32, starts, dtype=np.int64) != 1, "expected two tokens and a space")
    # tokenizers panics at a merged token that is longer than every token; it refuses others that are no tokens.
    merged_bytes = np.diff(starts, append=len(codes)) - 2
    refuse_any(merged_bytes > longest_token_bytes, "which does not fit the tokens")
    parts = text.replace(" ", NUL).split(NUL)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _stop_ids(file: ModelFile, specials: dict[str, int]) -> frozenset[int]:
    by_key = {file.special_ids[name] for name in ("eos", "eot") if name in file.special_ids}
    stops = by_key | {specials[text] for text in STOP_TOKENS if text in specials}
    if not stops:
        file.refuse("no end-of-turn token: tokenizer.ggml.eos_token_id is missing and no token is <|im_end|>")
    return frozenset(stops)
