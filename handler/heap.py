"""How the C library keeps memory for a process that answers for days."""

from __future__ import annotations

import ctypes

_OPTIONS = {  # by their numbers in glibc's malloc.h
    -8: 1,  # M_ARENA_MAX
    -3: 1 << 20,  # M_MMAP_THRESHOLD
    -1: 4 << 20,  # M_TRIM_THRESHOLD: a row of logits may come and go without a system call
}


def set_up_heap() -> None:
    """Keep the heap from growing with the number of requests.

    Each streamed answer has a thread of its own.  glibc would give every one that meets another a heap, and each heap
    would grow to what the largest answer needs.  One thread works at a time here, so nobody waits for the lock.  And
    what is large, such as a long body and its text, gets a mapping instead of a place between what stays.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        for option, value in _OPTIONS.items():
            libc.mallopt(option, value)
