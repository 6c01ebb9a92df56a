"""The model as a timeline: prompts are evaluated from the best cached state on, generated tokens one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

import numpy as np

from engine.errors import NumericFault, OutOfTime
from engine.events import Prefilled, Progress
from engine.native import Floats, Ids, Model, Phase, Session
from engine.prefix_cache import Kind, PrefixCache, Reuse
from engine.prompt import Prompt

RemainingMs = Callable[[], float]

_PIECE_TOKENS = 1024  # evaluated between two looks at the deadline
_ALIGNMENT = 16  # pieces end where the delta rule's chunks do, so that cutting changes nothing


class Evaluation:
    """One session of a model with its prefix cache.

    ``never`` are ids whose logits are set to -inf: rows that are not tokens.
    """

    def __init__(self, model: Model, context: int, cache_bytes: int, never: Ids) -> None:
        self._model = model
        self._never = never
        self.session = Session(model, context)
        self.cache = PrefixCache(self.session, cache_bytes)

    def prefill(self, prompt: Prompt, remaining_ms: RemainingMs) -> Generator[Progress | Prefilled, None, Floats]:
        """Evaluate what the cache does not have.  Returns the last token's logits, float32 [n_vocab].

        Raises OutOfTime when ``remaining_ms`` reaches 0 before the end; what was evaluated stays usable.
        """
        if remaining_ms() <= 0:
            raise OutOfTime("no time is left to evaluate the prompt")
        started = time.perf_counter()
        before, evictions = self.session.counters, self.cache.evictions
        reuse = self.cache.find(prompt.ids)
        self.cache.restore(reuse)
        most_rows = 0
        n_prompt = len(prompt.ids)
        while True:  # find() leaves at least one token
            start = self.cache.position
            end = _piece_end(start, n_prompt)
            most_rows = max(most_rows, end - start)
            logits = self._eval(prompt.ids[start:end], Phase.PREFILL, prompt.marks)
            if end == n_prompt:
                break
            if remaining_ms() <= 0:
                raise OutOfTime(f"time ran out after {end} of the prompt's {n_prompt} tokens")
            yield Progress(end, n_prompt)
        after = self.session.counters
        yield self._prefilled(
            prompt,
            reuse,
            prefilled=after.prefill_tokens - before.prefill_tokens,
            prefill_ms=(time.perf_counter() - started) * 1e3,
            batch_rows=most_rows,
            gemm=after.gemm_rows > before.gemm_rows,
            evictions=self.cache.evictions - evictions,
        )
        return logits

    def decode(self, token: int) -> Floats:
        """Evaluate a generated token; the logits after it."""
        return self._eval(np.array([token], np.int32), Phase.DECODE, {})

    def _prefilled(
        self,
        prompt: Prompt,
        reuse: Reuse,
        *,
        prefilled: int,
        prefill_ms: float,
        batch_rows: int,
        gemm: bool,
        evictions: int,
    ) -> Prefilled:
        fell_short = reuse.position < reuse.lcp and reuse.path in ("base", "spare", "full")
        return Prefilled(
            path=reuse.path,
            prompt_tokens=len(prompt.ids),
            lcp=reuse.lcp,
            restored_at=reuse.position,
            prefilled=prefilled,
            prefill_ms=prefill_ms,
            batch_rows=batch_rows,
            kernel=f"{self._model.isa}/{self._model.gemm if gemm else 'per_token'}",
            slot=reuse.conversation,
            slots_used=self.cache.conversations,
            snapshot_bytes=self.cache.bytes_held,
            evictions=evictions,
            spliced=prompt.spliced,
            diverge_at=reuse.lcp if fell_short else None,
            diverge_had=reuse.diverge_had if fell_short else (),
            diverge_got=reuse.diverge_got if fell_short else (),
        )

    def _eval(self, ids: Ids, phase: Phase, marks: dict[int, Kind]) -> Floats:
        """Evaluate tokens on the live timeline and keep the snapshots that lie on the way."""
        start = self.cache.position
        wanted = [position for position in sorted(marks) if start < position <= start + len(ids)]
        try:
            logits, snapshots = self.session.eval(ids, phase, n_logits=1, marks=wanted)
        except NumericFault:
            self.cache.lost()
            raise
        self.cache.advanced(ids.tolist())
        for position, snapshot in zip(wanted, snapshots, strict=True):
            self.cache.keep(marks[position], snapshot)
        row: Floats = logits[0]
        row[self._never] = -np.inf
        return row


def _piece_end(start: int, end: int) -> int:
    """Where the next piece of a prefill ends: parts of about equal size, cut at the delta rule's chunks."""
    n_pieces = -(-(end - start) // _PIECE_TOKENS)
    if n_pieces <= 1:
        return end
    cut = start + -(-(end - start) // n_pieces)
    return -(-cut // _ALIGNMENT) * _ALIGNMENT
