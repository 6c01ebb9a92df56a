"""What a prefix cache holds: snapshots, each with what its position means and the token ids it is valid for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from engine.events import PrefillPath
from engine.native import Floats, Ids, Snapshot


class Kind(IntEnum):
    """What a snapshot's position means; the lowest is evicted first."""

    PROMPT = 0
    SPARE = 1
    TIP = 2
    ANCHOR = 3
    TURN_ANCHOR = 4
    BASE = 5


@dataclass(eq=False, slots=True)
class Entry:
    """A snapshot and the token ids it is valid for: all of [0, position).

    ``logits``: those after the last of the ids, if they were kept.  ``made`` and ``used`` count requests.
    """

    kind: Kind
    ids: Ids
    snapshot: Snapshot
    conversation: int | None  # None: shared
    used: int
    origin: PrefillPath | None = None  # a store it was read from, until it is used
    logits: Floats | None = None
    made: int = 0

    @property
    def position(self) -> int:
        return len(self.ids)

    def serves(self, ids: Ids) -> bool:
        """Whether a prompt of these ids can start here: something is left to evaluate, or the logits are known."""
        if self.position == len(ids):
            return self.logits is not None and np.array_equal(ids, self.ids)
        return self.position < len(ids) and self.kind != Kind.PROMPT and starts_with(ids, self.ids)


@dataclass(frozen=True, slots=True)
class Reuse:
    """Where a prompt starts: the entry to load, the live session as it is, or nothing."""

    path: PrefillPath
    position: int
    entry: Entry | None
    conversation: int
    lcp: int  # longest prefix shared with any timeline known
    diverge_had: tuple[int, ...]
    diverge_got: tuple[int, ...]
    logits: Floats | None = None  # if the prompt is known to its end


def common_prefix(a: Ids, b: Ids) -> int:
    """How many ids from the start are equal."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n


def starts_with(ids: Ids, prefix: Ids) -> bool:
    return np.array_equal(ids[: len(prefix)], prefix)
