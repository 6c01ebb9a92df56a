"""How many threads to compute with: what the scheduler really gives this process, not what the machine has.

Threads that work in step lose far more than their share when the quota stops one of them, so quotas round down.
"""

from __future__ import annotations

import math
import os
from pathlib import Path


def default_thread_count(cgroup_root: Path = Path("/sys/fs/cgroup")) -> int:
    """CPUs in the affinity mask, less if a cgroup quota is smaller; at least 1.  Missing files mean no quota."""
    count = len(os.sched_getaffinity(0))
    quota = _cgroup_quota(cgroup_root)
    return max(1, min(count, math.floor(quota)) if quota is not None else count)


def _cgroup_quota(root: Path) -> float | None:
    """CPUs the cgroup may use at once: version 2's cpu.max, else version 1's quota over period."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
        if quota != "max":
            return int(quota) / int(period)
        return None
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
        period_us = int((root / "cpu" / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None
