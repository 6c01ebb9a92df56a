"""Faster CPU forms of what transformers computes slowly; ``install`` puts them in the place of its functions.

The gated delta rule is C, compiled for this machine on first use.  Chains of small operations are fused by
torch.compile, and give bfloat16 at once where autocast would make it of their result.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen

SOURCE = Path(__file__).with_name("delta_rule.c")
N_THREADS = 2
DIM = 64  # as in the C source


def install() -> None:
    qwen.torch_chunk_gated_delta_rule = delta_rule
    qwen.causal_conv1d_fn = causal_conv
    qwen.Qwen3_5RMSNorm.forward = _norm_forward
    qwen.Qwen3_5RMSNormGated.forward = _gated_norm_forward
    qwen.Qwen3_5MLP.forward = _mlp_forward


class _Sequence(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_long) for name in ("n_tokens", "n_values", "key_stride", "value_stride", "gate_stride")),
        *((name, ctypes.c_void_p) for name in "q k v g beta d_o o d_q d_k d_v d_g d_beta".split()),
    ]


def _compiled() -> ctypes.CDLL:
    library = Path(tempfile.mkdtemp()) / "delta_rule.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(SOURCE), "-lm"], check=True)
    return ctypes.CDLL(str(library))


_library = _compiled()
_pool = ThreadPoolExecutor(N_THREADS)


def _run(function: str, q: Tensor, v: Tensor, tensors: dict[str, Tensor]) -> None:
    """Every sequence of every key head; all tensors are contiguous float32."""
    n_batch, n_tokens, n_key_heads, _ = q.shape
    n_values = v.shape[2] // n_key_heads
    work = []
    for batch in range(n_batch):
        for head in range(n_key_heads):
            x = _Sequence(n_tokens, n_values, n_key_heads * DIM, n_key_heads * n_values * DIM, n_key_heads * n_values)
            for name, tensor in tensors.items():
                row = tensor[batch, 0, head if name in ("q", "k", "d_q", "d_k") else head * n_values]
                setattr(x, name, row.data_ptr())
            work.append(x)
    call = getattr(_library, function)

    def run(part: list[_Sequence]) -> None:
        for x in part:
            call(ctypes.byref(x))

    list(_pool.map(run, [work[i::N_THREADS] for i in range(N_THREADS)]))


class _DeltaRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        inputs = dict(zip("q k v g beta".split(), (q, k, v, g, beta), strict=True))
        inputs = {name: x.float().contiguous() for name, x in inputs.items()}
        ctx.inputs = inputs
        out = torch.empty_like(inputs["v"])
        _run("delta_forward", inputs["q"], inputs["v"], inputs | {"o": out})
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        inputs = ctx.inputs
        results = {f"d_{name}": torch.zeros_like(x) for name, x in inputs.items()}
        tensors = inputs | {"d_o": gradients[0].float().contiguous()} | results
        _run("delta_backward", inputs["q"], inputs["v"], tensors)
        return tuple(results.values())


def delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, **_: Any) -> tuple[Tensor, None]:
    """[batch, tokens, heads, dim] each; value heads share the key heads in groups.  No state goes in or out."""
    with torch.autocast("cpu", enabled=False):
        q, k = (qwen.l2norm(x.float(), dim=-1, eps=1e-6) for x in (query, key))
        out: Tensor = _DeltaRule.apply(q, k, value.float(), g.float(), beta.float())
    return out.to(query.dtype), None


def causal_conv(hidden_states: Tensor, weight: Tensor, bias: None, activation: str, **_: Any) -> Tensor:
    """[batch, channels, tokens], in memory tokens before channels, as it comes."""
    return _convolved(hidden_states.transpose(1, 2), weight.t()).transpose(1, 2)


@torch.compile(dynamic=True)
def _convolved(x: Tensor, taps: Tensor) -> Tensor:
    n_tokens, n_taps = x.shape[1], taps.shape[0]
    padded = F.pad(x.float(), (0, 0, n_taps - 1, 0))
    out = padded[:, :n_tokens] * taps[0]
    for i in range(1, n_taps):
        out = out + padded[:, i : i + n_tokens] * taps[i]
    return F.silu(out)


@torch.compile(dynamic=True)
def _normed(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    x = x.float()
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1 + weight)).to(dtype)


@torch.compile(dynamic=True)
def _gated_normed(x: Tensor, gate: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    x = x.float()
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight * F.silu(gate.float())).to(dtype)


@torch.compile(dynamic=True)
def _gated_units(gate: Tensor, up: Tensor) -> Tensor:
    return (F.silu(gate.float()) * up.float()).to(gate.dtype)


def _norm_forward(self: Any, x: Tensor) -> Tensor:
    return _normed(x, self.weight, self.eps, _dtype_after(x))


def _gated_norm_forward(self: Any, hidden_states: Tensor, gate: Tensor) -> Tensor:
    return _gated_normed(hidden_states, gate, self.weight, self.variance_epsilon, _dtype_after(hidden_states))


def _mlp_forward(self: Any, x: Tensor) -> Tensor:
    out: Tensor = self.down_proj(_gated_units(self.gate_proj(x), self.up_proj(x)))
    return out


def _dtype_after(x: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
