"""The container's entry: `python -m handler`."""

from __future__ import annotations

import faulthandler
import os

from engine.errors import EngineError
from handler import app
from handler.errors import ModelLoading
from handler.heap import set_up_heap
from handler.runtime import serve

INIT_WAIT_MS = 8000  # Lambda cuts an init phase off at 10 s and begins it again
PROVISIONED_WAIT_S = 60


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
    faulthandler.enable()  # a crash below Python says which functions were running, and nothing of their values
    set_up_heap()
    serve(init, "handler.app.handler", app.idle)
