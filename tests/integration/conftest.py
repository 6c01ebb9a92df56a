"""Servers for the clients: the local front of the handler, over a scripted model and over a real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from handler.local import LocalServer
from tests.handler.scripted import KEY, app_with
from tests.integration.scripted_model import ScriptedModel

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Served:
    """Where a server listens, and what its model was asked if it is a scripted one."""

    url: str
    engine: ScriptedModel | None = None

    @property
    def requests(self) -> list[object]:
        assert self.engine is not None
        return [*self.engine.requests]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The key, where clients look for it by themselves; nothing is reported to anybody."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    return KEY


@pytest.fixture
def scripted() -> Iterator[Served]:
    engine = ScriptedModel()
    with LocalServer(("127.0.0.1", 0), app_with(engine, QWARM_INVOKE_MODE="RESPONSE_STREAM")) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield Served(f"http://127.0.0.1:{server.server_port}/v1", engine)
        server.shutdown()


@pytest.fixture(scope="session")
def real() -> Iterator[Served]:
    """`make serve` on a free port, with the model in the box."""
    model = REPOSITORY / "models" / "qwarm-demo.gguf"
    command = [sys.executable, "-m", "handler.local", "--model", str(model), "--port", "0"]
    environ = {**os.environ, "QWARM_API_KEY": KEY, "QWARM_LOG": "error"}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"listening on (\S+);", line):
                    break
            assert found, "the server did not start"
            yield Served(found[1])
        finally:
            process.terminate()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
