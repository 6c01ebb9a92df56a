"""Runs a model on another architecture: writes run_model's plan, starts it under qemu, reads its logits."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np

from engine.model_file import ModelFile
from engine.native import Floats, Ids, Phase, Snapshot

RUN_MODEL = Path(__file__).parents[2] / "build" / "aarch64" / "run_model"  # make check builds it
QEMU = shutil.which("qemu-aarch64")
CPUS = {"dotprod": "neoverse-n1", "i8mm": "max"}  # qemu's name of a CPU for each kernel set


def on_arm(isa: str) -> list[str]:
    """The command that starts run_model on a CPU whose best kernel set this is."""
    return [str(QEMU), "-cpu", CPUS[isa], str(RUN_MODEL)]


def write_plan(
    path: Path,
    file: ModelFile,
    ids: Ids,
    *,
    phase: Phase = Phase.PREFILL,
    split: int | None = None,
    exact: bool = False,
    n_threads: int = 1,
    every_logit: bool = True,
) -> None:
    """``split``: tokens evaluated at once, None for all; ``every_logit`` False: only the last token's are written."""
    c = file.config
    lines = [
        f"config {c.n_layers} {c.n_vocab} {c.n_hidden} {c.n_ffn} {c.n_heads} {c.n_kv_heads} {c.head_dim} "
        f"{c.rotary_dims} {c.n_key_heads} {c.n_value_heads} {c.delta_head_dim} {c.conv_kernel} "
        f"{c.rms_eps!r} {c.rope_base!r}",
        "recurrent " + " ".join(str(int(flag)) for flag in c.recurrent_layers),
        f"run {n_threads} {int(exact)} {int(phase)} {split or len(ids)} {int(every_logit)}",
    ]
    for t in file.tensors.values():
        dims = [*t.dims, 1][:2]
        lines.append(f"tensor {t.name} {t.type} {len(t.dims)} {dims[0]} {dims[1]} {t.offset} {t.n_bytes}")
    lines += [f"token {token}" for token in ids]
    path.write_text("\n".join(lines) + "\n")


def emulated_logits(
    command: list[str],
    folder: Path,
    file: ModelFile,
    ids: Ids,
    *,
    phase: Phase = Phase.PREFILL,
    split: int | None = None,
    exact: bool = False,
    isa: str | None = None,
    n_threads: int = 2,
) -> Floats:
    """Logits of every id.  ``command`` is how run_model is started."""
    plan, out = folder / "plan.txt", folder / "logits.bin"
    write_plan(plan, file, ids, phase=phase, split=split, exact=exact, n_threads=n_threads)
    arguments = [*command, file.path, str(plan), str(out), *([isa] if isa else [])]
    subprocess.run(arguments, check=True, timeout=300)
    return np.fromfile(out, np.float32).reshape(len(ids), file.config.n_vocab)


class EmulatedSession:
    """engine.native.Session in another process, without snapshots; a context manager.

    ``command`` is how run_model is started; ``folder`` is for its plan.
    """

    def __init__(self, command: list[str], folder: Path, file: ModelFile, *, isa: str, n_threads: int = 2) -> None:
        plan = folder / "plan.txt"
        write_plan(plan, file, np.zeros(0, np.int32), n_threads=n_threads)
        self._n_vocab = file.config.n_vocab
        self._process = subprocess.Popen(
            [*command, file.path, str(plan), "-", isa], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> EmulatedSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def eval(self, tokens: Ids, phase: Phase, *, n_logits: int = 0) -> tuple[Floats, list[Snapshot]]:
        """Run tokens: logits float32 [n_logits, n_vocab] of the last ones, and no snapshots."""
        self._ask(int(phase), tokens, n_logits)
        assert self._process.stdout is not None
        data = self._process.stdout.read(4 * n_logits * self._n_vocab)
        return np.frombuffer(data, np.float32).reshape(n_logits, self._n_vocab), []

    def reset(self) -> None:
        """Position 0, as new."""
        self._ask(0, np.zeros(0, np.int32), 0)

    def _ask(self, phase: int, tokens: Ids, n_logits: int) -> None:
        assert self._process.stdin is not None
        header = np.array([phase, len(tokens), n_logits], np.int32)
        self._process.stdin.write(header.tobytes() + np.ascontiguousarray(tokens, np.int32).tobytes())
        self._process.stdin.flush()


def main() -> None:
    """Run models with the run_model that the arguments start: for a build with sanitizers."""
    oracle = Path(__file__).parents[1] / "fixtures" / "oracle"
    for name in ("gva4.f32", "q.q4_k_m", "q.iq4_mix"):
        with ModelFile(oracle / f"{name}.gguf") as file, TemporaryDirectory() as folder:
            ids = np.random.default_rng(0).integers(0, file.config.n_vocab, 700).astype(np.int32)
            for phase, n_tokens, split in ((Phase.PREFILL, 700, 500), (Phase.DECODE, 60, 1)):
                options: dict[str, Any] = {"phase": phase, "split": split, "n_threads": 4}
                logits = emulated_logits(sys.argv[1:], Path(folder), file, ids[:n_tokens], **options)
                if not np.isfinite(logits).all():
                    raise SystemExit(f"{name}: logits are not finite")
                print(f"{name} {phase.name.lower()}: {n_tokens} tokens, 4 threads, nothing found")


if __name__ == "__main__":
    main()
