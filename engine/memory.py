"""How the function's memory is shared out: the model, one context, and what is left for snapshots.

Decided before anything big is allocated, so that what does not fit is refused in words instead of being killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import OutOfMemory

MOST_CONTEXT = 32768  # the default's ceiling; a setting may ask for more
_LEAST_CONTEXT = 512
_INTERPRETER_BYTES = 160 << 20  # Python, its libraries and the vocabulary
_USABLE = 0.95  # the rest is the kernel's and the runtime's


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a model gets."""

    context: int  # tokens
    cache_bytes: int  # for snapshots


def machine_memory(cgroup_root: Path = Path("/sys/fs/cgroup"), meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes this process may use: the cgroup's limit or what the machine has available, whichever is less."""
    fields = (line.split() for line in meminfo.read_text().splitlines())
    available = next(int(field[1]) * 1024 for field in fields if field[0] == "MemAvailable:")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (cgroup_root / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            available = min(available, int(text))
    return available


def plan_memory(
    *,
    memory_bytes: int,
    file_bytes: int,
    workspace_bytes: int,
    state_bytes: int,
    kv_token_bytes: int,
    trained_context: int,
    context: int | None,
    cache_bytes: int | None,
) -> MemoryPlan:
    """Share memory out.  OutOfMemory when the model and a small context, or the context asked for, do not fit."""
    fixed = file_bytes + workspace_bytes + state_bytes + _INTERPRETER_BYTES
    usable = int(memory_bytes * _USABLE)
    wanted = context if context is not None else _LEAST_CONTEXT
    needed = fixed + wanted * kv_token_bytes
    if needed > usable:
        raise OutOfMemory(
            f"the model with a context of {wanted} tokens needs {_mib(needed)}, "
            f"{_mib(usable)} of {_mib(memory_bytes)} are usable"
        )
    if context is None:
        fits = (usable - fixed) // 2 // max(1, kv_token_bytes)
        context = max(_LEAST_CONTEXT, min(trained_context, MOST_CONTEXT, fits))
    left = max(0, usable - fixed - context * kv_token_bytes)
    return MemoryPlan(context, min(cache_bytes, left) if cache_bytes is not None else left)


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 20):,.0f} MiB"
