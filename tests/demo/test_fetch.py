"""`make model` against a hub on this machine: the file that was expected arrives whole, any other not at all."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "hub-venv" / "bin" / "python"
PROGRAM = """
import json, sys
from pathlib import Path
from demo.fetch import NotFetchedError, Pinned, fetch
pinned, folder = json.loads(sys.argv[1])
try:
    print(fetch(Pinned(**pinned), Path(folder)).name)
except NotFetchedError as error:
    sys.exit(str(error))
"""
DATA = os.urandom(200_000)
REVISION = "0123456789abcdef0123456789abcdef01234567"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make model installs huggingface_hub into build/hub-venv")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def hub(offered: bytes, sent: bytes, status: int = 200) -> Iterator[str]:
    """A hub with one file: ``offered`` by the headers, ``sent`` in the body."""

    class Hub(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.send_response(status if self.path == f"/some/model/resolve/{REVISION}/model.gguf" else 404)
            self.send_header("x-repo-commit", REVISION)
            self.send_header("x-linked-etag", f'"{sha256(offered)}"')
            self.send_header("x-linked-size", str(len(offered)))
            self.send_header("etag", f'"{sha256(offered)}"')
            self.send_header("content-length", str(len(sent)))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Tests have no use for an access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetch(endpoint: str, folder: Path) -> subprocess.CompletedProcess[str]:
    pinned: dict[str, Any] = {"repository": "some/model", "revision": REVISION, "name": "model.gguf"}
    pinned |= {"n_bytes": len(DATA), "sha256": sha256(DATA)}
    environ = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(folder.parent / "home")}
    command = [str(PYTHON), "-c", PROGRAM, json.dumps([pinned, str(folder)])]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_expected_file_arrives_and_is_not_fetched_again(folder: Path) -> None:
    with hub(DATA, DATA) as endpoint:
        done = fetch(endpoint, folder)
    assert (done.returncode, done.stdout) == (0, "model.gguf\n"), done.stderr
    assert (folder / "model.gguf").read_bytes() == DATA
    assert left(folder) == ["model.gguf"]
    assert fetch("http://127.0.0.1:9", folder).returncode == 0


@pytest.mark.parametrize(
    ("offered", "sent", "words"),
    [
        (DATA[:-1], DATA[:-1], "has 199999 bytes, expected 200000"),
        (DATA[::-1], DATA[::-1], "has the SHA-256"),
        (DATA, DATA[::-1], "has the SHA-256"),
        (DATA, DATA[:1000], "cannot be fetched"),
    ],
    ids=["another size", "another sum", "damaged on the way", "cut off"],
)
def test_another_file_is_refused_and_nothing_is_left(folder: Path, offered: bytes, sent: bytes, words: str) -> None:
    with hub(offered, sent) as endpoint:
        done = fetch(endpoint, folder)
    assert done.returncode == 1 and words in done.stderr
    assert left(folder) == []


def test_a_file_that_is_not_there_is_one_sentence(folder: Path) -> None:
    with hub(DATA, DATA, status=404) as endpoint:
        done = fetch(endpoint, folder)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "model.gguf cannot be fetched" in done.stderr


def test_without_a_network_one_sentence_says_so(folder: Path) -> None:
    done = fetch("http://127.0.0.1:9", folder)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no way to the hub" in done.stderr
    assert left(folder) == []
