"""Memory is shared out before it is taken, and what does not fit is refused with both sizes."""

from __future__ import annotations

import pytest

from engine.errors import OutOfMemory
from engine.memory import MOST_CONTEXT, machine_memory, plan_memory

MIB = 1 << 20
SIZES = {
    "file_bytes": 530 * MIB,
    "workspace_bytes": 60 * MIB,
    "state_bytes": 20 * MIB,
    "kv_token_bytes": 12288,
    "trained_context": 262144,
}


def plan(memory_mib, context=None, cache_bytes=None):
    return plan_memory(memory_bytes=memory_mib * MIB, context=context, cache_bytes=cache_bytes, **SIZES)


def used(result):
    return sum(SIZES[key] for key in ("file_bytes", "workspace_bytes", "state_bytes")) + result.context * 12288


@pytest.mark.parametrize("memory_mib", [1024, 1769, 2048, 3008, 10240])
def test_context_and_snapshots_fit_the_memory(memory_mib):
    result = plan(memory_mib)
    assert 512 <= result.context <= MOST_CONTEXT
    assert used(result) + result.cache_bytes <= memory_mib * MIB


def test_a73_the_trained_length_is_never_the_default():
    assert plan(10240).context == MOST_CONTEXT
    assert plan(1024).context < MOST_CONTEXT


def test_a_context_that_is_asked_for_is_given_or_refused():
    assert plan(10240, context=100_000).context == 100_000
    with pytest.raises(OutOfMemory, match=r"a context of 200000 tokens needs [\d,]+ MiB, [\d,]+ MiB of 2,048 MiB are"):
        plan(2048, context=200_000)


def test_a74_a_model_larger_than_the_memory_is_refused():
    with pytest.raises(OutOfMemory, match="of 512 MiB are usable"):
        plan(512)


def test_a_budget_for_snapshots_is_never_more_than_what_is_left():
    assert plan(10240, cache_bytes=100 * MIB).cache_bytes == 100 * MIB
    assert plan(1024, cache_bytes=9999 * MIB).cache_bytes < 400 * MIB


def test_the_cgroups_limit_counts_when_it_is_less_than_what_is_free(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    assert machine_memory(tmp_path, meminfo) == 8000000 * 1024
    (tmp_path / "memory.max").write_text("1000000\n")
    assert machine_memory(tmp_path, meminfo) == 1000000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory(tmp_path, meminfo) == 8000000 * 1024
