"""A prefix cache driven as the engine drives it, with token ids instead of text, and a cold engine to compare with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from oracle_models import model

from engine.native import Floats, Ids, Phase, Session, Snapshot
from engine.prefix_cache import Kind, PrefixCache, Reuse

CONTEXT = 1200


@dataclass
class Served:
    """What one request took."""

    reuse: Reuse
    prefilled: int
    logits: Floats


class Driver:
    """One cache over one session of the model ``name``.  ``ends``: the end of each prompt is kept with its logits."""

    def __init__(self, name="q.q4_k_m", budget_bytes=1 << 30, exact=False, ends=False):
        self.ends = ends
        self.model = model(name, exact=exact)
        self.session = Session(self.model, CONTEXT)
        self.cache = PrefixCache(self.session, budget_bytes)

    def serve(self, ids: Ids, marks: dict[int, Kind], stop_after: int | None = None) -> Served | None:
        """Prefill a prompt.  ``stop_after``: give up once that many tokens were evaluated, as at a deadline."""
        ids = np.asarray(ids, np.int32)
        before = self.session.counters.prefill_tokens
        reuse = self.cache.find(ids)
        self.cache.restore(reuse)
        logits = None if reuse.logits is None else reuse.logits[np.newaxis]
        marks = ({len(ids): Kind.PROMPT} if self.ends else {}) | marks
        while self.cache.position < len(ids):
            start = self.cache.position
            end = len(ids) if stop_after is None else min(len(ids), start + stop_after)
            wanted = [p for p in sorted(marks) if start < p <= end]
            logits, snapshots = self.session.eval(ids[start:end], Phase.PREFILL, n_logits=1, marks=wanted)
            self.cache.advanced(ids[start:end].tolist())
            for position, snapshot in zip(wanted, snapshots, strict=True):
                self.cache.keep(marks[position], snapshot, logits[0] if position == len(ids) else None)
            if stop_after is not None and end < len(ids):
                self.cache.finished()
                return None
        self.cache.finished()
        return Served(reuse, self.session.counters.prefill_tokens - before, logits[0])

    def generate(self, ids: Ids) -> None:
        """Decode these tokens after the last prompt."""
        for token in ids:
            self.session.eval(np.array([token], np.int32), Phase.DECODE, n_logits=1)
            self.cache.advanced([int(token)])
        self.cache.finished()

    def restart(self) -> None:
        """A new process that has the old one's base snapshots as bytes, and nothing else."""
        bases = [entry for entry in self.cache.entries if entry.kind == Kind.BASE]
        stored = [(entry.ids, bytes(entry.snapshot.to_bytes())) for entry in bases]
        budget_bytes = self.cache.budget_bytes
        self.session = Session(self.model, CONTEXT)
        self.cache = PrefixCache(self.session, budget_bytes)
        for ids, data in stored:
            self.cache.adopt(ids, Snapshot.from_bytes(self.model, len(ids), data), "snapshot_tmp")

    def cold(self, ids: Ids, marks: dict[int, Kind]) -> Floats:
        """The same prompt's logits from an empty session that keeps the same marks."""
        session = Session(self.model, CONTEXT)
        wanted = [p for p in sorted(marks) if p <= len(ids)]
        return session.eval(np.asarray(ids, np.int32), Phase.PREFILL, n_logits=1, marks=wanted)[0][0]
