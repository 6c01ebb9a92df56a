"""Which part of the forward pass a function of the engine belongs to, for "where the time goes"."""

from __future__ import annotations

import re
from collections.abc import Collection

GEMM, EXPANSION, HEAD = "GEMM / GEMV", "expansion", "lm_head"
DELTA, CONV, ATTENTION, ROWS, REST = "DeltaNet", "convolution", "attention", "norms, SiLU, quantize", "rest"
GROUPS = (GEMM, EXPANSION, HEAD, DELTA, CONV, ATTENTION, ROWS, REST)

LAYERS = ("qw_delta_layer", "qw_attention_layer", "qw_ffn_layer")
ATTENTION_UNIT = "query_unit"

# The kernels by the stem of their name, after the set's.
_KERNELS = (
    (r"gemm_i8|gemv_\w+", GEMM),
    (r"expand_\w+", EXPANSION),
    (r"conv_silu", CONV),
    (r"gemm_f32|delta_\w+|l2_norm", DELTA),
    (r"attention_tile|f16_to_f32|f32_to_f16|sigmoid_mul", ATTENTION),
    (r"rms_norm|silu_mul|add|quantize_\w+", ROWS),
)
_OTHERS = {
    "multiply_panel": GEMM,
    "delta_unit": DELTA,
    "query_unit": ATTENTION,
    "token_unit": ATTENTION,
    "rotate": ATTENTION,
    "gated_norm_row": ROWS,
    "gated_row": ROWS,
    "input_block": ROWS,
    "qw_norm_row": ROWS,
}


def group_of(function: str, callers: Collection[str]) -> str:
    """``callers`` decide what one name cannot: attention's f32 GEMM, and which GEMV is the head's."""
    kernel = re.fullmatch(r"qw_(?:scalar|dotprod|i8mm|avx2|avx512vnni)_(\w+)", function)
    if not kernel:
        return _OTHERS.get(function, REST)
    group = next((group for stem, group in _KERNELS if re.fullmatch(stem, kernel[1])), REST)
    if kernel[1] == "gemm_f32" and ATTENTION_UNIT in callers:
        return ATTENTION
    if kernel[1].startswith("gemv_") and not any(layer in callers for layer in LAYERS):
        return HEAD
    return group
