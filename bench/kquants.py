"""Quantize float32 rows to Q4_K, Q5_K and Q6_K blocks with numpy: valid blocks, not the most accurate ones.

A block is 256 values; layouts are described in native/src/quant.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

BLOCK = 256


def q4_k(rows: F32) -> U8:
    """[n, k] -> [n, k / 256 * 144] bytes."""
    d, dmin, scales, values = _affine(_blocks(rows), levels=15)
    return _joined(rows, _bytes(d), _bytes(dmin), scales, _nibble_pairs(values))


def q5_k(rows: F32) -> U8:
    """[n, k] -> [n, k / 256 * 176] bytes."""
    d, dmin, scales, values = _affine(_blocks(rows), levels=31)
    bit = np.arange(8, dtype=np.uint8)[None, :, None]
    high = np.bitwise_or.reduce((values >> 4) << bit, axis=1)
    return _joined(rows, _bytes(d), _bytes(dmin), scales, high, _nibble_pairs(values & 15))


def q6_k(rows: F32) -> U8:
    """[n, k] -> [n, k / 256 * 210] bytes."""
    groups = _blocks(rows).reshape(-1, 16, 16)
    extreme = np.take_along_axis(groups, np.abs(groups).argmax(-1)[..., None], -1)[..., 0]
    step = extreme / np.float32(-32)
    widest = np.take_along_axis(step, np.abs(step).argmax(-1)[:, None], -1)[:, 0]
    d = (widest / np.float32(-128)).astype(np.float16)
    d32 = d.astype(np.float32)[:, None]
    scales = np.clip(np.rint(_ratio(step, d32)), -128, 127)
    values = np.clip(np.rint(_ratio(groups, (d32 * scales)[..., None])), -32, 31) + 32
    # Value 128 h + 32 quarter + lane of a block.
    q = values.astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = q & 15, q >> 4
    low_bytes = np.concatenate([low[:, :, 0] | (low[:, :, 2] << 4), low[:, :, 1] | (low[:, :, 3] << 4)], axis=-1)
    high_bytes = high[:, :, 0] | (high[:, :, 1] << 2) | (high[:, :, 2] << 4) | (high[:, :, 3] << 6)
    return _joined(
        rows,
        low_bytes.reshape(-1, 128),
        high_bytes.reshape(-1, 64),
        _bytes(scales.astype(np.int8)),
        _bytes(d),
    )


def _affine(blocks: F32, levels: int) -> tuple[Array, Array, Array, U8]:
    """Sub-blocks of value = d * scale * q - dmin * min; returns d, dmin, packed scales and q [n, 8, 32]."""
    groups = blocks.reshape(-1, 8, 32)
    lowest = np.minimum(groups.min(-1), 0)
    step = (np.maximum(groups.max(-1), 0) - lowest) / np.float32(levels)
    d = (step.max(-1) / np.float32(63)).astype(np.float16)
    dmin = ((-lowest).max(-1) / np.float32(63)).astype(np.float16)
    d32, dmin32 = d.astype(np.float32)[:, None], dmin.astype(np.float32)[:, None]
    scale = np.clip(np.rint(_ratio(step, d32)), 0, 63)
    minimum = np.clip(np.rint(_ratio(-lowest, dmin32)), 0, 63)
    shifted = groups + (dmin32 * minimum)[..., None]
    values = np.clip(np.rint(_ratio(shifted, (d32 * scale)[..., None])), 0, levels)
    return d, dmin, _pack_scales(scale.astype(np.uint8), minimum.astype(np.uint8)), values.astype(np.uint8)


def _pack_scales(scale: U8, minimum: U8) -> Array:
    """Eight six-bit scales and eight six-bit mins in 12 bytes; the upper two bits of 4..7 go above 0..3."""
    return np.concatenate(
        [
            scale[:, :4] | ((scale[:, 4:] >> 4) << 6),
            minimum[:, :4] | ((minimum[:, 4:] >> 4) << 6),
            (scale[:, 4:] & 15) | ((minimum[:, 4:] & 15) << 4),
        ],
        axis=1,
    )


def _nibble_pairs(values: Array) -> Array:
    """Sub-blocks 2p in the low and 2p + 1 in the high four bits."""
    low = values & 15
    return (low[:, 0::2] | (low[:, 1::2] << 4)).reshape(-1, 128)


def _blocks(rows: F32) -> F32:
    if rows.shape[-1] % BLOCK:
        raise ValueError(f"a row has {rows.shape[-1]} values, expected a multiple of {BLOCK}")
    return np.ascontiguousarray(rows, dtype=np.float32).reshape(-1, BLOCK)


def _joined(rows: F32, *fields: Array) -> U8:
    joined: U8 = np.concatenate(fields, axis=1, dtype=np.uint8).reshape(*rows.shape[:-1], -1)
    return joined


def _bytes(values: npt.NDArray[np.float16] | npt.NDArray[np.int8]) -> U8:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _ratio(a: F32, b: F32) -> F32:
    """a / b, and 0 where b is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(a.shape, np.float32), where=b != 0)
