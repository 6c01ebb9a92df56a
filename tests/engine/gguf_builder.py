"""Writes small GGUF files, right and wrong: every field can be changed before the bytes are made."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CODES = {
    "u8": "B",
    "i8": "b",
    "u16": "H",
    "u32": "I",
    "i32": "i",
    "f32": "f",
    "bool": "?",
    "u64": "Q",
    "f64": "d",
}
NUMBERS = {name: n for n, name in enumerate("u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split())}
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def pack(kind: str, value: Any) -> bytes:
    """A value's bytes without its type.  An array's kind is ``[]`` and that of its elements."""
    if kind == "string":
        return text(value)
    if kind.startswith("[]"):
        element = kind.removeprefix("[]")
        number = NUMBERS["array" if element.startswith("[]") else element]
        return struct.pack("<IQ", number, len(value)) + b"".join(pack(element, item) for item in value)
    return struct.pack("<" + CODES[kind], value)


@dataclass
class TensorEntry:
    dims: tuple[int, ...]
    type: int
    data: bytes
    n_dims: int | None = None
    offset: int | None = None


@dataclass
class Gguf:
    """The parts of a file.  ``keys`` maps a name to (kind, value); None for a count means the true one."""

    keys: dict[str, tuple[str, Any]] = field(default_factory=dict)
    tensors: dict[str, TensorEntry] = field(default_factory=dict)
    alignment: int = 32
    n_keys: int | None = None
    n_tensors: int | None = None
    extra_keys: bytes = b""
    extra_tensors: bytes = b""

    def header(self) -> bytes:
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        out = b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_keys)
        for name, (kind, value) in self.keys.items():
            number = NUMBERS["array" if kind.startswith("[]") else kind]
            out += text(name) + struct.pack("<I", number) + pack(kind, value)
        out += self.extra_keys
        offset = 0
        for name, tensor in self.tensors.items():
            n_dims = len(tensor.dims) if tensor.n_dims is None else tensor.n_dims
            out += text(name) + struct.pack("<I", n_dims) + struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims)
            out += struct.pack("<IQ", tensor.type, offset if tensor.offset is None else tensor.offset)
            offset += len(self.padded(tensor.data))
        return out + self.extra_tensors

    def padded(self, data: bytes) -> bytes:
        return data + bytes(-len(data) % self.alignment)

    def to_bytes(self) -> bytes:
        return self.padded(self.header()) + b"".join(self.padded(tensor.data) for tensor in self.tensors.values())

    def write(self, folder: Path) -> Path:
        path = folder / "model.gguf"
        path.write_bytes(self.to_bytes())
        return path


def byte_characters() -> list[str]:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def set_vocabulary(gguf: Gguf, tokens: list[str], types: list[int], merges: list[str]) -> None:
    gguf.keys["tokenizer.ggml.tokens"] = ("[]string", tokens)
    gguf.keys["tokenizer.ggml.token_type"] = ("[]i32", types)
    gguf.keys["tokenizer.ggml.merges"] = ("[]string", merges)
    gguf.keys["tokenizer.ggml.eos_token_id"] = ("u32", tokens.index("<|im_end|>"))


def small_model(template: str = TEMPLATE) -> Gguf:
    """The keys of a Qwen3.5 model of four layers, and the tensors that a reader of keys looks at."""
    sizes = {
        "block_count": 4,
        "context_length": 4096,
        "embedding_length": 32,
        "feed_forward_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 16,
        "attention.value_length": 16,
        "rope.dimension_count": 8,
        "ssm.conv_kernel": 4,
        "ssm.state_size": 8,
        "ssm.group_count": 2,
        "ssm.time_step_rank": 4,
        "ssm.inner_size": 32,
        "full_attention_interval": 4,
    }
    gguf = Gguf()
    gguf.keys["general.architecture"] = ("string", "qwen35")
    gguf.keys["general.name"] = ("string", "small")
    for name, size in sizes.items():
        gguf.keys[f"qwen35.{name}"] = ("u32", size)
    gguf.keys["qwen35.attention.layer_norm_rms_epsilon"] = ("f32", 1e-6)
    gguf.keys["qwen35.rope.freq_base"] = ("f32", 1e7)
    gguf.keys["tokenizer.ggml.model"] = ("string", "gpt2")
    gguf.keys["tokenizer.ggml.pre"] = ("string", "qwen35")
    gguf.keys["tokenizer.chat_template"] = ("string", template)
    tokens = [*byte_characters(), "th", "the", *SPECIALS, *TAGS, "[PAD]"]
    types = [NORMAL] * 258 + [CONTROL] * len(SPECIALS) + [USER_DEFINED] * len(TAGS) + [UNUSED]
    set_vocabulary(gguf, tokens, types, ["t h", "th e"])
    gguf.tensors["token_embd.weight"] = TensorEntry((32, 288), 2, bytes(18 * 288))
    for layer in range(4):
        gguf.tensors[f"blk.{layer}.attn_norm.weight"] = TensorEntry((32,), 0, bytes(4 * 32))
    gguf.tensors["output_norm.weight"] = TensorEntry((32,), 0, bytes(4 * 32))
    return gguf
