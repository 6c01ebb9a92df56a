"""Engines with stored base snapshots, in this process and in new ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.events import Finished, Prefilled, Reasoning, Text
from engine.request import ChatRequest, Sampling
from engine.snapshots import SnapshotPlaces

ROOT = Path(__file__).parents[2]
TOOLS = (
    {"type": "function", "function": {"name": "level", "parameters": {"properties": {"river": {"type": "string"}}}}},
)
SYSTEM = "Answer in one short sentence."
LONG_MS = 60_000.0


@dataclass
class Notes:
    """What an engine said about its stores."""

    said: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __call__(self, event, facts):
        self.said.append((event, dict(facts)))

    def of(self, event):
        return [facts for name, facts in self.said if name == event]


def load(path, places=None, notes=None, **options) -> Engine:
    return Engine.load(
        path,
        places=places,
        note=notes or Notes(),
        **{"context": 1024, "threads": 2, "memory_bytes": 4 << 30, **options},
    )


def ask(text, system=SYSTEM, tools=TOOLS, **options) -> ChatRequest:
    messages = ({"role": "system", "content": system}, {"role": "user", "content": text})
    return ChatRequest(messages=messages, tools=tools, sampling=Sampling(temperature=0), max_tokens=6, **options)


def answer(engine, request) -> tuple[Prefilled, str]:
    events = list(engine.chat(request, lambda: 1e9))
    assert isinstance(events[-1], Finished)
    prefilled = next(event for event in events if isinstance(event, Prefilled))
    return prefilled, "".join(event.text for event in events if isinstance(event, Text | Reasoning))


def logits_of(engine, request) -> Any:
    """The logits after a prompt."""
    prefill = engine.evaluation.prefill(engine._prompter.prompt(request), lambda: 1e9)
    while True:
        try:
            next(prefill)
        except StopIteration as done:
            return done.value


def new_process(path: str, text: str, *, objects: Path | None = None, **places: str) -> dict[str, Any]:
    """What another process says to one request: its prefill, its words, what it noted.

    ``objects``: a directory whose files are in the S3 that moto plays there, under places["s3"].
    """
    given = json.dumps([path, text, places, objects and str(objects)])
    result = subprocess.run(
        [sys.executable, __file__, given],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return json.loads(result.stdout)


def play_s3(url: str, objects: Path) -> None:
    """Be S3 for the rest of this process, with these files under the url."""
    import boto3
    from moto import mock_aws

    mock_aws().start()
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    for file in objects.iterdir():
        client.put_object(Bucket=bucket, Key=f"{prefix}/{file.name}", Body=file.read_bytes())


if __name__ == "__main__":
    model, words, where, files = json.loads(sys.argv[1])
    if files:
        play_s3(where["s3"], Path(files))
    heard = Notes()
    running = load(model, SnapshotPlaces(**where), heard)
    prefill, said = answer(running, ask(words))
    running.idle(LONG_MS)
    figures = {"path": prefill.path, "restored_at": prefill.restored_at, "prefilled": prefill.prefilled}
    print(json.dumps({**figures, "prompt_tokens": prefill.prompt_tokens, "said": said, "notes": heard.said}))
