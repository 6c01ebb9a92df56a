"""The function as a local HTTP server: `python -m handler.local --model FILE`.

Every request becomes a function-URL event for the same handler, and its answer is streamed as the URL would.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine.errors import EngineError
from handler.app import App, load_engine
from handler.errors import BodyTooLarge, problem
from handler.event import Reply, error_reply
from handler.heap import set_up_heap
from handler.limits import MAX_BODY_BYTES
from handler.loader import Engine
from handler.log import set_up
from handler.settings import Settings, SettingsError, read_settings
from handler.terminal import set_up_terminal

TIMEOUT_MS = 900_000  # the longest Lambda allows
TEST_KEY = "sk-test"


@dataclass(frozen=True, slots=True)
class LocalContext:
    """The context of one invocation, with Lambda's longest timeout."""

    function_name: str | None = None
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    begun_s: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return max(0, TIMEOUT_MS - int((time.monotonic() - self.begun_s) * 1000))


class LocalServer(ThreadingHTTPServer):
    """Serves the app; `app` must stream, as its settings say."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], app: App) -> None:
        super().__init__(address, _Front)
        self.app = app


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LocalServer

    def _serve(self) -> None:
        context = LocalContext()
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True  # the body stays unread
            refusal = error_reply(problem(BodyTooLarge(f"The body is over {MAX_BODY_BYTES} bytes.")))
            refusal.headers["x-request-id"] = context.aws_request_id
            self._send(refusal)
            return
        body = self.rfile.read(int(length))
        reply = self.server.app.handle(url_event(self.command, self.path, dict(self.headers), body), context)
        try:
            self._send(reply)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has gone; the reply's close ends the work
        finally:
            reply.close()
        threading.Thread(target=self.server.app.idle, daemon=True).start()  # the next request need not wait for it

    def __getattr__(self, name: str) -> Any:
        """http.server calls do_GET, do_POST and so on; which methods there are is the handler's business."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.chunks is None:
            body = reply.body.encode()
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.close_connection = True  # unless the stream is written to its end
        for chunk in reply.chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = False

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name http.server gives it
        """Requests are in the function's own log."""


def url_event(method: str, target: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """What a function URL makes of a request whose body is text."""
    path, _, query = target.partition("?")
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {name.lower(): value for name, value in headers.items()},
        "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        "body": body.decode("utf-8", "surrogateescape"),
        "isBase64Encoded": False,
    }


def main(argv: list[str]) -> int:
    options = _options(argv)
    set_up_heap()
    try:
        settings = _settings(options)
        (set_up_terminal if sys.stderr.isatty() else set_up)(settings.log)
        app = App(settings, lambda: load_engine(settings))
        _say(f"loading {settings.model} ...")
        engine = app.loader.engine(TIMEOUT_MS)
        server = LocalServer((options.host, options.port), app)
    except (SettingsError, EngineError, OSError) as failure:
        _say(f"qwarm: {failure}")
        return 1
    _say(_greeting(engine, f"http://{options.host}:{server.server_port}", settings))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as a container's first process it would be ignored
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        _say("stopped")
    finally:
        server.server_close()
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m handler.local", description="Serve a Qwen3.5 model.")
    parser.add_argument("--model", help="the GGUF file; default: QWARM_MODEL")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--no-auth", action="store_true", help="ask callers for no key")
    parser.add_argument("--context", type=int, help="context length in tokens")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--isa", help="kernel set; default: the best one the CPU reports")
    return parser.parse_args(argv)


def _settings(options: argparse.Namespace) -> Settings:
    """The environment's settings with the command line's on top."""
    given = {
        "QWARM_MODEL": options.model,
        "QWARM_CONTEXT": options.context,
        "QWARM_THREADS": options.threads,
        "QWARM_ISA": options.isa,
        "QWARM_AUTH": "none" if options.no_auth else None,
        "QWARM_INVOKE_MODE": "RESPONSE_STREAM",
        "QWARM_PAGE": os.environ.get("QWARM_PAGE") or "1",
    }
    return read_settings({**os.environ, **{name: str(value) for name, value in given.items() if value is not None}})


def _greeting(engine: Engine, url: str, settings: Settings) -> str:
    """What to paste to try it.  A key is not shown, unless it is the one that `make serve` sets."""
    shell_key, python_key, page_key = "$QWARM_API_KEY", 'os.environ["QWARM_API_KEY"]', "with the key in QWARM_API_KEY"
    if settings.auth == "none":
        shell_key, python_key, page_key = "none", '"none"', "without a key"
    elif settings.keys == (TEST_KEY,):
        shell_key, python_key, page_key = TEST_KEY, f'"{TEST_KEY}"', f"with the key {TEST_KEY}"
    page = f"\nchat in a browser, {page_key}: {url}/\n" if settings.page else ""
    imports = "import os\n" if "os." in python_key else ""
    body = json.dumps({"messages": [{"role": "user", "content": "Hello!"}], "stream": True})
    return f"""\
{engine.model_name}, {engine.context:,} tokens of context, {engine.isa} kernels
loaded in {engine.load_ms:.0f} ms, listening on {url}/v1; Ctrl-C stops
{page}
curl -N {url}/v1/chat/completions -H "Authorization: Bearer {shell_key}" \\
  -d '{body}'

{imports}from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key={python_key})
answer = client.chat.completions.create(model="qwarm", messages=[{{"role": "user", "content": "Hello!"}}])
print(answer.choices[0].message.content)
"""


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    faulthandler.enable()  # as in __main__.py
    sys.exit(main(sys.argv[1:]))
