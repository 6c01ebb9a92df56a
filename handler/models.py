"""The model as clients see it: the names they may call it by, and its card at /v1/models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from handler.errors import UnknownModel
from handler.loader import Engine

ANY_NAME = ("qwen3.5", "qwarm")  # a name that begins so means the model served, whatever its size


class ServedModel:
    """Configured names are the only ones; without any, the file's own name and ANY_NAME are taken."""

    def __init__(self, engine: Engine, configured: Sequence[str]) -> None:
        self.name = configured[0] if configured else engine.model_name
        self._configured = {name.lower() for name in configured}
        self._context = engine.context

    def check(self, asked: str | None) -> None:
        """Raise UnknownModel unless the name asked for means this model.  No name does."""
        if asked is None or asked.lower() in (self._configured or {self.name.lower()}):
            return
        if not self._configured and asked.lower().startswith(ANY_NAME):
            return
        raise UnknownModel(f"The model {asked[:80]!r} does not exist; {self.name!r} is served here.", "model")

    def card(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "qwarm",
            "context_length": self._context,
        }
