"""The container's entry: `python -m handler`."""

from __future__ import annotations

import ctypes
import os

from engine.errors import EngineError
from handler import app
from handler.errors import ModelLoading
from handler.runtime import serve

INIT_WAIT_MS = 8000  # Lambda cuts an init phase off at 10 s and begins it again
PROVISIONED_WAIT_S = 60
_MALLOC_OPTIONS = {  # by their numbers in malloc.h
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
    for option, value in _MALLOC_OPTIONS.items():
        libc.mallopt(option, value)


def init() -> None:
    """The init phase: the model, if it loads in time; a failure is the answer of the requests that come."""
    try:
        weights = app.init().loader.engine(INIT_WAIT_MS).page_in
    except (ModelLoading, EngineError):
        return
    # An environment that is kept ready is frozen from here to its first request, with what it was reading.  The limit
    # of 10 s is not for it.
    if weights is not None and os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "provisioned-concurrency":
        weights.wait(PROVISIONED_WAIT_S)


if __name__ == "__main__":
    set_up_heap()
    serve(init, "handler.app.handler", app.idle)
