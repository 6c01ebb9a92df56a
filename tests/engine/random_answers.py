"""Answers of a model with random weights: nothing but the grammar gives them their form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.events import Event, Finished, Reasoning, Text, ToolArguments, ToolCall
from engine.request import ChatRequest, Sampling
from make_synth import SHAPES, write_model

HI = ({"role": "user", "content": "Hi"},)


@dataclass
class Said:
    """One answer, put together."""

    end: Finished
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)


def random_engine(directory: Path) -> Engine:
    path = directory / "random.gguf"
    write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return Engine.load(str(path), context=4096, threads=1, memory_bytes=4 << 30)


def ask(seed: int = 0, max_tokens: int = 3000, temperature: float = 1, **options: Any) -> ChatRequest:
    sampling = Sampling(temperature=temperature, seed=seed, logit_bias=options.pop("logit_bias", {}))
    return ChatRequest(HI, sampling=sampling, max_tokens=max_tokens, **{"thinking": False, **options})


def answer(engine: Engine, request: ChatRequest) -> Said:
    return put_together(list(engine.chat(request, lambda: 1e9)))


def put_together(events: list[Event]) -> Said:
    end = events[-1]
    assert isinstance(end, Finished)
    said = Said(end)
    names, pieces = [], []
    for event in events:
        match event:
            case Text(text):
                said.text += text
            case Reasoning(text):
                said.reasoning += text
            case ToolCall(name=name):
                names.append(name)
                pieces.append("")
            case ToolArguments(index, piece):
                pieces[index] += piece
    said.calls = [(name, json.loads(arguments)) for name, arguments in zip(names, pieces, strict=True)]
    return said
