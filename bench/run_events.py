"""Send recorded events to the function as Lambda would, and print the conversation with what the log says of it.

python bench/run_events.py --emulator build/rie/aws-lambda-rie --model MODEL events/chat_tools.json=full …

The function runs in its real runtime, awslambdaric, under AWS's runtime interface emulator.  One environment
answers all the events, so the second shows what the first left warm.  Exit status 1 if an answer is an error, or its
prompt did not start from the state named after the event's "=".
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

API_KEY = "sk-test"
RECORDS = ("prefill", "completion")
START_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 60
TIMEOUT = {"AWS_LAMBDA_FUNCTION_TIMEOUT": str(ANSWER_TIMEOUT_S)}
ROOT = Path(__file__).parents[1]


class Environment:
    """One Lambda execution environment: the emulator and the function it started, with ``settings`` besides."""

    def __init__(self, emulator: Path, model: Path, **settings: str) -> None:
        front, runtime = free_port(), free_port()
        self.url = f"http://127.0.0.1:{front}/2015-03-31/functions/function/invocations"
        self.lines: queue.Queue[str] = queue.Queue()
        given = {
            "QWARM_MODEL": str(model),
            "QWARM_API_KEY": API_KEY,
            "QWARM_SNAPSHOT_DIR": "off",  # a new environment's /tmp is empty
            **settings,
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_LAMBDA")}
        addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{front}"]
        addresses += ["--runtime-api-address", f"127.0.0.1:{runtime}"]
        self.process = subprocess.Popen(
            [emulator, *addresses, sys.executable, "-m", "handler"],
            env={**inherited, **given},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._collect, daemon=True).start()
        self._wait_until_listening(front)

    def invoke(self, event: bytes) -> Any:
        with urllib.request.urlopen(self.url, data=event, timeout=ANSWER_TIMEOUT_S) as response:
            return json.loads(response.read())

    def new_lines(self) -> Iterator[str]:
        """The log so far; a record follows its answer by no more than a moment."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self.lines.get(timeout=0.2)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip())

    def _wait_until_listening(self, port: int) -> None:
        give_up_s = time.monotonic() + START_TIMEOUT_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process.poll() is not None or time.monotonic() > give_up_s:
                raise SystemExit("the emulator did not start:\n" + "\n".join(self.new_lines()))
            time.sleep(0.05)


def free_port() -> int:
    """One that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def said(response: Any) -> list[tuple[str, str]]:
    """The answer as (kind, text), from a completion or from the chunks of a streamed one."""
    body = response["body"]
    if response["headers"].get("content-type", "").startswith("text/event-stream"):
        chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
        messages = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    else:
        completion = json.loads(body or "{}")
        if "error" in completion:
            return [("error", completion["error"]["message"])]
        if "choices" not in completion:
            return [("body", body)] if body else []
        messages = [completion["choices"][0]["message"]]
    texts = {"thought": "reasoning_content", "answer": "content"}
    lines = [(kind, "".join(message.get(name) or "" for message in messages)) for kind, name in texts.items()]
    return [(kind, text) for kind, text in lines if text] + [("call", call) for call in _calls(messages)]


def _calls(messages: list[Any]) -> list[str]:
    """Each call as name(argument=value, …)."""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for message in messages:
        for place, call in enumerate(message.get("tool_calls") or []):
            index, function = call.get("index", place), call["function"]
            names[index] = names.get(index, "") + (function.get("name") or "")
            arguments[index] = arguments.get(index, "") + function.get("arguments", "")
    return [f"{name}({_listed(arguments[index])})" for index, name in names.items()]


def _listed(arguments: str) -> str:
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments  # max_tokens may cut a call off
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def asked(event: Any) -> list[tuple[str, str]]:
    """What was said since the model last spoke, as (role, text)."""
    body = event.get("body") if isinstance(event, dict) else None
    try:
        messages = json.loads(body or "{}").get("messages", [])
    except ValueError:
        return []  # recorded as it was: bad JSON, base64
    roles = [message["role"] for message in messages]
    news = messages[len(roles) - roles[::-1].index("assistant") :] if "assistant" in roles else messages
    return [(message["role"], str(message["content"])) for message in news]


def facts(record: dict[str, Any]) -> str:
    """A log record in few words; ``prefill_path`` comes first."""
    if record["message"] == "prefill":
        computed = record["prefilled"]
        speed = f", {record['prefill_tok_s']:,.0f} tok/s" if computed else ""
        return (
            f"{record['prefill_path']}: {record['prompt_tokens']:,} tokens = {record['restored_at']:,} reused + "
            f"{computed:,} computed, {record['prefill_ms']:,.1f} ms{speed}, {record['kernel']}"
        )
    return (
        f"{record['completion_tokens']:,} tokens, {record['decode_ms']:,.1f} ms, "
        f"{record['decode_tok_s'] or 0:,.0f} tok/s, {record['finish_reason']}"
    )


def show(environment: Environment, path: Path, expected: str, raw: bool) -> bool:
    """Send one event; true if it is no error and the prompt started from the ``expected`` state, if one is named."""
    event = path.read_bytes()
    started_s = time.perf_counter()
    response = environment.invoke(event)
    elapsed_ms = (time.perf_counter() - started_s) * 1000
    lines = list(environment.new_lines())
    if not isinstance(response, dict) or "statusCode" not in response:
        print("\n".join(lines))
        raise SystemExit(f"{path}: the function failed: {json.dumps(response)}")
    print(f"\n{path}  {response['statusCode']}  {elapsed_ms:.0f} ms")
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    records = [record for record in logged if record.get("message") in RECORDS]
    shown = [(record["message"], json.dumps(record) if raw else facts(record)) for record in records]
    for kind, text in [*asked(json.loads(event)), *said(response), *shown]:
        print(f"  {kind:<10}  {text}")
    (found,) = {record["prefill_path"] for record in records if record["message"] == "prefill"} or {"none"}
    if expected and found != expected:
        print(f"{path}: the prompt started from {found}, expected {expected}", file=sys.stderr)
    return bool(response["statusCode"] < 300 and (not expected or found == expected))


def main() -> int:
    parser = argparse.ArgumentParser(description="Send recorded events to the function and print what it did.")
    parser.add_argument("events", nargs="+", metavar="EVENT[=PATH]", help="a recorded event, its expected prefill_path")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--emulator", type=Path, required=True, help="the aws-lambda-rie program")
    parser.add_argument("--records", action="store_true", help="print the log records whole")
    args = parser.parse_args()
    environment = Environment(args.emulator.absolute(), args.model.absolute(), **TIMEOUT)
    try:
        parts = [event.partition("=") for event in args.events]
        met = [show(environment, Path(event), expected, args.records) for event, _, expected in parts]
    finally:
        environment.close()
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
