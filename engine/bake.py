"""``python -m engine bake``: base snapshots made when an image is built, so that no environment starts from nothing.

The state is computed by the engine itself, with the marks it has in a request, so a function that starts from it says
what it would have said without it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.cache_entry import Kind
from engine.commands import add_model_arguments
from engine.engine import Engine
from engine.events import Prefilled, Progress
from engine.prompt import Prompt
from engine.recorded import read_recorded, read_tools
from engine.request import ChatRequest
from engine.snapshot_file import snapshot_name
from engine.snapshots import SnapshotPlaces

if TYPE_CHECKING:
    from engine.commands import Subcommands

_ANY_SIZE = 1 << 62
_ANY_USER = {"role": "user", "content": "Hello"}


def add_bake(subcommands: Subcommands) -> None:
    """The ``bake`` command."""
    parser = subcommands.add_parser("bake", help="compute the state after a system text and tools, for an image")
    add_model_arguments(parser)
    parser.add_argument("--system", metavar="FILE", help="the system text; one newline at its end is left out")
    parser.add_argument("--tools", metavar="FILE", help="the JSON list a request has under tools")
    parser.add_argument("--request", metavar="FILE", help="take both from a recorded event or request body instead")
    parser.add_argument("--thinking", choices=("on", "off"), help="default: the request's, or the template's own")
    parser.add_argument("--context", type=int, help="tokens; default: what the memory allows")
    parser.add_argument("--out", metavar="DIR", required=True, help="where the snapshot files go")
    parser.set_defaults(run=run_bake)


def run_bake(arguments: argparse.Namespace) -> None:
    """Evaluate the system block and write its snapshots."""
    request = _request(arguments)
    reasons: list[str] = []

    def note(_event: str, facts: Mapping[str, object]) -> None:
        if "reason" in facts:
            reasons.append(str(facts["reason"]))

    Path(arguments.out).mkdir(parents=True, exist_ok=True)
    engine = Engine.load(
        arguments.model,
        context=arguments.context,
        threads=arguments.threads,
        isa=arguments.isa,
        splice=False,
        places=SnapshotPlaces(directory=arguments.out, max_bytes=_ANY_SIZE),
        note=note,
    )
    prompt = base_prompt(engine, request)
    for event in engine.evaluation.prefill(prompt, lambda: math.inf):
        if isinstance(event, Progress):
            sys.stderr.write(f"{event.done_tokens} of {event.total_tokens} tokens\n")
        elif isinstance(event, Prefilled):
            sys.stderr.write(f"{event.prompt_tokens} tokens in {event.prefill_ms / 1e3:.1f} s, {event.kernel}\n")
    engine.idle(math.inf)
    for position in sorted(prompt.marks):
        file = Path(arguments.out) / snapshot_name(engine.fingerprint, prompt.ids[:position])
        if not file.exists():
            raise OSError(f"{file} was not written: {'; '.join(reasons) or 'there is no memory for it'}")
        print(f"{position:>6} tokens  {file.stat().st_size / 1e6:,.1f} MB  {file}")


def base_prompt(engine: Engine, request: ChatRequest) -> Prompt:
    """The system block of a request, marked as in any prompt that begins with it.  ValueError if there is none."""
    rendered = engine.render(request)
    if rendered.base_end == 0:
        raise ValueError("there is no system text and no tools in it: there is nothing to bake")
    if rendered.base_end is None:
        raise ValueError(
            "the chat template has no place after the system block where the state can be kept: "
            "what it writes there is not the same for every conversation"
        )
    marks = {position: Kind.BASE for position in (rendered.tools_end, rendered.base_end) if position}
    return Prompt(np.array(rendered.ids[: rendered.base_end], np.int32), marks)


def _request(arguments: argparse.Namespace) -> ChatRequest:
    if arguments.request and (arguments.system or arguments.tools):
        raise ValueError("--request has the system text and the tools: leave out --system and --tools")
    if not (arguments.request or arguments.system or arguments.tools):
        raise ValueError("there is nothing to bake: expected --system, --tools or --request")
    recorded = read_recorded(arguments.request) if arguments.request else ChatRequest(())
    leading = []
    for message in recorded.messages:
        if message["role"] not in ("system", "developer"):
            break
        leading.append(message)
    if arguments.system:
        text = Path(arguments.system).read_text(encoding="utf-8").removesuffix("\n")
        leading = [{"role": "system", "content": text}]
    thinking = recorded.thinking if arguments.thinking is None else arguments.thinking == "on"
    return ChatRequest(
        messages=(*leading, _ANY_USER),
        tools=read_tools(arguments.tools) if arguments.tools else recorded.tools,
        thinking=thinking,
        template_kwargs=recorded.template_kwargs,
    )
