"""An engine whose numbers come from aarch64 under qemu; the template, the sampler and the parser are this machine's."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from engine.engine import Engine
from engine.evaluation import Evaluation, RemainingMs
from engine.events import Prefilled, Progress
from engine.model_file import ModelFile
from engine.native import Floats, Model, Phase
from engine.prompt import Prompt
from tests.engine.emulated import CPUS, QEMU, RUN_MODEL, EmulatedSession, on_arm

PREFIX = "arm64:"
ISAS = [PREFIX + isa for isa in CPUS]


class EmulatedEvaluation(Evaluation):
    """Evaluates every prompt from its beginning, in the emulated session."""

    def __init__(self, model: Model, context: int, emulated: EmulatedSession) -> None:
        super().__init__(model, context, cache_bytes=0, never=np.zeros(0, np.int32))
        self._emulated = emulated

    def prefill(self, prompt: Prompt, remaining_ms: RemainingMs) -> Generator[Progress | Prefilled, None, Floats]:
        self._emulated.reset()
        yield from ()
        return self._last_logits(prompt.ids.tolist(), Phase.PREFILL)

    def decode(self, tokens: Sequence[int]) -> Floats:
        return self._last_logits(tokens, Phase.DECODE)

    def _last_logits(self, tokens: Sequence[int], phase: Phase) -> Floats:
        logits, _ = self._emulated.eval(np.array(tokens, np.int32), phase, n_logits=1)
        row: Floats = logits[0].copy()
        return row


def emulate(engine: Engine, file: ModelFile, model: Model, isa: str) -> Engine:
    """Have the engine evaluate on ``isa``, one of ISAS."""
    if not (QEMU and RUN_MODEL.exists()):
        sys.exit(f"{isa} needs qemu-aarch64 and {RUN_MODEL}, which make check-arm builds")
    name = isa.removeprefix(PREFIX)
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    emulated = EmulatedSession(on_arm(name), Path(folder.name), file, isa=name)
    engine.evaluation = EmulatedEvaluation(model, engine.context, emulated)
    engine.isa = isa
    return engine
