"""What fuzzing found stays found, and every allocation is refused once.  `make fuzz` is the fuzzing itself."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.errors import ModelFileError
from engine.model_file import ModelFile
from engine.tokenizer import Tokenizer
from tests.fuzz.gguf_target import ORACLE, Target, fuzz, seeds

ROOT = Path(__file__).parents[2]
DAMAGE_S = 3.0


def make(*arguments: str) -> None:
    subprocess.run(["make", "-s", f"PYTHON={sys.executable}", *arguments], cwd=ROOT, check=True, timeout=600)


def test_damaged_files_load_or_are_refused_in_words() -> None:
    target = Target()
    n_files = fuzz(target, seeds(), random.Random(2), time.monotonic() + DAMAGE_S)
    assert n_files > 100 and target.refused > target.loaded > 0


def test_a_refused_allocation_is_an_error_without_a_leak_and_the_next_try_works() -> None:
    make("BUILD=build/refuse", "build/refuse/refuse_memory")
    result = subprocess.run([ROOT / "build" / "refuse" / "refuse_memory"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "nothing leaked" in result.stdout


def test_a_merge_longer_than_every_token_is_refused(tmp_path: Path) -> None:
    merge, longer = "ĠĠĠĠ ĠĠĠ".encode(), "ĠĠĠĠ ġġġ".encode()
    data = (ORACLE / "q.q4_0.gguf").read_bytes()
    assert data.count(merge) == 1
    damaged = data.replace(merge, longer)
    path = tmp_path / "model.gguf"
    path.write_bytes(damaged)
    with ModelFile(path) as file, pytest.raises(ModelFileError, match="does not fit the tokens"):
        Tokenizer(file)
