"""Send recorded events to the function as Lambda would, and print what came back: text, log records, time.

python bench/run_events.py --emulator build/rie/aws-lambda-rie --model MODEL events/chat_tools.json …

The function runs in its real runtime, awslambdaric, under AWS's runtime interface emulator.  One environment
answers all the events, so the second shows what the first left warm.
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


class Environment:
    """One Lambda execution environment: the emulator and the function it started."""

    def __init__(self, emulator: Path, model: Path) -> None:
        front, runtime = _free_port(), _free_port()
        self.url = f"http://127.0.0.1:{front}/2015-03-31/functions/function/invocations"
        self.lines: queue.Queue[str] = queue.Queue()
        settings = {
            "QWARM_MODEL": str(model),
            "QWARM_API_KEY": API_KEY,
            "QWARM_SNAPSHOT_DIR": "off",  # a new environment's /tmp is empty
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(ANSWER_TIMEOUT_S),
        }
        addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{front}"]
        addresses += ["--runtime-api-address", f"127.0.0.1:{runtime}"]
        self.process = subprocess.Popen(
            [emulator, *addresses, sys.executable, "-m", "handler"],
            env={**os.environ, **settings},
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answer_text(response: Any) -> str:
    """What the model said, from a completion or from the chunks of a streamed one."""
    body = response["body"]
    if not response["headers"]["content-type"].startswith("text/event-stream"):
        body = json.loads(body)
        if "error" in body:
            return f"error: {body['error']['message']}"
        return _message_text(body["choices"][0]["message"])
    chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
    return "".join(_message_text(choice["delta"]) for chunk in chunks for choice in chunk["choices"])


def _message_text(message: dict[str, Any]) -> str:
    functions = [call["function"] for call in message.get("tool_calls") or []]
    calls = [f"{function.get('name') or ''}{function.get('arguments', '')}" for function in functions]
    return "".join([message.get("reasoning_content") or "", message.get("content") or "", *calls])


def show(environment: Environment, path: Path) -> bool:
    """Send one event; true if it was answered with status 200."""
    started_s = time.perf_counter()
    response = environment.invoke(path.read_bytes())
    elapsed_ms = (time.perf_counter() - started_s) * 1000
    lines = list(environment.new_lines())
    if not isinstance(response, dict) or "statusCode" not in response:
        print("\n".join(lines))
        raise SystemExit(f"{path}: the function failed: {json.dumps(response)}")
    print(f"\n{path}  {response['statusCode']}  {elapsed_ms:.0f} ms")
    print(f"  answer  {answer_text(response)!r}")
    for line in lines:
        record = json.loads(line) if line.startswith("{") else {}
        if record.get("message") in RECORDS:
            fields = {name: value for name, value in record.items() if name not in ("timestamp", "level", "message")}
            print(f"  {record['message']}  " + " ".join(f"{name}={value}" for name, value in fields.items()))
    return bool(response["statusCode"] == 200)


def main() -> int:
    parser = argparse.ArgumentParser(description="Send recorded events to the function and print what it did.")
    parser.add_argument("events", nargs="+", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--emulator", type=Path, required=True, help="the aws-lambda-rie program")
    args = parser.parse_args()
    environment = Environment(args.emulator, args.model)
    try:
        answered = [show(environment, path) for path in args.events]
    finally:
        environment.close()
    return 0 if all(answered) else 1


if __name__ == "__main__":
    sys.exit(main())
