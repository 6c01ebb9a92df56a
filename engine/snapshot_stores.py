"""Where snapshot files live: folders here, S3 in snapshot_s3.

A store lists, reads and writes files by name; what is in them is snapshot_file's business.  Every failure is a
StoreFailed, an OSError or an UnusableSnapshot, and none of them is a reason to fail a request.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from engine.errors import EngineError
from engine.events import PrefillPath
from engine.snapshot_file import UnusableSnapshot, is_snapshot_name

_PARTIAL = ".partial"
_ABANDONED_S = 600.0
_LEFT_FREE_BYTES = 16 << 20
_CHUNK_BYTES = 4 << 20


class StoreFailed(EngineError):
    """A store could not be read or written; the message says why."""


class Store(Protocol):
    """A place for snapshot files.  ``until_s`` is a time of time.monotonic() at which to give up."""

    @property
    def path(self) -> PrefillPath:
        """What a prefill that starts from one of these files is called."""

    @property
    def writable(self) -> bool: ...

    def names(self) -> set[str]:
        """The snapshots there are."""

    def read(self, name: str, n_bytes: int, until_s: float) -> bytes | bytearray:
        """A file that has this size; UnusableSnapshot if it has another."""

    def write(self, name: str, data: bytearray, until_s: float, *, replace: bool) -> None:
        """Store a file, all of it or nothing.  ``replace``: there may be one of this name that is unusable."""


class Folder:
    """A directory: read-only, or writable up to ``max_bytes`` of snapshots, the oldest of which make room."""

    def __init__(self, folder: str | os.PathLike[str], path: PrefillPath, max_bytes: int = 0) -> None:
        self._folder = Path(folder)
        self.path = path
        self.writable = max_bytes > 0
        self._max_bytes = max_bytes

    def names(self) -> set[str]:
        try:
            with os.scandir(self._folder) as found:
                return {entry.name for entry in found if is_snapshot_name(entry.name) and entry.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def read(self, name: str, n_bytes: int, until_s: float) -> bytes:  # noqa: ARG002  a disk does not keep us waiting
        with (self._folder / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != n_bytes:
                raise UnusableSnapshot(f"it has {size} bytes, expected {n_bytes}")
            return file.read(n_bytes)

    def write(self, name: str, data: bytearray, until_s: float, *, replace: bool) -> None:  # noqa: ARG002
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(len(data))
        handle, partial = tempfile.mkstemp(prefix=".", suffix=_PARTIAL, dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file, memoryview(data) as view:
                for start in range(0, len(view), _CHUNK_BYTES):
                    file.write(view[start : start + _CHUNK_BYTES])
                    if time.monotonic() > until_s:
                        raise StoreFailed(f"there was no time to write {_mb(len(view))}")
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)  # what is baked by one user is read by another
            Path(partial).replace(self._folder / name)
        finally:
            Path(partial).unlink(missing_ok=True)

    def _make_room(self, n_bytes: int) -> None:
        if n_bytes > self._max_bytes:
            raise StoreFailed(f"{_mb(n_bytes)} are needed, {_mb(self._max_bytes)} are allowed")
        oldest_first = []
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):  # another process makes room as well
                found = entry.stat()
                if is_snapshot_name(entry.name):
                    oldest_first.append((found.st_mtime, found.st_size, entry.path))
                elif entry.name.endswith(_PARTIAL) and time.time() - found.st_mtime > _ABANDONED_S:
                    Path(entry.path).unlink(missing_ok=True)
        held = sum(size for _, size, _ in oldest_first)
        for _, size, path in sorted(oldest_first):
            if held + n_bytes <= self._max_bytes:
                break
            Path(path).unlink(missing_ok=True)
            held -= size
        free = shutil.disk_usage(self._folder).free
        if free < n_bytes + _LEFT_FREE_BYTES:
            raise StoreFailed(f"{_mb(n_bytes)} are needed, {_mb(free)} are free on the disk")


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"
