"""Every kernel set says what the golden transcripts say, and as clearly.

Two things are compared at each step, teacher-forced (see transcripts.py): the token, where the golden margin is clear,
and the margin itself.  On the int8 path of every set, margins are off by 0.06 rms in a prefilled answer and by 0.04 in
a decoded one; the logits' standard deviation is 2.2.  A margin is clear from eight times 0.06 on, which rounding does
not reach in hundreds of steps.  A fault that leaves every token in place still shows in the rms.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from engine.model_file import ModelFile
from engine.native import Model, Phase, Session, isas
from engine.tokenizer import Tokenizer
from tests.engine.emulated import CPUS, QEMU, RUN_MODEL, EmulatedSession, on_arm
from tests.golden.transcripts import CONTEXT, MODEL, Timeline, Transcript, prompt_of, read, replay

RMS = {Phase.PREFILL: 0.06, Phase.DECODE: 0.042}
CLEAR = 8 * RMS[Phase.PREFILL]
GOLDEN = read()
TRANSCRIPTS = [transcript for _, transcript in GOLDEN]
FEW = [transcript for transcript in TRANSCRIPTS if transcript.name in ("json", "sum", "thinking_call")]
ON_ARM = TRANSCRIPTS if os.environ.get("QWARM_TEST_ARM_ALL") else FEW


def errors(timeline: Timeline, phase: Phase, transcripts: list[Transcript] = TRANSCRIPTS) -> tuple[list[str], float]:
    """The clear steps that are decided otherwise, and the rms by which margins are off."""
    wrong, off = [], []
    for transcript in transcripts:
        found = replay(timeline, transcript, phase)
        steps = np.flatnonzero((found <= 0) & (transcript.margins >= CLEAR))
        wrong += [f"{transcript.name} step {step}: {transcript.margins[step]} became {found[step]}" for step in steps]
        off.append(found - transcript.margins)
    return wrong, float(np.sqrt(np.mean(np.concatenate(off) ** 2)))


def session(path: Path, isa: str | None = None, exact: bool = False) -> Session:
    return Session(Model(ModelFile(str(path)), n_threads=2, isa=isa, exact=exact), CONTEXT)


def test_most_steps_are_clear_and_the_conversations_are_of_every_kind() -> None:
    margins = np.concatenate([transcript.margins for transcript in TRANSCRIPTS])
    assert np.mean(margins >= CLEAR) >= 0.95 and len(margins) >= 300
    assert {stored["thinking"] for stored, _ in GOLDEN} == {False, True}
    answers = [stored["answer"] for stored, _ in GOLDEN]
    assert len({answer.count("<tool_call>") for answer in answers}) == 3


def test_conversations_still_have_the_golden_prompts() -> None:
    file = ModelFile(str(MODEL))
    tokenizer = Tokenizer(file)
    for stored, transcript in GOLDEN:
        assert prompt_of(stored, file, tokenizer).tolist() == transcript.prompt.tolist(), transcript.name


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("isa", isas())
def test_the_exact_path_repeats_the_golden_margins(isa: str, phase: Phase) -> None:
    wrong, rms = errors(session(MODEL, isa, exact=True), phase)
    assert not wrong and rms < 1e-3


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("isa", isas())
def test_the_int8_path_says_the_same_and_as_clearly(isa: str, phase: Phase) -> None:
    wrong, rms = errors(session(MODEL, isa), phase)
    assert not wrong and rms < 1.5 * RMS[phase]


@pytest.mark.skipif(not (QEMU and RUN_MODEL.exists()), reason="needs qemu-aarch64 and build/aarch64/run_model")
@pytest.mark.parametrize("isa", CPUS)
def test_arm_kernels_say_the_same_and_as_clearly(isa: str, tmp_path: Path) -> None:
    with EmulatedSession(on_arm(isa), tmp_path, ModelFile(str(MODEL)), isa=isa) as timeline:
        for phase in Phase:
            wrong, rms = errors(timeline, phase, ON_ARM)
            assert not wrong and rms < 1.5 * RMS[phase]


# --- what these tests must notice ---


def exchanged(path: Path, tensor: str, rows: int, first: int, second: int) -> Path:
    """A copy of the model in which two groups of ``rows`` rows of one tensor have changed places."""
    with ModelFile(str(MODEL)) as file:
        found = file.tensors[tensor]
        n_bytes = found.n_bytes // found.dims[1] * rows
        places = [found.offset + n_bytes * group for group in (first, second)]
    data = bytearray(MODEL.read_bytes())
    groups = [data[place : place + n_bytes] for place in places]
    for place, group in zip(places, reversed(groups), strict=True):
        data[place : place + n_bytes] = group
    path.write_bytes(data)
    return path


# attn_qkv of a delta layer: 2 query heads, 2 key heads, then 4 value heads, of 64 rows each.
HEADS = {
    "value heads of a delta layer in another order": ("blk.0.attn_qkv.weight", 64, 5, 6),
    "decay of another head": ("blk.3.ssm_alpha.weight", 1, 1, 2),
    "key heads of an attention layer": ("blk.2.attn_k.weight", 64, 0, 1),
}
ROWS = {"two neighbors of a feed-forward": ("blk.4.ffn_up.weight", 1, 10, 11)}


@pytest.mark.parametrize("fault", HEADS)
def test_heads_in_another_order_are_noticed_on_the_int8_path(fault: str, tmp_path: Path) -> None:
    _, rms = errors(session(exchanged(tmp_path / "faulty.gguf", *HEADS[fault])), Phase.DECODE)
    assert rms > 2 * RMS[Phase.DECODE]


@pytest.mark.parametrize("fault", [*HEADS, *ROWS])
def test_any_other_order_is_noticed_on_the_exact_path(fault: str, tmp_path: Path) -> None:
    path = exchanged(tmp_path / "faulty.gguf", *(HEADS | ROWS)[fault])
    _, rms = errors(session(path, exact=True), Phase.PREFILL)
    assert rms > 10e-3
