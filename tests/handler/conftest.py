"""What several tests of the handler look at."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[dict[str, Any]]]:
    """The fields of the log records with this name so far."""
    logging.getLogger("qwarm").propagate = True
    caplog.set_level(logging.INFO, "qwarm")
    return lambda name: [vars(record)["fields"] for record in caplog.records if record.getMessage() == name]
