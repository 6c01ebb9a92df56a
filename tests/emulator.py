"""Lambda as the function sees it: the Runtime API behind a function URL, on this machine.

It understands the streaming protocol of a custom runtime and passes every piece of an answer on as it
arrives, which the official emulator does not.  One function process; requests to the URL wait in a queue.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

HTTP_CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"
PRELUDE_END = b"\0" * 8
MAX_BUFFERED_BYTES = 6_291_556


@dataclass
class Invocation:
    """One event and the function's answer to it, which arrives piece by piece."""

    event: Any
    timeout_ms: int
    pieces_taken: int | None = None  # after so many the connection is closed; None: the whole answer is taken
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    content_type: str = ""
    streamed: bool = False
    failed: bool = False
    trailers: dict[str, str] = field(default_factory=dict)
    pieces: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)
    begun: threading.Event = field(default_factory=threading.Event)

    def body(self) -> bytes:
        return b"".join(iter(self.pieces.get, None))


class Lambda:
    """Starts the function and answers for it; a context manager."""

    def __init__(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout_ms: int = 60_000) -> None:
        self.timeout_ms = timeout_ms
        self.waiting: queue.SimpleQueue[Invocation] = queue.SimpleQueue()
        self.running: dict[str, Invocation] = {}
        self.init_error: dict[str, Any] | None = None
        self._servers = [_Server(front, self) for front in (_RuntimeApi, _FunctionUrl)]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._servers[1].server_port}"
        given = {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._servers[0].server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": "qwarm",
        }
        self._files = ExitStack()
        self._stdout = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._stderr = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self.process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env={**os.environ, **given, **environ},
            stdout=self._stdout,
            stderr=self._stderr,
        )

    def __enter__(self) -> Lambda:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._files.close()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def stdout(self) -> str:
        return _written(self._stdout)

    def stderr(self) -> str:
        return _written(self._stderr)

    def invoke(self, event: Any, timeout_ms: int | None = None, pieces_taken: int | None = None) -> Invocation:
        """Hand the function an event; returns when its answer begins."""
        invocation = Invocation(event, timeout_ms or self.timeout_ms, pieces_taken)
        self.waiting.put(invocation)
        while not invocation.begun.wait(0.1):
            if self.process.poll() is not None:
                raise ChildProcessError(f"the function exited with {self.process.returncode}: {self.stderr()[-500:]}")
        return invocation


def _written(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), 1 << 24, 0).decode()  # the function writes on: its offset stays


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, front: type[BaseHTTPRequestHandler], function: Lambda) -> None:
        super().__init__(("127.0.0.1", 0), front)
        self.function = function


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests have no use for an access log."""

    def respond(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _RuntimeApi(_Front):
    """What the function's runtime talks to."""

    def do_GET(self) -> None:  # /2018-06-01/runtime/invocation/next
        invocation = self.server.function.waiting.get()
        self.server.function.running[invocation.id] = invocation
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.id,
            "Lambda-Runtime-Deadline-Ms": str(int(time.time() * 1000) + invocation.timeout_ms),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:qwarm",
            "Lambda-Runtime-Invocation-Id": f"attempt-{invocation.id}",
            "Content-Type": "application/json",
        }
        self.respond(200, json.dumps(invocation.event).encode(), headers)

    def do_POST(self) -> None:
        if self.path.endswith("/runtime/init/error"):
            self.server.function.init_error = json.loads(self.rfile.read(self._length()))
            self.respond(202, b'{"status":"OK"}')
            return
        invocation = self.server.function.running.pop(self.path.split("/")[4])
        invocation.content_type = self.headers.get("content-type", "")
        invocation.streamed = self.headers.get("lambda-runtime-function-response-mode") == "streaming"
        invocation.failed = self.path.endswith("/error")
        status = self._receive(invocation)
        invocation.pieces.put(None)
        invocation.begun.set()
        self.respond(status, b'{"status":"OK"}')

    def _receive(self, invocation: Invocation) -> int:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            if self._length() > MAX_BUFFERED_BYTES:
                self.close_connection = True
                invocation.failed = True
                return 413
            invocation.pieces.put(self.rfile.read(self._length()))
            return 202
        n_taken = 0
        while size := int(self.rfile.readline().split(b";")[0], 16):
            invocation.pieces.put(self.rfile.read(size))
            invocation.begun.set()
            self.rfile.readline()
            n_taken += 1
            if n_taken == invocation.pieces_taken:
                self.close_connection = True
                return 500
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(":")
            invocation.trailers[name.lower()] = value.strip()
        return 202

    def _length(self) -> int:
        return int(self.headers.get("content-length", 0))


class _FunctionUrl(_Front):
    """What the function's clients talk to; both invoke modes, as the function's answer tells them apart."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        invocation = self.server.function.invoke(_event(self.command, self.path, self.headers, body))
        if invocation.failed:
            self.respond(502, b"Internal Server Error")
        elif invocation.streamed:
            self._stream(invocation)
        else:
            answer = json.loads(invocation.body())
            self.respond(answer["statusCode"], answer["body"].encode(), answer["headers"])

    do_GET = do_POST = do_OPTIONS = do_PUT = _serve  # noqa: N815

    def _stream(self, invocation: Invocation) -> None:
        pieces = iter(invocation.pieces.get, None)
        start = b""
        while PRELUDE_END not in start:
            start += next(pieces)
        prelude, _, rest = start.partition(PRELUDE_END)
        answer = json.loads(prelude)
        self.send_response(answer["statusCode"])
        for name, value in answer["headers"].items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._chunk(rest)
        for piece in pieces:
            self._chunk(piece)
        if "lambda-runtime-function-error-type" in invocation.trailers:
            self.close_connection = True  # cut off, as Lambda does: no last chunk
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, piece: bytes) -> None:
        if piece:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))


def _event(method: str, target: str, headers: Any, body: bytes) -> dict[str, Any]:
    path, _, query = target.partition("?")
    lower = {name.lower(): value for name, value in headers.items()}
    is_text = lower.get("content-type", "").split(";")[0] in ("application/json", "text/plain")
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": lower,
        "requestContext": {
            "requestId": str(uuid.uuid4()),
            "stage": "$default",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"},
        },
        "isBase64Encoded": bool(body) and not is_text,
    }
    if body:
        event["body"] = body.decode() if is_text else base64.b64encode(body).decode()
    return event
