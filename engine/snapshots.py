"""Base snapshots that outlive a process: found by token ids before a prefill, written between requests.

Only states after the tools and after the system block are stored: they are what new conversations share.  A file that
cannot be used, or a store that cannot be reached, is noted and passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.cache_entry import Entry, Kind
from engine.errors import EngineError
from engine.events import PrefillPath
from engine.native import Ids, Model, Snapshot
from engine.snapshot_file import SnapshotFormat, UnusableSnapshot, longest_prefix, position_of, snapshot_name
from engine.snapshot_s3 import S3
from engine.snapshot_stores import Folder, Store, StoreFailed

Note = Callable[[str, Mapping[str, object]], None]  # an event's name and its facts, for a log

_READ_MS = 5000.0  # the most a read may take
_PAUSE_S = 60.0  # before a store that failed is asked again


@dataclass(frozen=True, slots=True)
class SnapshotPlaces:
    """Where base snapshots are kept; None is nowhere."""

    baked: str | None = None  # a directory of the image
    directory: str | None = None
    max_bytes: int = 256 << 20  # of the directory
    s3: str | None = None  # s3://bucket/prefix

    def stores(self, fingerprint: str) -> list[Store]:
        """Nearest first."""
        found: list[Store] = []
        if self.baked:
            found.append(Folder(self.baked, "snapshot_baked"))
        if self.directory and self.max_bytes:
            found.append(Folder(self.directory, "snapshot_tmp", self.max_bytes))
        if self.s3:
            found.append(S3(self.s3, fingerprint))
        return found


@dataclass(frozen=True, slots=True)
class Stored:
    """A state that was read."""

    ids: Ids
    snapshot: Snapshot
    path: PrefillPath


@dataclass(frozen=True, slots=True)
class Write:
    """A file to be written, and the stores that lack it."""

    name: str
    data: bytearray
    stores: tuple[Store, ...]


class Snapshots:
    """The stores of one model.  ``note`` is told what happens to files."""

    def __init__(self, stores: Sequence[Store], model: Model, fingerprint: str, note: Note) -> None:
        self._stores = stores
        self._model = model
        self._fingerprint = fingerprint
        self._format = SnapshotFormat.of(model, fingerprint)
        self._note = note
        self._unusable: set[tuple[PrefillPath, str]] = set()
        self._tried: set[tuple[PrefillPath, str]] = set()  # to write
        self._paused_until_s: dict[PrefillPath, float] = {}

    def find(self, ids: Ids, longer_than: int, remaining_ms: float, make_room: Callable[[int], bool]) -> Stored | None:
        """The longest stored state, of more than ``longer_than`` tokens, whose ids the given ones begin with.

        ``make_room`` is asked for memory before a file is read.
        """
        until_s = time.monotonic() + min(remaining_ms, _READ_MS) / 1e3
        while time.monotonic() < until_s and (best := self._best(ids, longer_than)):
            store, name = best
            n_bytes = self._format.file_bytes(position_of(name))
            if not make_room(2 * n_bytes):  # the file and the state made of it
                return None
            started_s = time.monotonic()
            try:
                prefix = ids[: position_of(name)]
                payload, isa = self._format.decode(prefix, store.read(name, n_bytes, until_s))
                snapshot = Snapshot.from_bytes(self._model, len(prefix), payload)
            except UnusableSnapshot as error:
                self._unusable.add((store.path, name))
                self._note("snapshot_ignored", {"place": store.path, "name": name, "reason": str(error)})
            except (EngineError, OSError) as error:
                self._failed(store, error)
            else:
                self._told("snapshot_read", store, name, n_bytes, started_s, isa)
                return Stored(prefix.copy(), snapshot, store.path)
        return None

    def next_write(self, entries: Iterable[Entry], free_bytes: int) -> Write | None:
        """The first base state that a store lacks, as a file.  ``free_bytes``: memory there is for it."""
        for entry in entries:
            if entry.kind != Kind.BASE or self._format.file_bytes(entry.position) > free_bytes:
                continue
            name = snapshot_name(self._fingerprint, entry.ids)
            stores = self._lacking(name)
            if stores:
                self._tried |= {(store.path, name) for store in stores}
                return Write(name, self._format.encode(entry.ids, entry.snapshot.to_bytes()), stores)
        return None

    def write(self, write: Write, until_s: float) -> None:
        """Write the file wherever it is missing."""
        for store in write.stores:
            started_s = time.monotonic()
            try:
                replace = (store.path, write.name) in self._unusable
                store.write(write.name, write.data, until_s, replace=replace)
            except (StoreFailed, OSError) as error:
                self._failed(store, error)
            else:
                self._unusable.discard((store.path, write.name))
                self._told("snapshot_written", store, write.name, len(write.data), started_s, self._format.isa)

    def _best(self, ids: Ids, longer_than: int) -> tuple[Store, str] | None:
        best: tuple[Store, str] | None = None
        for store in self._stores:
            usable = {name for name in self._names(store) if (store.path, name) not in self._unusable}
            name = longest_prefix(self._fingerprint, usable, ids, longer_than)
            if name is not None:
                best, longer_than = (store, name), position_of(name)
            if longer_than == len(ids):
                break  # a farther store cannot have more
        return best

    def _lacking(self, name: str) -> tuple[Store, ...]:
        """The stores to write a file to: none if the image has it, and each once."""
        having = [s for s in self._stores if name in self._names(s) and (s.path, name) not in self._unusable]
        if any(store.path == "snapshot_baked" for store in having):
            return ()
        return tuple(
            store
            for store in self._stores
            if store.writable
            and store not in having
            and (store.path, name) not in self._tried
            and not self._is_paused(store)
        )

    def _is_paused(self, store: Store) -> bool:
        return time.monotonic() < self._paused_until_s.get(store.path, 0.0)

    def _names(self, store: Store) -> set[str]:
        if self._is_paused(store):
            return set()
        try:
            return store.names()
        except (StoreFailed, OSError) as error:
            self._failed(store, error)
            return set()

    def _failed(self, store: Store, error: Exception) -> None:
        self._paused_until_s[store.path] = time.monotonic() + _PAUSE_S
        reason = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
        self._note("snapshot_store_failed", {"place": store.path, "reason": reason})

    def _told(self, event: str, store: Store, name: str, n_bytes: int, started_s: float, isa: str) -> None:
        facts = {
            "place": store.path,
            "position": position_of(name),
            "bytes": n_bytes,
            "ms": round((time.monotonic() - started_s) * 1e3, 1),
            "isa": isa,
        }
        self._note(event, facts)
