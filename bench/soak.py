"""One warm environment answers thousands of requests, a third of them bad or broken off: does it stay as it was?

PYTHONPATH=. python bench/soak.py MODEL [--count 2000]

The function runs in its real runtime under the tests' emulated Lambda.  Memory, threads, open files and the bytes in
its temporary folder are read between requests; every whole answer must equal what a cold engine says, at temperature 0.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.native import fastest_isa
from handler.app import App, load_engine
from handler.event import Reply
from handler.settings import read_settings
from tests.emulator import PRELUDE_END, Lambda
from tests.handler.scripted import KEY, LambdaContext, chat, url_event

ROOT = Path(__file__).parents[1]
WARM_AFTER = 100  # requests, after which nothing may grow
MOST_GROWTH = 0.02
MARGIN_MS = 200
SETTLE_S = 1.0
TOOLS = json.loads(json.loads((ROOT / "events" / "chat_tools.json").read_text())["body"])["tools"]
SYSTEM = {"role": "system", "content": "You look after the bookings of a small hotel on the coast."}


@dataclass(frozen=True)
class Case:
    """One request, and how Lambda and its caller treat it."""

    name: str
    event: dict[str, Any]
    statuses: frozenset[int] = frozenset({200})
    timeout_ms: int = 60_000
    pieces_taken: int | None = None


@dataclass
class Figures:
    """What an environment takes."""

    rss_kb: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)
    tmp_bytes: list[int] = field(default_factory=list)

    def read(self, pid: int, tmp: Path) -> None:
        """Take the figures once the last answer's helpers are gone; they have SETTLE_S for it."""
        until_s = time.monotonic() + SETTLE_S
        while True:
            status = Path(f"/proc/{pid}/status").read_text().split()
            n_threads = int(status[status.index("Threads:") + 1])
            n_fds = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
            settled = self.threads and (n_threads <= self.threads[0] and n_fds <= self.fds[0])
            if settled or time.monotonic() > until_s:
                break
            time.sleep(0.02)
        self.rss_kb.append(int(status[status.index("VmRSS:") + 1]))
        self.threads.append(n_threads)
        self.fds.append(n_fds)
        self.tmp_bytes.append(sum(path.stat().st_size for path in tmp.rglob("*") if path.is_file()))

    def growth(self) -> dict[str, float]:
        """The largest value as a part more than the first."""
        return {name: max(values) / max(values[0], 1) - 1 for name, values in vars(self).items()}


def good() -> list[Case]:
    """Requests that are answered whole."""

    def case(name: str, *messages: Mapping[str, Any], **fields: Any) -> Case:
        body = chat(temperature=0, max_tokens=12, chat_template_kwargs={"enable_thinking": False}) | fields
        return Case(name, url_event(body | {"messages": [SYSTEM, *messages]}))

    def user(text: str) -> dict[str, str]:
        return {"role": "user", "content": text}

    call = {"id": "c1", "type": "function", "function": {"name": "free_rooms", "arguments": '{"nights": 2}'}}
    step: list[dict[str, Any]] = [
        user("Is a room free?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '[{"room": "12"}]'},
    ]
    turns: list[dict[str, Any]] = [
        user("Can I bring my dog?"),
        {"role": "assistant", "content": "Yes."},
        user("And a cat?"),
    ]
    forced = {"tools": TOOLS, "tool_choice": "required", "max_tokens": 40}
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    return [
        case("plain", user("Good evening")),
        case("stream", user("Good evening, and good night"), stream=True),
        case("turns", *turns),
        case("tools", *turns[:1], tools=TOOLS),
        case("tool result", *step, tools=TOOLS),
        case("forced call", user("Book a room"), **forced),
        case("forced call, stream", user("Book two rooms"), stream=True, **forced),
        case("schema", user("Is it open?"), response_format=form),
        case("thinking", user("Think"), chat_template_kwargs={"enable_thinking": True}),
        case("long", user("Tell me more. " * 300), stream=True),
        case("logprobs", user("Numbers"), logprobs=True, top_logprobs=3),
        Case("completion", url_event({"prompt": "Once", "temperature": 0, "max_tokens": 8}, "/v1/completions")),
        Case("direct", chat("Without HTTP", temperature=0, max_tokens=8)),
    ]


def bad(whole: list[Case]) -> list[Case]:
    """Requests that are refused, cut off by the deadline, or whose caller goes away."""
    stream = next(case.event for case in whole if case.name == "long")
    events: list[tuple[str, dict[str, Any], set[int]]] = [
        ("bad JSON", url_event("{"), {400}),
        ("wrong key", url_event(chat(), headers={"authorization": "Bearer wrong"}), {401}),
        ("too long", url_event(chat("word " * 9000)), {400}),
        ("without spaces", url_event(chat("界" * 400_000)), {400}),
        ("bad field", url_event(chat(temperature=9, stream=True)), {400}),
        ("bad base64", url_event("!!!") | {"isBase64Encoded": True}, {400}),
        ("not UTF-8", url_event(base64.b64encode(b"\xff").decode()) | {"isBase64Encoded": True}, {400}),
        ("unknown path", url_event(chat(), "/v1/nothing"), {404}),
        ("wrong method", url_event(method="GET"), {405}),
        ("an image", url_event(chat([{"type": "image_url", "image_url": "x"}])), {400}),
    ]
    cases = [Case(name, event, frozenset(statuses)) for name, event, statuses in events]
    cases += [Case(f"hung up after {n}", stream, pieces_taken=n) for n in (1, 2, 5)]
    for left_ms in (1, 20, 80):
        event = url_event(chat("Once upon a time " * 20, temperature=0, stream=left_ms == 80, seed=1))
        cases.append(Case(f"{left_ms} ms left", event, frozenset({200, 504}), MARGIN_MS + left_ms))
    return cases


def said(body: str) -> list[tuple[str, str]]:
    """What an answer says, whole or in pieces, without ids, times and counts."""
    streamed = body.startswith(("data: ", ":"))
    lines = [line[6:] for line in body.splitlines() if line.startswith("data: {")] if streamed else [body]
    parts: dict[str, str] = {}
    for choice in (choice for line in lines for choice in json.loads(line)["choices"]):
        message = choice.get("message") or choice.get("delta") or {"content": choice.get("text", "")}
        calls = [(call.get("index", i), call["function"]) for i, call in enumerate(message.get("tool_calls") or ())]
        pieces = {"content": message.get("content"), "reasoning": message.get("reasoning_content")}
        for i, function in calls:
            pieces |= {f"name {i}": function.get("name"), f"arguments {i}": function.get("arguments")}
        for name, piece in {**pieces, "reason": choice["finish_reason"]}.items():
            parts[name] = parts.get(name, "") + (piece or "")
    return sorted(parts.items())


def environment(model: str, folder: str) -> dict[str, str]:
    return {
        "QWARM_API_KEY": KEY,
        "QWARM_MODEL": model,
        "QWARM_ISA": fastest_isa(),  # two kernel sets round differently
        "QWARM_CONTEXT": "4096",
        "QWARM_CACHE_MB": "64",
        "QWARM_INVOKE_MODE": "RESPONSE_STREAM",
        "QWARM_DEADLINE_MARGIN_MS": str(MARGIN_MS),
        "QWARM_SNAPSHOT_DIR": f"{folder}/snapshots",
        "TMPDIR": folder,
    }


def cold_answer(model: str, case: Case) -> list[tuple[str, str]]:
    """What an engine that has answered nothing yet says."""
    settings = read_settings(environment(model, "/nowhere") | {"QWARM_SNAPSHOT_DIR": "off"})
    answer = App(settings, lambda: load_engine(settings)).handle(case.event, LambdaContext())
    return said(b"".join(answer.pieces()).decode() if isinstance(answer, Reply) else json.dumps(answer))


def ask(function: Lambda, case: Case) -> tuple[int, str]:
    """Status and body of one answer."""
    body = function.invoke(case.event, case.timeout_ms, case.pieces_taken).body()
    prelude, found, rest = body.partition(PRELUDE_END)
    return (json.loads(prelude)["statusCode"], rest.decode()) if found else (200, body.decode())


def soak(model: str, count: int, note: Callable[[str], None]) -> str:
    """The closing line; SystemExit says what went wrong."""
    whole = good()
    note(f"{len(whole)} answers of cold engines")
    cold = {case.name: cold_answer(model, case) for case in whole}
    broken = bad(whole)
    choose = random.Random(7)
    order = [*whole, *broken, *whole]
    order += [choose.choice(whole if choose.random() > 1 / 3 else broken) for _ in range(count - len(order))]
    figures, statuses = Figures(), Counter[int]()
    command = [sys.executable, "-m", "handler"]
    with tempfile.TemporaryDirectory() as tmp, Lambda(command, ROOT, environment(model, tmp)) as function:
        for number, case in enumerate(order[:count], 1):
            status, body = ask(function, case)
            statuses[status] += 1
            if status not in case.statuses:
                raise SystemExit(f"request {number}, {case.name}: status {status}, {body[:300]}")
            if case.name in cold and said(body) != cold[case.name]:
                raise SystemExit(f"request {number}, {case.name}: {said(body)}, cold {cold[case.name]}")
            if number >= WARM_AFTER and number % 10 == 0:
                figures.read(function.process.pid, Path(tmp))
            if number % 500 == 0:
                note(f"{number} requests, {figures.rss_kb[-1] >> 10} MB")
    growth = figures.growth()
    facts = ", ".join(f"{name} {vars(figures)[name][0]} {part:+.1%}" for name, part in growth.items())
    line = f"soak: {count} requests ({dict(sorted(statuses.items()))}), every whole answer as a cold engine's; {facts}"
    grown = [name for name, part in growth.items() if part > MOST_GROWTH]
    if grown:
        raise SystemExit(f"{line}: {', '.join(grown)} grew by more than {MOST_GROWTH:.0%}")
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description="Many requests, good and bad, to one environment.")
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=2000)
    args = parser.parse_args()
    logging.getLogger("qwarm").setLevel(logging.CRITICAL)
    print(soak(str(Path(args.model).resolve()), args.count, lambda text: print(text, flush=True)))


if __name__ == "__main__":
    main()
