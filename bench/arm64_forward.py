"""Instructions per token of a whole forward pass of Qwen3.5-0.8B on arm64, counted on two layers of each kind.

The driver's model has the real sizes and types.  Its recurrent layers count for 18 and its attention layers for 6;
lm_head is counted as one GEMV for each row of logits.  Every layer does all rows, where the engine itself skips
most of the last layer's in a prompt, 2 or 3 % of the whole.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import functions
from arm64_count import GCC, ROOT, build, build_driver, count, run

BASELINE = ROOT / "bench" / "baseline.json"
TOLERANCE = 0.03
N_RECURRENT, N_ATTENTION = 18, 6
HEAD_WEIGHTS = 248320 * 1024
# A tiny vocabulary's rows and head are once a model, not once a layer: what the driver does of them is left out.
NOT_OF_LAYERS = "dequantize_"


@dataclass(frozen=True)
class Case:
    """What is counted; in decode each token has logits, of a prompt only the last."""

    isa: str
    phase: str
    n_tokens: int

    @property
    def name(self) -> str:
        return f"{self.isa} {self.phase} {self.n_tokens}"


GATED = (Case("i8mm", "prefill", 64), Case("dotprod", "prefill", 64), Case("dotprod", "decode", 4))


@dataclass(frozen=True)
class Drivers:
    forward: Path
    gemm: Path


def build_drivers() -> Drivers:
    library = build(GCC, "gcc", "libqwarm.a")
    return Drivers(build_driver("forward_driver", library), build_driver("gemm_driver", library))


def millions_per_token(case: Case, drivers: Drivers) -> dict[str, float]:
    """By group of functions."""
    total: Counter[str] = Counter()
    for letter, n_layers, callers in (
        ("r", N_RECURRENT, functions.LAYERS[:1]),
        ("a", N_ATTENTION, (*functions.LAYERS[1:2], functions.ATTENTION_UNIT)),
    ):
        executed, _ = count(drivers.forward, case.isa, case.phase, str(case.n_tokens), 2 * letter)
        for function, n in executed.items():
            of_the_head = case.phase == "prefill" and "_gemv_" in function
            if not of_the_head and not function.startswith(NOT_OF_LAYERS):
                total[functions.group_of(function, callers)] += n * n_layers // 2
    gemv, weights = count(drivers.gemm, case.isa, "Q6_K", "0")
    rows = case.n_tokens if case.phase == "decode" else 1
    total[functions.HEAD] += gemv.total() * rows * HEAD_WEIGHTS // weights
    return {group: round(total[group] / case.n_tokens / 1e6, 3) for group in functions.GROUPS if total[group]}


def compiler() -> str:
    return run(GCC, "--version").stdout.splitlines()[0]


def read_baseline() -> dict[str, dict[str, float]]:
    baseline: dict[str, dict[str, float]] = json.loads(BASELINE.read_text())["million_instructions_per_token"]
    return baseline


def write_baseline(counted: dict[str, dict[str, float]]) -> None:
    baseline = {
        "refresh": "python bench/arm64_gate.py --refresh",
        "compiler": compiler(),
        "million_instructions_per_token": counted,
    }
    BASELINE.write_text(json.dumps(baseline, indent=1) + "\n")
