"""The same logits on aarch64, under qemu: the oldest CPU Lambda may give us, and one with everything."""

from __future__ import annotations

import os

import numpy as np
import pytest
from emulated import CPUS, QEMU, RUN_MODEL, emulated_logits, on_arm
from oracle_models import ALL, QUANTIZED, model_file, reference

from engine.native import Phase

EVERYTHING = bool(os.environ.get("QWARM_TEST_ARM_ALL"))

pytestmark = pytest.mark.skipif(
    not (QEMU and RUN_MODEL.exists()),
    reason="needs qemu-aarch64 and a cross compiler: make check builds build/aarch64/run_model",
)


def run(name, isa, tmp_path, **options):
    return emulated_logits(on_arm(isa), tmp_path, model_file(name), reference(name)["ids"], **options)


@pytest.mark.parametrize("isa", CPUS)
@pytest.mark.parametrize("name", ALL if EVERYTHING else ["gva4.f32", "q.q4_k_m"])
def test_exact_logits_equal_the_reference_on_arm(name, isa, tmp_path):
    logits = run(name, isa, tmp_path, exact=True)
    assert np.abs(logits - reference(name)["logits_full"]).max() < 1e-3


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("isa", CPUS)
@pytest.mark.parametrize("name", QUANTIZED if EVERYTHING else ["q.q4_k_m", "q.iq4_mix"])
def test_int8_logits_are_as_near_as_int8_can_be_on_arm(name, isa, phase, tmp_path):
    expected = reference(name)["logits_full"]
    logits = run(name, isa, tmp_path, phase=phase, split=1 if phase == Phase.DECODE else None)
    assert np.sqrt(np.mean((logits - expected) ** 2)) <= 0.13
    assert np.mean(logits.argmax(axis=1) == expected.argmax(axis=1)) >= 0.85


@pytest.mark.parametrize("isa", CPUS)
def test_blocks_and_threads_do_not_matter_on_arm(isa, tmp_path):
    whole = run("q.q5_q6", isa, tmp_path, n_threads=1)
    assert np.array_equal(run("q.q5_q6", isa, tmp_path, split=16, n_threads=3), whole)
    one_by_one = run("q.q5_q6", isa, tmp_path, phase=Phase.DECODE, split=1)
    assert np.array_equal(run("q.q5_q6", isa, tmp_path, phase=Phase.DECODE, split=7), one_by_one)
