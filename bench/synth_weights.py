"""The tensors of a synthetic Qwen3.5 model: shapes of the released sizes, types of the released files.

Every tensor draws from a stream of its own, seeded by its name, so contents do not depend on the order.
Scales keep activations finite and logits spread.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import kquants
import synth_vocab

FULL_ATTENTION_INTERVAL = 4
CONV_KERNEL = 4
ROWS_AT_ONCE = 8192  # bounds the memory that quantizing the embedding takes


@dataclass(frozen=True)
class Shape:
    """The numbers that tell the family's sizes apart."""

    n_hidden: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    n_ffn: int
    n_key_heads: int
    n_value_heads: int
    tied: bool = True
    head_dim: int = 256
    delta_dim: int = 128
    n_vocab: int = synth_vocab.FULL_SIZE


SHAPES = {
    "tiny": Shape(256, 4, 2, 1, 512, 2, 2),
    "tinyg": Shape(256, 4, 4, 2, 512, 2, 4),
    "0.8b": Shape(1024, 24, 8, 2, 3584, 16, 16),
    "2b": Shape(2048, 24, 8, 2, 6144, 16, 16),
    "4b": Shape(2560, 32, 16, 4, 9216, 16, 32),
    "9b": Shape(4096, 32, 16, 4, 12288, 16, 32, tied=False),
}


class Weights:
    """Draws tensors and hands them to the writer in the file's types."""

    def __init__(self, writer: gguf.GGUFWriter, shape: Shape, kind: str, seed: int) -> None:
        self.writer = writer
        self.shape = shape
        self.kind = kind
        self.seed = seed

    def stream(self, name: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, zlib.crc32(name.encode())]))

    def matrix(self, name: str, n_out: int, n_in: int, gain: float = 1.0) -> None:
        values = self.stream(name).standard_normal((n_out, n_in), dtype=np.float32)
        values *= gain / math.sqrt(n_in)
        kind = self.matrix_type(name)
        if kind in (Type.F32, Type.F16):
            self.writer.add_tensor(name, values.astype(np.float16 if kind == Type.F16 else np.float32))
        else:
            self.writer.add_tensor(name, encode(values, kind), raw_dtype=kind)

    def vector(self, name: str, values: np.ndarray) -> None:
        self.writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def norm(self, name: str, n: int, mean: float = 1.0) -> None:
        self.vector(name, mean + 0.1 * self.stream(name).standard_normal(n, dtype=np.float32))

    def matrix_type(self, name: str) -> Type:
        """As in a released Q4_K_M file: at 0.8B 154 matrices are Q4_K, 18 Q5_K and 15 Q6_K."""
        if self.kind != "q4_k_m":
            return Type[self.kind.upper()]
        if name in ("token_embd.weight", "output.weight"):
            return Type.Q6_K
        if "attn_qkv" in name:
            return Type.Q5_K
        layer, eighth = int(name.split(".")[1]), self.shape.n_layers // 8
        sensitive = layer < eighth or layer >= 7 * self.shape.n_layers // 8 or (layer - eighth) % 3 == 2
        return Type.Q6_K if sensitive and ("ffn_down" in name or "attn_v" in name) else Type.Q4_K


def encode(values: np.ndarray, kind: Type) -> np.ndarray:
    own: dict[Type, Callable[[np.ndarray], np.ndarray]] = {
        Type.Q4_K: kquants.q4_k,
        Type.Q5_K: kquants.q5_k,
        Type.Q6_K: kquants.q6_k,
    }
    others: Callable[[np.ndarray, Type], np.ndarray] = gguf.quants.quantize
    parts = np.array_split(values, max(1, len(values) // ROWS_AT_ONCE))
    return np.concatenate([own[kind](part) if kind in own else others(part, kind) for part in parts])


def add_ffn(w: Weights, prefix: str) -> None:
    w.matrix(prefix + "ffn_gate.weight", w.shape.n_ffn, w.shape.n_hidden)
    w.matrix(prefix + "ffn_up.weight", w.shape.n_ffn, w.shape.n_hidden)
    w.matrix(prefix + "ffn_down.weight", w.shape.n_hidden, w.shape.n_ffn, gain=0.5)


def add_attention(w: Weights, prefix: str) -> None:
    s = w.shape
    w.norm(prefix + "attn_norm.weight", s.n_hidden)
    w.norm(prefix + "post_attention_norm.weight", s.n_hidden)
    w.matrix(prefix + "attn_q.weight", 2 * s.n_heads * s.head_dim, s.n_hidden)  # per head: query rows, gate rows
    w.matrix(prefix + "attn_k.weight", s.n_kv_heads * s.head_dim, s.n_hidden)
    w.matrix(prefix + "attn_v.weight", s.n_kv_heads * s.head_dim, s.n_hidden)
    w.norm(prefix + "attn_q_norm.weight", s.head_dim, mean=1.3)
    w.norm(prefix + "attn_k_norm.weight", s.head_dim, mean=1.3)
    w.matrix(prefix + "attn_output.weight", s.n_hidden, s.n_heads * s.head_dim, gain=0.6)


def add_deltanet(w: Weights, prefix: str) -> None:
    s = w.shape
    n_values = s.delta_dim * s.n_value_heads
    n_conv = 2 * s.delta_dim * s.n_key_heads + n_values
    w.norm(prefix + "attn_norm.weight", s.n_hidden)
    w.norm(prefix + "post_attention_norm.weight", s.n_hidden)
    w.matrix(prefix + "attn_qkv.weight", n_conv, s.n_hidden)
    w.matrix(prefix + "attn_gate.weight", n_values, s.n_hidden)
    taps = 0.25 * w.stream(prefix + "ssm_conv1d.weight").standard_normal((n_conv, CONV_KERNEL), dtype=np.float32)
    taps[:, -1] += 0.6
    w.vector(prefix + "ssm_conv1d.weight", taps)
    decays = w.stream(prefix + "ssm_a").uniform(math.log(0.02), math.log(4.0), s.n_value_heads)
    w.vector(prefix + "ssm_a", -np.exp(decays))
    w.vector(prefix + "ssm_dt.bias", w.stream(prefix + "ssm_dt.bias").uniform(-5.0, 0.5, s.n_value_heads))
    w.matrix(prefix + "ssm_alpha.weight", s.n_value_heads, s.n_hidden)
    w.matrix(prefix + "ssm_beta.weight", s.n_value_heads, s.n_hidden)
    w.norm(prefix + "ssm_norm.weight", s.delta_dim)
    w.matrix(prefix + "ssm_out.weight", s.n_hidden, n_values, gain=0.6)


def add_mtp(w: Weights, prefix: str) -> None:
    """One block that drafts the next token but one."""
    add_attention(w, prefix)
    add_ffn(w, prefix)
    w.matrix(prefix + "nextn.eh_proj.weight", w.shape.n_hidden, 2 * w.shape.n_hidden)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        w.norm(f"{prefix}nextn.{norm}.weight", w.shape.n_hidden)


def add_tensors(w: Weights, mtp: bool) -> None:
    s = w.shape
    w.matrix("token_embd.weight", s.n_vocab, s.n_hidden, gain=2.5)
    w.norm("output_norm.weight", s.n_hidden)
    if not s.tied:
        w.matrix("output.weight", s.n_vocab, s.n_hidden, gain=2.5)
    for layer in range(s.n_layers):
        prefix = f"blk.{layer}."
        (add_deltanet if (layer + 1) % FULL_ATTENTION_INTERVAL else add_attention)(w, prefix)
        add_ffn(w, prefix)
    if mtp:
        add_mtp(w, f"blk.{s.n_layers}.")
