"""The oracle models, opened once per kernel set and mode."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.model_file import ModelFile
from engine.native import Floats, Ids, Model, Phase, Session

ORACLE = Path(__file__).parent.parent / "fixtures" / "oracle"
F32 = ["eq.f32", "gva2.f32", "gva4.f32"]
HALF = ["gva2.f16bf16"]
QUANTIZED = ["q.q8_0", "q.q4_0", "q.q4_k_m", "q.q5_q6", "q.iq4_mix"]
ALL = F32 + HALF + QUANTIZED


@cache
def model_file(name: str) -> ModelFile:
    return ModelFile(ORACLE / f"{name}.gguf")


@cache
def reference(name: str) -> Any:
    return np.load(ORACLE / f"{name}.npz")


@cache
def model(name: str, isa: str | None = None, exact: bool = False, n_threads: int = 2) -> Model:
    return Model(model_file(name), n_threads=n_threads, isa=isa, exact=exact)


def logits_of(session: Session, ids: Ids, split: int | None = None, phase: Phase = Phase.PREFILL) -> Floats:
    """The logits of every id, evaluated in blocks of ``split``."""
    blocks = [ids[i : i + (split or len(ids))] for i in range(0, len(ids), split or len(ids))]
    return np.concatenate([session.eval(block, phase, n_logits=len(block))[0] for block in blocks])
