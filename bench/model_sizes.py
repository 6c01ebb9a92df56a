"""Which sizes fit which memory: the table of docs/models.md, from files that have every tensor's place and no bytes.

python bench/model_sizes.py

The files are sparse, so they take no room on the disk, and the plan is the one that `python -m engine inspect` prints.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import synth_vocab
from engine.errors import OutOfMemory
from engine.memory import plan_memory
from engine.model_file import ModelFile
from engine.native import Model
from make_synth import add_keys, add_tokenizer
from synth_weights import SHAPES, Shape, Weights, add_tensors

SIZES = {
    **{name: SHAPES[name] for name in ("0.8b", "2b", "4b", "9b")},
    "27b": Shape(5120, 64, 24, 4, 17408, 16, 48, tied=False),
}
KINDS = ("q4_k_m", "q8_0")
CONTEXTS = (8192, 32768)
MEMORIES_MB = (3008, 10240)  # what a new account may use, and the most there is
STEP_MB = 64


class Places(Weights):
    """Tensors with a name, a shape and a type, and nothing in them."""

    def matrix(self, name: str, n_out: int, n_in: int, gain: float = 1.0) -> None:  # noqa: ARG002
        kind = self.matrix_type(name)
        per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        n_bytes = n_out * n_in // per_block * block_bytes
        self.writer.add_tensor_info(name, [n_out, n_in], np.dtype(np.float32), n_bytes, raw_dtype=kind)

    def vector(self, name: str, values: np.ndarray) -> None:
        self.writer.add_tensor_info(name, values.shape, np.dtype(np.float32), values.size * 4, raw_dtype=Type.F32)


@dataclass(frozen=True)
class Needs:
    """What a model asks of memory, in bytes."""

    file: int
    workspace: int
    state: int
    kv_token: int

    def context_in(self, memory_mb: int, context: int | None = None) -> int | None:
        """The context that this memory gives, or None if it, or the one asked for, does not fit."""
        try:
            return plan_memory(
                memory_bytes=memory_mb << 20,
                file_bytes=self.file,
                workspace_bytes=self.workspace,
                state_bytes=self.state,
                kv_token_bytes=self.kv_token,
                trained_context=262144,
                context=context,
                cache_bytes=None,
            ).context
        except OutOfMemory:
            return None

    def least_mb(self, context: int) -> int:
        return next(mb for mb in range(STEP_MB, 1 << 20, STEP_MB) if self.context_in(mb, context))


def needs(path: Path, shape: Shape, kind: str) -> Needs:
    writer = gguf.GGUFWriter(path, "qwen35")
    add_keys(writer, shape, kind, mtp=False)
    add_tokenizer(writer, synth_vocab.load(shape.n_vocab))
    add_tensors(Places(writer, shape, kind, seed=0), mtp=False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    sizes = [info.nbytes for tensors in writer.tensors for info in tensors.values()]
    with path.open("r+b") as file:
        start = math.ceil(file.seek(0, 2) / writer.data_alignment) * writer.data_alignment
        file.truncate(start + sum(writer.ggml_pad(size, writer.data_alignment) for size in sizes))
    with ModelFile(str(path)) as model_file:
        model = Model(model_file, n_threads=6)
        found = Needs(model_file.size, model.workspace_bytes, model.state_bytes, model.kv_token_bytes)
        del model
    return found


def row(name: str, kind: str, n: Needs) -> str:
    least = [f"{n.least_mb(context):,}" for context in CONTEXTS]
    contexts = [n.context_in(memory) for memory in MEMORIES_MB]
    given = [f"{context:,}" if context else "no" for context in contexts]
    state = f"{n.workspace / 2**20:,.0f} | {n.state / 2**20:.0f} | {n.kv_token // 1024}"
    return " | ".join(
        ["", f"{name.upper()} {kind.upper()}", f"{n.file / 2**20:,.0f}", state, *least, *given, ""]
    ).strip()


def main() -> None:
    heads = ["model", "file", "workspace", "state", "KiB/token"]
    heads += [f"least for {context:,}" for context in CONTEXTS] + [f"context in {mb:,}" for mb in MEMORIES_MB]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SIZES.items():
            for kind in KINDS:
                print(row(name, kind, needs(Path(folder) / f"{name}-{kind}.gguf", shape, kind)))


if __name__ == "__main__":
    main()
