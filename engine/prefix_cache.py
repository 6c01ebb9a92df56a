"""Which tokens need no prefill: snapshots placed by meaning, and the search for the best one.

A DeltaNet state cannot be rolled back, so a prompt can start from position p only if a snapshot was taken at p and
the first p token ids are equal.  Ids are compared in full before a state is used; likeness never counts.

One session is live; other states are snapshots.  Kinds, in the order in which they are given up:

    prompt       the end of a conversation's latest prompt, with its logits: the same prompt again evaluates nothing
    spare        inside a long user message
    tip          after the last generated token of a conversation that is not live
    anchor       before the answer of the latest request: next turn, regenerate, another thinking mode
    turn_anchor  before the first answer after a user message: the next message falls back to it, over the tool loop
    base         after the system block, and after the tools in it: shared by all conversations
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.cache_entry import Entry, Kind, Reuse, common_prefix, starts_with
from engine.events import PrefillPath
from engine.native import Floats, Ids, Session, Snapshot, snapshots_bytes

_BASE_PATIENCE = 8  # requests
_TURN_ANCHORS_KEPT = 2  # of the turn being answered and of the one before, for an edited last message


@dataclass(slots=True)
class Timeline:
    """The longest token sequence a conversation has had: for saying where a prompt left it."""

    ids: Ids
    used: int


@dataclass
class PrefixCache:
    """The live session, the snapshots of all conversations, and their byte budget."""

    session: Session
    budget_bytes: int
    entries: list[Entry] = field(default_factory=list)
    evictions: int = 0
    _live: list[int] = field(default_factory=list)  # ids in the session
    _conversation: int = 0  # the live one
    _timelines: dict[int, Timeline] = field(default_factory=dict)
    _clock: int = 0
    _next_conversation: int = 1

    # --- finding ---

    def find(self, ids: Ids) -> Reuse:
        """The longest usable prefix.  It is the whole prompt only if the logits after it are known."""
        best: Entry | None = None
        for entry in self.entries:
            if (best is None or entry.position > best.position) and entry.serves(ids):
                best = entry
        live = np.array(self._live, np.int32)
        lcp, had, got = self._divergence(ids, live)
        if 0 < len(live) < len(ids) and starts_with(ids, live) and (best is None or len(live) > best.position):
            return Reuse("extend", len(live), None, self._conversation, lcp, had, got)
        if best is None:
            return Reuse("full", 0, None, self._new_conversation(), lcp, had, got)
        conversation = best.conversation if best.conversation is not None else self._new_conversation()
        logits = best.logits if best.position == len(ids) else None
        return Reuse(self._path(best), best.position, best, conversation, lcp, had, got, logits)

    def _new_conversation(self) -> int:
        self._next_conversation += 1
        return self._next_conversation

    def _path(self, entry: Entry) -> PrefillPath:
        if entry.origin is not None:
            return entry.origin
        if entry.kind in (Kind.ANCHOR, Kind.TURN_ANCHOR):
            anchors = [e for e in self._of(entry.conversation) if e.kind in (Kind.ANCHOR, Kind.TURN_ANCHOR)]
            return "anchor" if entry is anchors[-1] else "turn_anchor"
        names: dict[Kind, PrefillPath] = {
            Kind.BASE: "base",
            Kind.TIP: "extend",
            Kind.SPARE: "spare",
            Kind.PROMPT: "anchor",  # a regenerated answer, as from the anchor a few tokens before
        }
        return names[entry.kind]

    def _of(self, conversation: int | None) -> list[Entry]:
        return [entry for entry in self.entries if entry.conversation == conversation]

    def _divergence(self, ids: Ids, live: Ids) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Longest common prefix with a known timeline, and the four ids on each side from there."""
        best, closest = 0, live[:0]
        for known in [live, *(timeline.ids for timeline in self._timelines.values())]:
            length = common_prefix(ids, known)
            if length > best:
                best, closest = length, known
        around = slice(max(0, best - 4), best + 4)
        return best, tuple(closest[around].tolist()), tuple(ids[around].tolist())

    # --- moving the session ---

    def restore(self, reuse: Reuse) -> None:
        """Bring the session to where the prompt starts; another conversation's live state is kept as its tip."""
        self._clock += 1
        if reuse.path == "extend" and reuse.entry is None:
            return
        if self._live and self._conversation != reuse.conversation:
            self._keep_tip()
        if reuse.entry is None:
            self.session.reset()
            self._live = []
        else:
            self.session.load(reuse.entry.snapshot)
            self._live = reuse.entry.ids.tolist()
            reuse.entry.used = self._clock
            reuse.entry.origin = None
        self._conversation = reuse.conversation

    def _keep_tip(self) -> None:
        ids = np.array(self._live, np.int32)
        self._drop(e for e in self._of(self._conversation) if e.kind == Kind.TIP)
        if not any(len(e.ids) == len(ids) and starts_with(ids, e.ids) for e in self.entries):
            self._add(Entry(Kind.TIP, ids, self.session.save(), self._conversation, self._clock))

    def advanced(self, ids: Iterable[int]) -> None:
        """The session has evaluated these tokens after the ones before."""
        self._live.extend(ids)

    def lost(self) -> None:
        """The session's state is not to be trusted: start over."""
        self.session.reset()
        self._live = []

    @property
    def position(self) -> int:
        """Tokens in the live session."""
        return len(self._live)

    # --- keeping ---

    def keep(self, kind: Kind, snapshot: Snapshot, logits: Floats | None = None) -> None:
        """Keep a snapshot taken on the live timeline; older ones that it replaces go."""
        ids = np.array(self._live[: snapshot.position], np.int32)
        owner = None if kind == Kind.BASE else self._conversation
        self._drop(e for e in self.entries if e.position == len(ids) and np.array_equal(e.ids, ids))
        own = self._of(self._conversation)
        if kind in (Kind.ANCHOR, Kind.TURN_ANCHOR):
            self._drop(e for e in own if e.kind in (Kind.ANCHOR, Kind.SPARE))
        if kind == Kind.PROMPT:
            self._drop(e for e in own if e.kind == kind)
        if kind == Kind.TURN_ANCHOR:
            turns = [e for e in own if e.kind == kind]  # oldest first, as made
            self._drop(turns[: max(0, len(turns) + 1 - _TURN_ANCHORS_KEPT)])
        self._add(Entry(kind, ids, snapshot, owner, self._clock, logits=logits))

    def adopt(self, ids: Ids, snapshot: Snapshot, origin: PrefillPath) -> None:
        """A base snapshot read from a store."""
        self._add(Entry(Kind.BASE, ids, snapshot, None, self._clock, origin))

    def make_room(self, n_bytes: int) -> bool:
        """Bring memory so far under the budget that this much fits; False if it never will."""
        if n_bytes > self.budget_bytes:
            return False
        self._evict_down_to(self.budget_bytes - n_bytes)
        return True

    def has(self, ids: Ids) -> bool:
        """Whether a state for exactly these ids is kept."""
        return any(e.position == len(ids) and np.array_equal(e.ids, ids) for e in self.entries)

    def finished(self) -> None:
        """A request is over: remember its timeline and bring memory under the budget."""
        self._timelines[self._conversation] = Timeline(np.array(self._live, np.int32), self._clock)
        known = {entry.conversation for entry in self.entries} | {self._conversation}
        self._timelines = {number: line for number, line in self._timelines.items() if number in known}

    def _add(self, entry: Entry) -> None:
        entry.made = self._clock
        self.entries.append(entry)
        self._evict_down_to(self.budget_bytes)

    def _evict_down_to(self, n_bytes: int) -> None:
        while self.entries and self.bytes_held > n_bytes:
            self._drop([min(self.entries, key=self._worth)])
            self.evictions += 1

    def _worth(self, entry: Entry) -> tuple[int, float]:
        """Kind first; within a kind, tokens it saves against how long nobody asked for it.

        A base that nobody came back to in many requests is one of a kind, such as a system text with the time in it.
        """
        alone = entry.kind == Kind.BASE and entry.used == entry.made and self._clock - entry.made > _BASE_PATIENCE
        return Kind.SPARE if alone else entry.kind, entry.position / (self._clock - entry.used + 1)

    def _drop(self, entries: Iterable[Entry]) -> None:
        gone = {id(entry) for entry in entries}
        self.entries = [entry for entry in self.entries if id(entry) not in gone]

    @property
    def bytes_held(self) -> int:
        """Memory of all snapshots, shared pages once; the live session's own state is apart."""
        logits = sum(entry.logits.nbytes for entry in self.entries if entry.logits is not None)
        return snapshots_bytes([entry.snapshot for entry in self.entries]) + logits

    @property
    def conversations(self) -> int:
        """Conversations with a state kept, the live one included."""
        owners = {entry.conversation for entry in self.entries if entry.conversation is not None}
        return len(owners | ({self._conversation} if self._live else set()))


def spare_positions(start: int, end: int, every: int) -> Sequence[int]:
    """Positions between start and end to keep a spare snapshot at: one every ``every`` tokens, none near the ends."""
    return range(start + every, end - every // 2, every)
