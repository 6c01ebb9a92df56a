"""The binding to the C engine: the only importer of the extension.

A C failure becomes the engine error that says the same.  The GIL is released inside each call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from engine._native import ffi, lib
from engine.errors import ContextFull, EngineError, ModelFileError, NumericFault, OutOfMemory, UnsupportedCpu
from engine.model_file import ModelFile

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]

_ERRORS: dict[int, type[EngineError]] = {
    lib.QW_ERR_MODEL: ModelFileError,
    lib.QW_ERR_MEMORY: OutOfMemory,
    lib.QW_ERR_ISA: UnsupportedCpu,
    lib.QW_ERR_NUMERIC: NumericFault,
}


class Phase(IntEnum):
    """How tokens are evaluated; see qw_phase."""

    PREFILL = lib.QW_PREFILL
    DECODE = lib.QW_DECODE


@dataclass(frozen=True, slots=True)
class Counters:
    """What the C engine counted in a session."""

    prefill_tokens: int
    decode_tokens: int
    gemm_rows: int
    gemv_rows: int


def _check(status: int) -> None:
    if status == lib.QW_OK:
        return
    message = ffi.string(lib.qw_last_error()).decode()
    error = _ERRORS.get(status)
    if error is None:
        raise RuntimeError(f"C engine: {message}")
    raise error(message)


def isas() -> list[str]:
    """The kernel sets this CPU runs, best first."""
    names: list[str] = []
    while name := lib.qw_nth_isa(len(names)):
        names.append(ffi.string(name).decode())
    return names


def fastest_isa() -> str:
    """The quicker of the two best kernel sets, by a trial of well under a millisecond; with one set, that one."""
    best, *others = isas()
    if not others or others[0] == "scalar":
        return best

    def trial_s(isa: str) -> float:
        name = ffi.new("char[]", isa.encode())
        started = time.perf_counter()
        _check(lib.qw_isa_trial(name))
        return time.perf_counter() - started

    rounds = [(trial_s(best), trial_s(others[0])) for _ in range(6)][1:]  # the first one warms up
    return best if min(first for first, _ in rounds) <= min(second for _, second in rounds) else others[0]


class Model:
    """The weights.  Keeps the file's mapping alive while C points into it."""

    def __init__(self, file: ModelFile, *, n_threads: int, isa: str | None = None, exact: bool = False) -> None:
        """``isa``: a kernel set by name, None for the fastest here.

        Raises ModelFileError naming the tensor at fault, UnsupportedCpu or OutOfMemory.
        """
        names = {name: ffi.new("char[]", name.encode()) for name in file.tensors}
        self._buffer = ffi.from_buffer(file.buffer)
        tensors = ffi.new("qw_tensor[]", len(names))
        for slot, tensor in zip(tensors, file.tensors.values(), strict=True):
            slot.name = names[tensor.name]
            slot.type = tensor.type
            slot.n_dims = len(tensor.dims)
            slot.dims[0 : len(tensor.dims)] = tensor.dims
            slot.data = self._buffer + tensor.offset
            slot.n_bytes = tensor.n_bytes
        out = ffi.new("qw_model **")
        config, keep = _config(file, n_threads, isa or fastest_isa(), exact)
        try:
            _check(lib.qw_model_create(out, config, tensors, len(names)))
        except ModelFileError as error:
            raise ModelFileError(f"{file.path}: {error}") from None
        finally:
            del keep
        self._handle = ffi.gc(out[0], lib.qw_model_free)
        self.n_vocab = file.config.n_vocab
        self.n_layers = file.config.n_layers
        self.n_hidden = file.config.n_hidden
        self.isa: str = ffi.string(lib.qw_model_isa(self._handle)).decode()
        self.gemm: str = ffi.string(lib.qw_model_gemm(self._handle)).decode()
        self.state_bytes: int = lib.qw_model_state_bytes(self._handle)
        self.workspace_bytes: int = lib.qw_model_workspace_bytes(self._handle)
        self.kv_token_bytes: int = lib.qw_model_kv_token_bytes(self._handle)


def _config(file: ModelFile, n_threads: int, isa: str, exact: bool) -> tuple[Any, list[Any]]:
    """qw_config and what it points to."""
    c = file.config
    recurrent = ffi.new("uint8_t[]", [int(flag) for flag in c.recurrent_layers])
    name = ffi.new("char[]", isa.encode())
    fields = {
        "n_layers": c.n_layers,
        "n_vocab": c.n_vocab,
        "n_hidden": c.n_hidden,
        "n_ffn": c.n_ffn,
        "n_heads": c.n_heads,
        "n_kv_heads": c.n_kv_heads,
        "head_dim": c.head_dim,
        "rotary_dims": c.rotary_dims,
        "n_key_heads": c.n_key_heads,
        "n_value_heads": c.n_value_heads,
        "delta_head_dim": c.delta_head_dim,
        "conv_kernel": c.conv_kernel,
        "rms_eps": c.rms_eps,
        "rope_base": c.rope_base,
        "recurrent_layers": recurrent,
        "n_threads": n_threads,
        "isa": name,
        "exact": int(exact),
    }
    return ffi.new("qw_config *", fields), [recurrent, name]


class Snapshot:
    """The state of a session at one position; shares attention pages with its session."""

    def __init__(self, model: Model, handle: Any) -> None:
        self._model = model  # whose file it reads
        self._handle = ffi.gc(handle, lib.qw_snapshot_free)
        self.position: int = lib.qw_snapshot_position(handle)

    @classmethod
    def from_bytes(cls, model: Model, position: int, data: bytes | memoryview) -> Snapshot:
        """What ``to_bytes`` gave.  EngineError when the size is not that of this model at this position."""
        out = ffi.new("qw_snapshot **")
        buffer = ffi.from_buffer(data)
        status = lib.qw_snapshot_import(out, model._handle, position, buffer, len(buffer))
        if status == lib.QW_ERR_ARGUMENT:
            raise EngineError(ffi.string(lib.qw_last_error()).decode())
        _check(status)
        return cls(model, out[0])

    def to_bytes(self) -> bytearray:
        """Recurrent state, convolution rows, then the attention rows of every token."""
        data = bytearray(lib.qw_snapshot_export_bytes(self._handle))
        lib.qw_snapshot_export(self._handle, ffi.from_buffer(data))
        return data


def snapshots_bytes(snapshots: Sequence[Snapshot]) -> int:
    """Memory these snapshots hold together; shared pages count once."""
    handles = ffi.new("qw_snapshot *[]", [snapshot._handle for snapshot in snapshots])
    return int(lib.qw_snapshots_bytes(handles, len(snapshots)))


class Session:
    """A timeline of tokens in the model.  One thread at a time."""

    def __init__(self, model: Model, n_context: int) -> None:
        out = ffi.new("qw_session **")
        _check(lib.qw_session_create(out, model._handle, n_context))
        self._model = model  # whose file it reads
        self._handle = ffi.gc(out[0], lib.qw_session_free)
        self.n_context = n_context

    @property
    def position(self) -> int:
        """Tokens evaluated so far."""
        return int(lib.qw_session_position(self._handle))

    def eval(
        self,
        tokens: Ids,
        phase: Phase,
        *,
        n_logits: int = 0,
        hidden: Floats | None = None,
        marks: Sequence[int] = (),
    ) -> tuple[Floats, list[Snapshot]]:
        """Run tokens: logits float32 [n_logits, n_vocab] of the last ones, and a snapshot at each mark.

        ``marks`` are increasing positions after the current one, up to the last token's end; prefill only.
        ``hidden``, float32 [n_layers + 1, n_tokens, n_hidden], receives the residual stream.
        Raises ContextFull when the tokens do not fit, OutOfMemory, or NumericFault (reset or load before going on).
        """
        tokens = np.ascontiguousarray(tokens, np.int32)
        if len(tokens) > self.n_context - self.position:
            raise ContextFull(self.position + len(tokens), self.n_context)
        logits: Floats = np.empty((n_logits, self._model.n_vocab), np.float32)
        snapshots = ffi.new("qw_snapshot *[]", len(marks))
        batch = ffi.new("qw_batch *")
        batch.tokens = ffi.from_buffer("int32_t[]", tokens)
        batch.n_tokens = len(tokens)
        batch.phase = int(phase)
        batch.logits = ffi.from_buffer("float[]", logits)
        batch.n_logits = n_logits
        if hidden is not None:
            if hidden.shape != (self._model.n_layers + 1, len(tokens), self._model.n_hidden):
                raise ValueError(f"hidden has shape {hidden.shape}")
            batch.hidden = ffi.from_buffer("float[]", hidden)
        positions = ffi.new("size_t[]", list(marks))
        batch.marks = positions
        batch.n_marks = len(marks)
        batch.snapshots = snapshots
        _check(lib.qw_session_eval(self._handle, batch))
        return logits, [Snapshot(self._model, handle) for handle in snapshots]

    def save(self) -> Snapshot:
        """A snapshot of now."""
        out = ffi.new("qw_snapshot **")
        _check(lib.qw_session_save(self._handle, out))
        return Snapshot(self._model, out[0])

    def load(self, snapshot: Snapshot) -> None:
        """Become what the snapshot was."""
        _check(lib.qw_session_load(self._handle, snapshot._handle))

    def reset(self) -> None:
        """Position 0, as new."""
        lib.qw_session_reset(self._handle)

    @property
    def counters(self) -> Counters:
        """What was evaluated since the session was created."""
        out = ffi.new("qw_counters *")
        lib.qw_session_counters(self._handle, out)
        return Counters(out.prefill_tokens, out.decode_tokens, out.gemm_rows, out.gemv_rows)


def top_logits(logits: Floats, n: int) -> tuple[Ids, Floats]:
    """The n largest logits: ids and values, best first, ties to the lower id.

    NumericFault when one is NaN or +inf, or all are -inf.
    """
    ids: Ids = np.empty(n, np.int32)
    values: Floats = np.empty(n, np.float32)
    found = lib.qw_top_logits(
        ffi.from_buffer("float[]", logits),
        len(logits),
        n,
        ffi.from_buffer("int32_t[]", ids),
        ffi.from_buffer("float[]", values),
    )
    if found == 0:
        raise NumericFault("the logits are not finite numbers")
    return ids[:found], values[:found]


def dequantize(type_: int, blocks: npt.NDArray[np.uint8], n: int) -> Floats:
    """n values of quantized blocks, by the reference decoder."""
    out: Floats = np.empty(n, np.float32)
    _check(lib.qw_dequantize(type_, ffi.from_buffer(blocks), n, ffi.from_buffer("float[]", out)))
    return out
