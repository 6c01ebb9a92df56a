"""A container registry in memory: what an engine needs of the distribution protocol to push and to inspect."""

from __future__ import annotations

import hashlib
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = re.compile(r"/v2/(.+)/manifests/(.+)")
BLOB = re.compile(r"/v2/.+/blobs/(sha256:[0-9a-f]{64})")
UPLOAD = re.compile(r"(/v2/.+/blobs/uploads/)([^?]*)(?:\?digest=(.+))?")


class Registry(ThreadingHTTPServer):
    """Keeps everything that is pushed to it; manifests by name and by digest."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Front)
        self.blobs: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}


@contextmanager
def running() -> Iterator[str]:
    """The address of a registry, for as long as it runs."""
    with Registry() as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{registry.server_port}"
        registry.shutdown()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self._answer(200, b"{}")
        elif found := MANIFEST.fullmatch(self.path):
            kind, data = self.server.manifests.get((found[1], found[2]), ("", b""))
            self._answer(200 if data else 404, data, ("content-type", kind), ("docker-content-digest", digest_of(data)))
        elif found := BLOB.fullmatch(self.path):
            self._answer(200 if found[1] in self.server.blobs else 404, self.server.blobs.get(found[1], b""))
        else:
            self._answer(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self._answer(202, b"", ("location", f"{self.path.partition('?')[0]}{uuid.uuid4()}"))

    def do_PATCH(self) -> None:
        found = UPLOAD.fullmatch(self.path)
        assert found
        self.server.uploads[found[2]] = self.server.uploads.get(found[2], b"") + self._body()
        self._answer(202, b"", ("location", self.path))

    def do_PUT(self) -> None:
        body = self._body()
        if found := MANIFEST.fullmatch(self.path):
            for name in (found[2], digest_of(body)):
                self.server.manifests[found[1], name] = (self.headers["content-type"], body)
            self._answer(201, b"", ("docker-content-digest", digest_of(body)))
            return
        found = UPLOAD.fullmatch(self.path)
        assert found
        data = self.server.uploads.pop(found[2], b"") + body
        self.server.blobs[digest_of(data)] = data
        self._answer(201, b"", ("docker-content-digest", digest_of(data)))

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _answer(self, status: int, body: bytes = b"", *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name http.server gives it
        """The engines say what went wrong."""
