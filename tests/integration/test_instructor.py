"""instructor: every mode it has for a server like this one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tests.handler.scripted import KEY
from tests.integration.conftest import Served
from tests.integration.scripted_model import CITY, CITY_QUESTION

instructor: Any = pytest.importorskip("instructor")
openai: Any = pytest.importorskip("openai")


class City(BaseModel):
    """A city."""

    name: str
    population: int


def client_of(served: Served, mode: str) -> Any:
    client = openai.OpenAI(base_url=served.url, api_key=KEY, max_retries=0, timeout=60)
    return instructor.from_openai(client, mode=instructor.Mode[mode])


@pytest.mark.parametrize("mode", ["TOOLS", "JSON", "JSON_SCHEMA", "MD_JSON"])
def test_structured(scripted: Served, mode: str) -> None:
    city = client_of(scripted, mode).chat.completions.create(
        model="qwarm", response_model=City, messages=[{"role": "user", "content": CITY_QUESTION}], max_retries=0
    )
    assert isinstance(city, City) and city.model_dump() == CITY


def test_structured_in_a_stream(scripted: Served) -> None:
    partial = client_of(scripted, "TOOLS").chat.completions.create_partial(
        model="qwarm", response_model=City, messages=[{"role": "user", "content": CITY_QUESTION}]
    )
    assert list(partial)[-1].model_dump() == CITY


def test_plain(scripted: Served) -> None:
    answer = client_of(scripted, "TOOLS").chat.completions.create(
        model="qwarm", response_model=None, messages=[{"role": "user", "content": "Hi"}]
    )
    assert answer.choices[0].message.content == "Hello wörld!"
