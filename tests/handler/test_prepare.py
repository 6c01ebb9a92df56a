"""What an image's build compiles is used without a look at the source, and all of it is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def python(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, env={**ENVIRON, **variables}, capture_output=True, text=True)


def test_compiled_modules_are_used_unchecked(tmp_path: Path) -> None:
    prepared = python("-m", "handler.prepare", PYTHONPYCACHEPREFIX=str(tmp_path))
    assert prepared.returncode == 0, prepared.stderr
    compiled = {path.name.split(".")[0]: path for path in tmp_path.rglob("*.pyc")}
    assert {"runtime", "engine", "tokenizer", "session", "endpoint", "local"} <= set(compiled)
    assert {path.read_bytes()[4:8] for path in compiled.values()} == {b"\1\0\0\0"}
    seen = python("-v", "-c", "import handler.app", PYTHONPYCACHEPREFIX=str(tmp_path)).stderr
    assert f"code object from '{compiled['settings']}'" in seen or f"{compiled['settings']}' matches" in seen


def test_without_a_folder_to_put_it_nothing_is_compiled() -> None:
    done = python("-m", "handler.prepare")
    assert (done.returncode, done.stdout) == (1, "")
    assert "PYTHONPYCACHEPREFIX is not set" in done.stderr
