"""The container's entry: `python -m handler`."""

from __future__ import annotations

from engine.errors import EngineError
from handler import app
from handler.errors import ModelLoading
from handler.runtime import serve

INIT_WAIT_MS = 8000  # Lambda cuts an init phase off at 10 s and begins it again


def init() -> None:
    """The init phase: the model, if it loads in time; a failure is the answer of the requests that come."""
    try:
        app.init().loader.engine(INIT_WAIT_MS)
    except (ModelLoading, EngineError):
        return


if __name__ == "__main__":
    serve(init, "handler.app.handler", app.idle)
