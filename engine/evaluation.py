"""The model as a timeline: prompts are evaluated from the best cached state on, generated tokens one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence

import numpy as np

from engine.cache_entry import Kind, Reuse
from engine.errors import NumericFault, OutOfTime
from engine.events import Prefilled, Progress
from engine.native import Floats, Ids, Model, Phase, Session
from engine.prefill_speed import PrefillSpeed
from engine.prefix_cache import PrefixCache
from engine.prompt import Prompt
from engine.snapshots import Snapshots

RemainingMs = Callable[[], float]

_PIECE_TOKENS = 1024  # evaluated between two looks at the deadline
_ALIGNMENT = 16  # pieces end where the delta rule's chunks do, so that cutting changes nothing


class Evaluation:
    """One session of a model with its prefix cache.

    ``never`` are ids whose logits are set to -inf: rows that are not tokens.
    ``snapshots``: stored states, for prompts whose base is not in memory.
    """

    def __init__(
        self, model: Model, context: int, cache_bytes: int, never: Ids, snapshots: Snapshots | None = None
    ) -> None:
        self._model = model
        self._never = never
        self._snapshots = snapshots
        self.session = Session(model, context)
        self.cache = PrefixCache(self.session, cache_bytes)
        self.prefill_speed = PrefillSpeed()

    def prefill(self, prompt: Prompt, remaining_ms: RemainingMs) -> Generator[Progress | Prefilled, None, Floats]:
        """Evaluate what the cache does not have.  Returns the last token's logits, float32 [n_vocab].

        Raises OutOfTime when ``remaining_ms`` reaches 0 before the end, or as soon as the speed measured in earlier
        prefills says that it will; what was evaluated stays usable.
        """
        left_ms = remaining_ms()
        if left_ms <= 0:
            raise OutOfTime("no time is left to evaluate the prompt")
        started = time.perf_counter()
        before, evictions = self.session.counters, self.cache.evictions
        reuse = self._find(prompt, left_ms)
        n_prompt = len(prompt.ids)
        self._check_time(n_prompt - reuse.position, left_ms)
        self.cache.restore(reuse)
        most_rows = 0
        marks = {n_prompt: Kind.PROMPT} | prompt.marks
        if reuse.logits is not None:
            logits = reuse.logits.copy()
        while self.cache.position < n_prompt:
            start = self.cache.position
            end = _piece_end(start, n_prompt)
            most_rows = max(most_rows, end - start)
            piece_started = time.perf_counter()
            logits = self._eval(prompt.ids[start:end], Phase.PREFILL, marks)
            self.prefill_speed.measured(end - start, (time.perf_counter() - piece_started) * 1e3)
            if end == n_prompt:
                break
            left_ms = remaining_ms()
            if left_ms <= 0:
                raise OutOfTime(f"time ran out after {end} of the prompt's {n_prompt} tokens")
            self._check_time(n_prompt - end, left_ms)
            yield Progress(end, n_prompt)
        after = self.session.counters
        prefilled = after.prefill_tokens - before.prefill_tokens
        in_batches = after.gemm_rows > before.gemm_rows
        yield self._prefilled(
            prompt,
            reuse,
            prefilled=prefilled,
            prefill_ms=(time.perf_counter() - started) * 1e3,
            batch_rows=most_rows,
            multiplication="none" if prefilled == 0 else self._model.gemm if in_batches else "per_token",
            evictions=self.cache.evictions - evictions,
        )
        return logits

    def decode(self, tokens: Sequence[int]) -> Floats:
        """Evaluate generated tokens; the logits after the last."""
        return self._eval(np.array(tokens, np.int32), Phase.DECODE, {})

    def _find(self, prompt: Prompt, left_ms: float) -> Reuse:
        """The best state in memory, or a stored one if that has more of the prompt's base."""
        reuse = self.cache.find(prompt.ids)
        base = max((position for position, kind in prompt.marks.items() if kind == Kind.BASE), default=0)
        if self._snapshots is None or reuse.position >= base:
            return reuse
        stored = self._snapshots.find(prompt.ids[:base], reuse.position, left_ms, self.cache.make_room)
        if stored is None:
            return reuse
        self.cache.adopt(stored.ids, stored.snapshot, stored.path)
        return self.cache.find(prompt.ids)

    def _check_time(self, n_tokens: int, left_ms: float) -> None:
        """Raise OutOfTime if this many tokens cannot be evaluated in the time left."""
        needed_ms = self.prefill_speed.needed_ms(n_tokens)
        if needed_ms > left_ms:
            raise OutOfTime(
                f"{n_tokens} tokens of the prompt are not cached and need {needed_ms / 1e3:.1f} s at the "
                f"{self.prefill_speed.tokens_per_s:.0f} tokens/s measured here; {left_ms / 1e3:.1f} s are left"
            )

    def _prefilled(
        self,
        prompt: Prompt,
        reuse: Reuse,
        *,
        prefilled: int,
        prefill_ms: float,
        batch_rows: int,
        multiplication: str,
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
            kernel=f"{self._model.isa}/{multiplication}",
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
        """Evaluate tokens on the live timeline and keep the snapshots on the way, one at the end with logits."""
        start = self.cache.position
        wanted = [position for position in sorted(marks) if start < position <= start + len(ids)]
        try:
            logits, snapshots = self.session.eval(ids, phase, n_logits=1, marks=wanted)
        except NumericFault:
            self.cache.lost()
            raise
        row: Floats = logits[0]
        row[self._never] = -np.inf
        self.cache.advanced(ids.tolist())
        for position, snapshot in zip(wanted, snapshots, strict=True):
            at_end = position == self.cache.position
            self.cache.keep(marks[position], snapshot, row.copy() if at_end else None)
        return row


def _piece_end(start: int, end: int) -> int:
    """Where the next piece of a prefill ends: parts of about equal size, cut at the delta rule's chunks."""
    n_pieces = -(-(end - start) // _PIECE_TOKENS)
    if n_pieces <= 1:
        return end
    cut = start + -(-(end - start) // n_pieces)
    return -(-cut // _ALIGNMENT) * _ALIGNMENT
