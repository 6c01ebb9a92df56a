"""The model's file: a path as it is given, or an object of S3 brought to /tmp once per environment.

An object is written under a temporary name and renamed when size and checksum are right, so a file under its own
name is whole.  What is missing after a broken connection is fetched by the next attempt, in the same environment.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from handler.errors import ModelNotFetched
from handler.log import log
from handler.s3_object import CONNECTIONS, S3Object

PLACE = Path("/tmp/qwarm-model")  # noqa: S108  the one place a Lambda function may write to
PART_BYTES = 8 << 20
_PROGRESS_S = 1.0

_parts_done: dict[Path, set[int]] = {}  # of the temporary files that this process writes


def local_model(model: str, sha256: str = "", place: Path = PLACE) -> str:
    """The path to load; ModelNotFetched, with one sentence, if the object cannot be had."""
    if not model.startswith("s3://"):
        return model
    source = S3Object(model)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _alone(place):
            return str(_fetched(source, sha256 or source.sha256, place))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _too_small(source, place) from None
        raise ModelNotFetched(f"{model} cannot be stored in {place}: {error.strerror}") from None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """No other thread or process is in here; one that waited finds the file there."""
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetched(source: S3Object, sha256: str, place: Path) -> Path:
    version = hashlib.sha256(f"{source.uri} {source.etag}".encode()).hexdigest()[:16]
    path = place / version / source.name
    if path.is_file() and path.stat().st_size == source.size:
        return path
    for other in place.iterdir():
        if other.is_dir() and other != path.parent:
            shutil.rmtree(other)  # earlier models, and what was left of them
    path.parent.mkdir(exist_ok=True)
    partial = path.parent / ".partial"
    if partial not in _parts_done:
        partial.unlink(missing_ok=True)
    elif not partial.is_file() or partial.stat().st_size != source.size:
        del _parts_done[partial]
    held = partial.stat().st_size if partial.is_file() else 0
    if source.size - held > shutil.disk_usage(place).free:
        raise _too_small(source, place)
    started_s = time.monotonic()
    _download(source, partial)
    _check_sha256(source, partial, sha256)
    partial.replace(path)
    del _parts_done[partial]
    elapsed_ms = (time.monotonic() - started_s) * 1000
    log("model_fetched", uri=source.uri, bytes=source.size, checked=bool(sha256), fetch_ms=round(elapsed_ms, 1))
    return path


def _download(source: S3Object, partial: Path) -> None:
    """Write the missing parts, many at a time.  The first failure ends it; the parts that came are kept."""
    done = _parts_done.setdefault(partial, set())
    missing = [part for part in range(-(-source.size // PART_BYTES)) if part not in done]
    stop = threading.Event()
    target = os.open(partial, os.O_RDWR | os.O_CREAT, 0o600)
    pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="fetch")
    try:
        if source.size:
            os.posix_fallocate(target, 0, source.size)  # a full disk shows now
        waiting = {pool.submit(_write_part, source, target, part, stop): part for part in missing}
        while waiting:
            finished, _ = wait(waiting, _PROGRESS_S, FIRST_EXCEPTION)
            _note_finished(finished, waiting, done)
            log("model_download", part=len(done), parts=len(done) + len(waiting), bytes=source.size)
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        os.close(target)


def _note_finished(finished: set[Future[None]], waiting: dict[Future[None], int], done: set[int]) -> None:
    """Enter the parts that came; then raise the first failure, if one failed."""
    parts = {future: waiting.pop(future) for future in finished}
    done.update(part for future, part in parts.items() if future.exception() is None)
    for future in finished:
        future.result()


def _write_part(source: S3Object, target: int, part: int, stop: threading.Event) -> None:
    at = part * PART_BYTES
    for piece in source.read(at, min(at + PART_BYTES, source.size)):
        if stop.is_set():
            raise ModelNotFetched(f"{source.uri} was given up")
        os.pwrite(target, piece, at)
        at += len(piece)


def _check_sha256(source: S3Object, partial: Path, expected: str) -> None:
    if not expected:
        return
    with partial.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        del _parts_done[partial]
        partial.unlink()
        raise ModelNotFetched(f"{source.uri} has SHA-256 {found}, expected {expected}")


def _too_small(source: S3Object, place: Path) -> ModelNotFetched:
    free = shutil.disk_usage(place).free
    return ModelNotFetched(
        f"{source.uri} has {source.size >> 20} MB and {place} has {free >> 20} MB free: raise EphemeralStorage"
    )
