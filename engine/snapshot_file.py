"""A base snapshot as a file: what it belongs to, its token ids, the state, and a checksum.

    header     magic, format version, sizes, model fingerprint, kernel set
    ids        int32, one per token
    payload    Snapshot.to_bytes(): recurrent state and convolution rows, then the attention rows of each token
    checksum   blake2b of all of the above

Numbers are little-endian.  A name tells the model, the format, the number of tokens and a hash of their ids, so that
a list of names is an index.  The kernel set is for information: states made by different ones differ by rounding
only, as the kernel sets' own results do, and may be exchanged.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass

import numpy as np

from engine.errors import EngineError
from engine.native import Ids, Model

FORMAT_VERSION = 1  # of this layout, of the payload's, and of the arithmetic that makes a state
SUFFIX = ".qwsnap"

_MAGIC = b"QWARMSNP"
_HEADER = struct.Struct("<8s4I3Q16s16s")
_CHECKSUM_BYTES = 32
_FINGERPRINT_CHARS = 16  # of it in a name; the file has all of it
_NAME = re.compile(rf"[0-9a-f]{{{_FINGERPRINT_CHARS}}}-v\d{{1,9}}-(\d{{1,9}})-[0-9a-f]{{32}}\{SUFFIX}")


class UnusableSnapshot(EngineError):
    """A stored snapshot that is short, damaged, or of another model or version; the message says which."""


@dataclass(frozen=True, slots=True)
class SnapshotFormat:
    """What a file must agree with to be a state of this model in this engine; ``isa`` is only noted."""

    fingerprint: str
    state_bytes: int
    kv_token_bytes: int
    exact: bool
    isa: str

    @classmethod
    def of(cls, model: Model, fingerprint: str) -> SnapshotFormat:
        return cls(fingerprint, model.state_bytes, model.kv_token_bytes, model.gemm == "exact", model.isa)

    def file_bytes(self, n_tokens: int) -> int:
        """The size of every file with this many tokens."""
        return _HEADER.size + 4 * n_tokens + self._payload_bytes(n_tokens) + _CHECKSUM_BYTES

    def encode(self, ids: Ids, payload: bytearray) -> bytearray:
        """The file's bytes.  The payload becomes part of them: it may be most of the memory there is."""
        header = _HEADER.pack(
            _MAGIC,
            FORMAT_VERSION,
            len(ids),
            int(self.exact),
            0,
            self.state_bytes,
            self.kv_token_bytes,
            len(payload),
            bytes.fromhex(self.fingerprint),
            self.isa.encode()[:16],
        )
        payload[:0] = header + ids.astype("<i4").tobytes()
        payload += _checksum(payload)
        return payload

    def decode(self, ids: Ids, data: bytes | bytearray) -> tuple[memoryview, str]:
        """The payload of a file that holds a state for exactly these ids, and the kernel set that made it.

        Raises UnusableSnapshot.
        """
        if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
            raise UnusableSnapshot("it is not a snapshot file")
        _, version, n_tokens, exact, _, state, kv_token, n_payload, fingerprint, isa = _HEADER.unpack_from(data)
        if version != FORMAT_VERSION:
            raise UnusableSnapshot(f"its format is {version}, expected {FORMAT_VERSION}")
        if fingerprint.hex() != self.fingerprint:
            raise UnusableSnapshot(f"its model is {fingerprint.hex()}, expected {self.fingerprint}")
        if (state, kv_token) != (self.state_bytes, self.kv_token_bytes):
            raise UnusableSnapshot(
                f"its state has {state} bytes and {kv_token} a token, expected {self.state_bytes} and "
                f"{self.kv_token_bytes}"
            )
        if exact != self.exact:
            raise UnusableSnapshot(f"exact arithmetic was {exact}, expected {int(self.exact)}")
        if len(data) != self.file_bytes(n_tokens) or n_payload != self._payload_bytes(n_tokens):
            raise UnusableSnapshot(f"it has {len(data)} bytes, expected {self.file_bytes(n_tokens)}")
        view = memoryview(data)
        if _checksum(view[:-_CHECKSUM_BYTES]) != view[-_CHECKSUM_BYTES:]:
            raise UnusableSnapshot("its checksum is wrong")
        if not np.array_equal(np.frombuffer(data, "<i4", n_tokens, _HEADER.size), ids):
            raise UnusableSnapshot("its token ids are not those its name says")
        return view[_HEADER.size + 4 * n_tokens : -_CHECKSUM_BYTES], isa.rstrip(b"\0").decode("ascii", "replace")

    def _payload_bytes(self, n_tokens: int) -> int:
        return self.state_bytes + n_tokens * self.kv_token_bytes


def name_prefix(fingerprint: str) -> str:
    """What the names of all snapshots of this model and format begin with."""
    return f"{fingerprint[:_FINGERPRINT_CHARS]}-v{FORMAT_VERSION}-"


def snapshot_name(fingerprint: str, ids: Ids) -> str:
    """The name of the snapshot for exactly these ids."""
    return _name(fingerprint, len(ids), _id_hash(ids))


def is_snapshot_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def longest_prefix(fingerprint: str, names: set[str], ids: Ids, longer_than: int) -> str | None:
    """The name of the longest of these snapshots whose ids the given ones begin with."""
    prefix = name_prefix(fingerprint)
    positions = {int(found[1]) for name in names if name.startswith(prefix) and (found := _NAME.fullmatch(name))}
    best: str | None = None
    digest, done = _id_hash(ids[:0]), 0
    for position in sorted(position for position in positions if longer_than < position <= len(ids)):
        digest.update(ids[done:position].astype("<i4").tobytes())
        done = position
        name = _name(fingerprint, position, digest)
        if name in names:
            best = name
    return best


def position_of(name: str) -> int:
    """The number of tokens a snapshot's name tells."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is not the name of a snapshot")
    return int(found[1])


def _name(fingerprint: str, n_tokens: int, digest: hashlib.blake2b) -> str:
    return f"{name_prefix(fingerprint)}{n_tokens}-{digest.hexdigest()}{SUFFIX}"


def _id_hash(ids: Ids) -> hashlib.blake2b:
    return hashlib.blake2b(ids.astype("<i4").tobytes(), digest_size=16)


def _checksum(data: bytearray | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
