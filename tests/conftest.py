"""Where the tests find their fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def oracle() -> Path:
    """Models and reference results that this project did not make: see tests/fixtures/oracle."""
    return REPOSITORY / "tests" / "fixtures" / "oracle"


@pytest.fixture(scope="session")
def released_template() -> str:
    """The chat template of the released Qwen3.5-4B: data of the model, not part of this project."""
    beside = REPOSITORY.parent / "shared" / "oracle" / "templates" / "Qwen3.5-4B.jinja"
    path = Path(os.environ.get("QWARM_TEMPLATE", beside))
    if not path.is_file():
        pytest.skip("set QWARM_TEMPLATE to the chat template of Qwen3.5-4B")
    return path.read_text(encoding="utf-8")
