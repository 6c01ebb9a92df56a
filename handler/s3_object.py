"""One object in S3, read in ranges; a range that breaks off is asked for again from the byte it reached."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

from handler.errors import ModelNotFetched

CONNECTIONS = 16
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 5  # in a row without a byte
_PAUSE_S = 0.2
_CONFIG = {"connect_timeout": 2, "read_timeout": 5, "retries": {"total_max_attempts": 3, "mode": "standard"}}
_REASONS = {
    403: "access is denied (403); the function's role needs s3:GetObject on it, or it does not exist",
    404: "it does not exist (404)",
    412: "it was replaced meanwhile (412); the next request fetches the new one",
}


class S3Object:
    """The object as it was when this was made: later reads are of the same version, or fail."""

    def __init__(self, uri: str) -> None:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        if not bucket or not key or key.endswith("/"):
            raise ModelNotFetched(f"QWARM_MODEL is {uri!r}: expected s3://bucket/key")
        try:
            import boto3  # a fifth of a second: only for who keeps the model in S3
            from botocore.config import Config
            from botocore.exceptions import (
                BotoCoreError,
                ClientError,
                HTTPClientError,
                IncompleteReadError,
            )
            from botocore.exceptions import ConnectionError as NotConnected
        except ImportError:
            raise ModelNotFetched(f"{uri} cannot be fetched: boto3 is not installed") from None
        self.uri = uri
        self.name = key.rpartition("/")[2]
        self._refused, self._failed = ClientError, BotoCoreError
        self._broken = (HTTPClientError, NotConnected, IncompleteReadError)
        self._place = {"Bucket": bucket, "Key": key}
        try:
            self._client = boto3.client("s3", config=Config(max_pool_connections=CONNECTIONS, **_CONFIG))
            head = self._client.head_object(**self._place, ChecksumMode="ENABLED")
        except (ClientError, BotoCoreError) as error:
            raise self._failure(error) from None
        self.size: int = head["ContentLength"]
        self.etag: str = head["ETag"]
        self.sha256 = _full_sha256(head)

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes in [start, end), piece by piece."""
        attempts = 0
        while start < end:
            if attempts == _ATTEMPTS:
                raise ModelNotFetched(f"{self.uri} cannot be fetched: the connection broke {_ATTEMPTS} times in a row")
            if attempts:
                time.sleep(_PAUSE_S * attempts)
            attempts += 1
            try:
                for piece in self._pieces(start, end):
                    start += len(piece)
                    attempts = 1
                    yield piece
            except self._broken:
                continue
            except (self._refused, self._failed) as error:
                raise self._failure(error) from None

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        wanted = f"bytes={start}-{end - 1}"
        answer = self._client.get_object(**self._place, Range=wanted, IfMatch=self.etag)
        if answer["ContentLength"] != end - start:
            said = answer["ContentLength"]
            raise ModelNotFetched(f"{self.uri} cannot be fetched: {said} bytes came for a range of {end - start}")
        yield from answer["Body"].iter_chunks(_CHUNK_BYTES)

    def _failure(self, error: Any) -> ModelNotFetched:
        reason = type(error).__name__
        if isinstance(error, self._refused):
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            reason = _REASONS.get(status) or str(error.response["Error"]["Code"])
        return ModelNotFetched(f"{self.uri} cannot be fetched: {reason}")


def _full_sha256(head: dict[str, Any]) -> str:
    """The SHA-256 that S3 keeps with the object, unless it is one of its parts' checksums; in hexadecimal."""
    checksum = head.get("ChecksumSHA256", "")
    if not checksum or "-" in checksum or head.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return ""
    return base64.b64decode(checksum).hex()
