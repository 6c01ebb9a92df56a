"""The number of threads follows the affinity mask and the cgroup's quota."""

from __future__ import annotations

import os

import pytest

from engine.threads import default_thread_count


@pytest.fixture
def eight_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def quota(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "765000 100000"}, 7),  # rounded down
        ({"cpu.max": "50000 100000"}, 1),  # at least one
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "9600000 100000"}, 8),  # more than the mask has
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({}, 8),
    ],
)
def test_a70_a71_threads_follow_the_quota_and_missing_files_mean_none(eight_cpus, tmp_path, files, expected):
    assert default_thread_count(quota(tmp_path, files)) == expected
