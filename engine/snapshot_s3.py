"""Snapshot files in an S3 bucket, for every environment of a function.

boto3 is imported when the bucket is first asked for something.  Names are listed once per environment.
"""

from __future__ import annotations

import importlib
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.events import PrefillPath
from engine.snapshot_file import UnusableSnapshot, is_snapshot_name, name_prefix
from engine.snapshot_stores import StoreFailed

_CONNECT_TIMEOUT_S = 1.0
_READ_TIMEOUT_S = 5.0
_CHUNK_BYTES = 1 << 20
_MOST_PAGES = 10  # of 1000 names
_MOST_UPLOADS = 16  # per environment: a system text that changes with every request must not fill the bucket


class S3:
    """The objects under ``s3://bucket/prefix`` that are snapshots of one model."""

    path: PrefillPath = "snapshot_s3"

    def __init__(self, url: str, fingerprint: str) -> None:
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        if not url.startswith("s3://") or not bucket:
            raise ValueError(f"{url!r} is not of the form s3://bucket/prefix")
        self._bucket = bucket
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        self._fingerprint = fingerprint
        self._names: set[str] | None = None
        self._uploads = 0
        self._connection: Any = None

    @property
    def writable(self) -> bool:
        return self._uploads < _MOST_UPLOADS

    def names(self) -> set[str]:
        if self._names is None:
            with self._client() as client:
                self._names = self._listed(client)
        return self._names

    def read(self, name: str, n_bytes: int, until_s: float) -> bytearray:
        with self._client() as client:
            found = client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            if found["ContentLength"] != n_bytes:
                raise UnusableSnapshot(f"it has {found['ContentLength']} bytes, expected {n_bytes}")
            data = bytearray()
            for chunk in found["Body"].iter_chunks(_CHUNK_BYTES):
                data += chunk
                if time.monotonic() > until_s:
                    raise StoreFailed(f"{len(data)} of {n_bytes} bytes came in the time there was")
            return data

    def write(self, name: str, data: bytearray, until_s: float, *, replace: bool) -> None:
        self._uploads += 1
        condition = {} if replace else {"IfNoneMatch": "*"}
        with self._client() as client, memoryview(data) as view:
            try:
                client.put_object(
                    Bucket=self._bucket,
                    Key=self._prefix + name,
                    Body=io.BufferedReader(_UntilDeadline(view, until_s), _CHUNK_BYTES),
                    **condition,
                )
            except client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                    raise
                # another environment was first
        self.names().add(name)

    def _listed(self, client: Any) -> set[str]:
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=self._prefix + name_prefix(self._fingerprint),
            PaginationConfig={"MaxItems": _MOST_PAGES * 1000},
        )
        keys = (item["Key"] for page in pages for item in page.get("Contents", ()))
        return {name for key in keys if is_snapshot_name(name := key.removeprefix(self._prefix))}

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """The connection; what boto3 raises while it is used becomes StoreFailed."""
        try:
            boto3, botocore = importlib.import_module("boto3"), importlib.import_module("botocore.exceptions")
            config = importlib.import_module("botocore.config").Config(
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_READ_TIMEOUT_S,
                retries={"total_max_attempts": 1},
            )
        except ImportError as error:
            raise StoreFailed(f"s3://{self._bucket} needs boto3, which is not installed") from error
        try:
            if self._connection is None:
                self._connection = boto3.client("s3", config=config)
            yield self._connection
        except (botocore.BotoCoreError, botocore.ClientError) as error:
            raise StoreFailed(f"s3://{self._bucket}: {error}") from error


class _UntilDeadline(io.RawIOBase):
    """Bytes to send, none of them after a point in time."""

    def __init__(self, view: memoryview, until_s: float) -> None:
        self._view = view
        self._position = 0
        self._until_s = until_s

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._view)}[whence]
        self._position = min(max(0, start + offset), len(self._view))
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        if time.monotonic() > self._until_s:
            raise StoreFailed(f"there was no time to send {len(self._view)} bytes")
        n_bytes = min(len(buffer), len(self._view) - self._position)
        buffer[:n_bytes] = self._view[self._position : self._position + n_bytes]
        self._position += n_bytes
        return n_bytes
