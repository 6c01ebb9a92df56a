"""Ask a model file the questions of held-out conversations, greedily through the engine, and count right answers.

python -m demo.evaluate models/qwarm-demo.gguf
python -m demo.evaluate --isa arm64:i8mm --against avx2 --limit 30

Names in these conversations never occurred in training.  Exit status 1 if a share is below what it should be, or, with
another kernel set to compare with, if the two do not agree.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from demo.corpus import Check, Conversation, Message, conversations
from demo.emulated import ISAS, emulate
from engine.engine import Engine
from engine.events import Reasoning, Text, ToolArguments, ToolCall
from engine.model_file import ModelFile
from engine.native import Model
from engine.request import ChatRequest, Sampling
from engine.threads import default_thread_count

CONTEXT, CACHE_BYTES, MAX_TOKENS = 2048, 64 << 20, 200
EXPECTED = {"calls": 0.95, "value": 0.95, "valid json": 0.98}
SEED = 2026


@dataclass
class Answer:
    """What the model said."""

    reasoning: str = ""
    text: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def calls(self) -> list[dict[str, Any]]:
        both = zip(self.names, self.arguments, strict=True)
        return [{"name": name, "arguments": json.loads(arguments)} for name, arguments in both]

    def meets(self, check: Check) -> bool:
        match check.kind:
            case "calls":
                return bool(self.calls() == check.expected) and not self.text.strip()
            case "value" | "sum":
                return str(check.expected) in self.text
            case "json":
                return bool(_parsed(self.text) == check.expected)
            case "text":
                return self.text == str(check.expected)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def load(path: str, isa: str | None = None, exact: bool = False) -> Engine:
    """``isa``: a kernel set of this machine, None for its best, or one of demo.emulated's."""
    file = ModelFile(path)
    native = None if isa in ISAS else isa
    model = Model(file, n_threads=default_thread_count(), isa=native, exact=exact)
    engine = Engine(file, model, context=CONTEXT, cache_bytes=CACHE_BYTES, splice=False)
    return emulate(engine, file, model, isa) if isa in ISAS else engine


def ask(engine: Engine, messages: list[Message], tools: list[dict[str, Any]], thinking: bool = False) -> Answer:
    """The greedy answer."""
    request = ChatRequest(
        tuple(messages), tuple(tools), thinking=thinking, sampling=Sampling(temperature=0), max_tokens=MAX_TOKENS
    )
    answer = Answer()
    for event in engine.chat(request, lambda: math.inf):
        match event:
            case Reasoning(text=text):
                answer.reasoning += text
            case Text(text=text):
                answer.text += text
            case ToolCall(name=name):
                answer.names.append(name)
                answer.arguments.append("")
            case ToolArguments(index=index, json=piece):
                answer.arguments[index] += piece
    return answer


def answers(engine: Engine, conversation: Conversation) -> Iterator[tuple[Check, Answer]]:
    """Each check of the last turn with what the model says there, given a right history."""
    messages = conversation.messages
    last_user = max(i for i, message in enumerate(messages) if message["role"] == "user")
    first = ask(engine, messages[: last_user + 1], conversation.tools, conversation.thinking)
    yield conversation.checks[0], first
    if conversation.checks[0].kind == "calls":
        told = ask(engine, messages[:-1], conversation.tools, conversation.thinking)
        for check in conversation.checks[1:]:
            yield check, told


def results(engine: Engine, conversation: Conversation, verbose: bool = False) -> Iterator[tuple[str, bool]]:
    """What was asked for, and whether it came."""
    for check, answer in answers(engine, conversation):
        is_right = answer.meets(check)
        if verbose and not is_right:
            print(f"{check.kind}: expected {check.expected!r} after {conversation.messages!r}\n  got {answer}\n")
        yield check.kind, is_right
        if check.kind == "json":
            yield "valid json", isinstance(_parsed(answer.text), dict)


def judged(engine: Engine, asked: list[Conversation], verbose: bool = False) -> list[list[tuple[str, bool]]]:
    """What ``results`` says of each conversation."""
    return [list(results(engine, conversation, verbose)) for conversation in asked]


def below_expected(found: list[list[tuple[str, bool]]]) -> bool:
    """Print the share of right answers of each kind; true if one is below what it should be."""
    right: dict[str, list[bool]] = {}
    for kind, is_right in chain.from_iterable(found):
        right.setdefault(kind, []).append(is_right)
    for kind, answers in sorted(right.items()):
        wanted = f", expected at least {EXPECTED[kind]:.0%}" if kind in EXPECTED else ""
        print(f"  {kind:<10} {sum(answers) / len(answers):7.1%} of {len(answers)}{wanted}")
    return any(sum(answers) < EXPECTED.get(kind, 0) * len(answers) for kind, answers in right.items())


def differ(found: list[list[tuple[str, bool]]], others: list[list[tuple[str, bool]]]) -> bool:
    """Print in how many conversations the judgments differ; true if in more than one of a hundred, and than one."""
    n_different = sum(one != other for one, other in zip(found, others, strict=True))
    print(f"{n_different} of {len(found)} conversations are judged otherwise, expected at most 1 %, or one")
    return n_different > max(1, len(found) / 100)


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate the demo model on held-out conversations.")
    parser.add_argument("model", nargs="?", default="models/qwarm-demo.gguf")
    parser.add_argument("--limit", type=int, default=300, help="conversations, default: %(default)s")
    parser.add_argument("--kind", choices=("calls", "json", "sum", "text"), help="only conversations that ask for this")
    parser.add_argument("--isa", help=f"a kernel set this CPU runs, default: its best; or {' or '.join(ISAS)}, in qemu")
    parser.add_argument("--against", metavar="ISA", help="another one, whose judgments must be the same")
    parser.add_argument("--exact", action="store_true", help="f32 activations x dequantized weights: the reference")
    parser.add_argument("--verbose", action="store_true", help="print what went wrong")
    args = parser.parse_args()
    engine = load(args.model, args.isa, args.exact)
    print(f"{args.model} on {engine.isa}{', exact' if args.exact else ''}, {args.limit} held-out conversations")
    of_kind = (c for c in conversations(SEED, held_out=True) if args.kind in (None, c.checks[0].kind))
    asked = list(islice(of_kind, args.limit))
    found = judged(engine, asked, args.verbose)
    failed = below_expected(found)
    if args.against:  # few conversations may miss a share by chance
        failed = differ(found, judged(load(args.model, args.against), asked))
    sys.exit(failed)


if __name__ == "__main__":
    main()
