"""A model kept in S3: fetched whole or not at all, whatever happens on the way."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from handler import model_store, s3_object
from handler.errors import ModelNotFetched, problem
from handler.model_store import local_model

MODEL = os.urandom(300_000)
SHA256 = hashlib.sha256(MODEL).hexdigest()
URI = "s3://models/tiny.gguf"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "PART_BYTES", 64_000)
    monkeypatch.setattr(s3_object, "_CHUNK_BYTES", 16_000)
    monkeypatch.setattr(s3_object, "_PAUSE_S", 0.0)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)


class TestInABucket:
    @pytest.fixture(autouse=True)
    def bucket(self) -> Iterator[None]:
        with mock_aws():
            self.s3 = boto3.client("s3")
            self.s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
            self.s3.put_object(Bucket="models", Key="tiny.gguf", Body=MODEL, ChecksumAlgorithm="SHA256")
            yield

    def test_a_model_arrives_whole_under_its_own_name(self, tmp_path: Path) -> None:
        path = Path(local_model(URI, place=tmp_path))
        assert path.name == "tiny.gguf"
        assert path.read_bytes() == MODEL
        assert list(tmp_path.rglob(".partial")) == []

    def test_it_is_fetched_once(self, tmp_path: Path) -> None:
        path = Path(local_model(URI, place=tmp_path))
        before = path.stat()
        assert Path(local_model(URI, place=tmp_path)) == path
        assert path.stat() == before

    def test_a78_two_loads_at_once_share_one_file(self, tmp_path: Path) -> None:
        paths: list[str] = []
        loads = [threading.Thread(target=lambda: paths.append(local_model(URI, place=tmp_path))) for _ in range(3)]
        for load in loads:
            load.start()
        for load in loads:
            load.join()
        assert len(paths) == 3
        assert len(set(paths)) == 1
        assert Path(paths[0]).read_bytes() == MODEL

    def test_a78_a_replaced_object_is_fetched_again_and_the_earlier_one_removed(self, tmp_path: Path) -> None:
        old = Path(local_model(URI, place=tmp_path))
        self.s3.put_object(Bucket="models", Key="tiny.gguf", Body=MODEL[::-1])
        new = Path(local_model(URI, place=tmp_path))
        assert new.read_bytes() == MODEL[::-1]
        assert not old.exists()

    def test_a78_a_file_that_is_too_short_is_not_taken_for_the_model(self, tmp_path: Path) -> None:
        path = Path(local_model(URI, place=tmp_path))
        path.write_bytes(MODEL[:-1])
        assert Path(local_model(URI, place=tmp_path)).read_bytes() == MODEL

    def test_a78_another_checksum_is_refused_and_nothing_of_it_kept(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFetched, match=f"has SHA-256 {SHA256}, expected {'0' * 64}$"):
            local_model(URI, "0" * 64, tmp_path)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / ".lock"]

    def test_the_checksum_that_s3_keeps_is_compared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(s3_object.S3Object, "read", lambda self, start, end: iter([bytes(end - start)]))
        with pytest.raises(ModelNotFetched, match=f"expected {SHA256}$"):
            local_model(URI, place=tmp_path)

    def test_a_wrong_key_is_one_sentence_and_a_503(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFetched) as caught:
            local_model("s3://models/huge.gguf", place=tmp_path)
        assert str(caught.value) == "s3://models/huge.gguf cannot be fetched: it does not exist (404)"
        assert (problem(caught.value).status, problem(caught.value).headers) == (503, {"retry-after": "3"})
        assert "models" not in problem(caught.value).message

    @pytest.mark.parametrize("uri", ["s3://", "s3://models", "s3://models/", "s3://models/folder/", "s3:///tiny.gguf"])
    def test_an_address_without_bucket_or_key_is_refused(self, uri: str, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFetched, match=r"expected s3://bucket/key$"):
            local_model(uri, place=tmp_path)

    def test_a78_a_place_that_is_too_small_is_named_before_anything_is_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = model_store.shutil.disk_usage(tmp_path)
        monkeypatch.setattr(model_store.shutil, "disk_usage", lambda place: usage._replace(free=len(MODEL) - 1))
        with pytest.raises(ModelNotFetched, match=r"tiny\.gguf has 0 MB and .* has 0 MB free: raise EphemeralStorage"):
            local_model(URI, place=tmp_path)
        assert list(tmp_path.rglob(".partial")) == []


def test_a_path_is_left_as_it_is() -> None:
    assert local_model("/opt/qwarm/model.gguf") == "/opt/qwarm/model.gguf"


class BrokenS3(BaseHTTPRequestHandler):
    """S3 as far as one object needs it, which breaks off `breaks` answers after 60 % of their bytes."""

    protocol_version = "HTTP/1.1"
    breaks = 0
    denied = False
    sent_bytes = 0

    def do_HEAD(self) -> None:
        self._head(403 if self.denied else 200, 0 if self.denied else len(MODEL))

    def do_GET(self) -> None:
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        body = MODEL[int(first) : int(last) + 1]
        self._head(206, len(body))
        cls = type(self)
        if cls.breaks:
            cls.breaks -= 1
            body = body[: len(body) * 6 // 10]
            self.close_connection = True
        cls.sent_bytes += len(body)
        self.wfile.write(body)

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("content-length", str(length))
        self.send_header("etag", '"abc"')
        self.end_headers()

    def log_message(self, *said: object) -> None:
        """Silent."""


class TestOverABadConnection:
    @pytest.fixture(autouse=True)
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.s3 = type("S3", (BrokenS3,), {})
        with ThreadingHTTPServer(("127.0.0.1", 0), self.s3) as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield
            server.shutdown()

    def test_a78_a_connection_that_drops_goes_on_from_the_byte_it_reached(self, tmp_path: Path) -> None:
        self.s3.breaks = 3
        path = local_model(URI, SHA256, tmp_path)
        assert Path(path).read_bytes() == MODEL
        assert self.s3.sent_bytes < len(MODEL) * 1.2

    def test_after_a_failure_the_next_load_fetches_only_what_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(model_store, "CONNECTIONS", 1)
        self.s3.breaks = 0
        whole = s3_object.S3Object.read

        def dies_in_the_fourth_part(source: s3_object.S3Object, start: int, end: int) -> Iterator[bytes]:
            if start >= 3 * model_store.PART_BYTES:
                raise ModelNotFetched("the network is down")
            return whole(source, start, end)

        with monkeypatch.context() as context:
            context.setattr(s3_object.S3Object, "read", dies_in_the_fourth_part)
            with pytest.raises(ModelNotFetched, match="the network is down"):
                local_model(URI, SHA256, tmp_path)
        assert [path.name for path in tmp_path.rglob("*.gguf")] == []
        sent_before = self.s3.sent_bytes
        assert Path(local_model(URI, SHA256, tmp_path)).read_bytes() == MODEL
        assert self.s3.sent_bytes - sent_before == len(MODEL) - 3 * model_store.PART_BYTES

    def test_a_connection_that_keeps_breaking_is_given_up(self, tmp_path: Path) -> None:
        self.s3.breaks = 10_000
        with pytest.raises(ModelNotFetched, match=r"cannot be fetched: "):
            local_model(URI, SHA256, tmp_path)
        assert list(tmp_path.rglob("*.gguf")) == []

    def test_denied_access_names_the_permission(self, tmp_path: Path) -> None:
        self.s3.denied = True
        with pytest.raises(ModelNotFetched, match=r"access is denied \(403\); the function's role needs s3:GetObject"):
            local_model(URI, SHA256, tmp_path)
