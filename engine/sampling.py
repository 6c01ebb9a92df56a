"""Choose the next token from a row of logits.

Order: what the form allows, logit_bias, penalties, temperature, top_k, top_p, min_p.  No step sorts the
vocabulary.
Presence and frequency penalties count generated tokens; the repetition penalty also covers the prompt's end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.errors import DeadEnd, InvalidPrompt, NumericFault
from engine.request import Sampling

Floats = npt.NDArray[np.float32]
Allowed = npt.NDArray[np.bool_]
TopLogits = Callable[[Floats, int], tuple[npt.NDArray[np.int32], Floats]]

REPETITION_PROMPT_TOKENS = 64
_COLDEST = 1e-6  # a float32 logit moves in steps of about this: below, only the best token is left
_ABSOLUTE_BIAS = 100  # OpenAI's ends of the scale: never, and nothing else
_BLOCK = 512


def numpy_top_logits(logits: Floats, n: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """The ``n`` largest logits, by value then by lower id, best first: what ``qw_top_logits`` gives."""
    n = min(n, logits.size)
    worst = np.partition(logits, logits.size - n)[logits.size - n]
    above = np.flatnonzero(logits > worst)
    level = np.flatnonzero(logits == worst)[: n - above.size]
    ids = np.sort(np.concatenate((above, level)))
    ids = ids[np.argsort(-logits[ids], kind="stable")]
    return ids.astype(np.int32), logits[ids]


class Sampler:
    """The choices of one answer.  Ids from ``sampleable`` on are padding of the output and never chosen."""

    def __init__(
        self,
        sampling: Sampling,
        sampleable: int,
        prompt: Sequence[int] = (),
        top_logits: TopLogits = numpy_top_logits,
    ) -> None:
        for token_id in sampling.logit_bias:
            if not 0 <= token_id < sampleable:
                last = sampleable - 1
                raise InvalidPrompt(f"logit_bias names token {token_id}, expected 0 to {last}", "logit_bias")
        seed = None if sampling.seed is None else sampling.seed % 2**64
        self._sampling = sampling
        self._sampleable = sampleable
        self._top_logits = top_logits
        self._greedy = (
            sampling.temperature < _COLDEST or sampling.top_k == 1 or sampling.top_p <= 0 or sampling.min_p >= 1
        )
        self._penalizes = (
            sampling.repetition_penalty != 1 or sampling.frequency_penalty != 0 or sampling.presence_penalty != 0
        )
        self._counts = dict.fromkeys((t for t in prompt[-REPETITION_PROMPT_TOKENS:] if t < sampleable), 0)
        self._biased = np.fromiter(sampling.logit_bias, np.int64)
        bias = np.fromiter(sampling.logit_bias.values(), np.float32)
        self._bias = np.where(bias <= -_ABSOLUTE_BIAS, np.float32(-np.inf), bias)
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._adjusted = np.empty(sampleable, np.float32)
        self._weights = np.empty(sampleable, np.float32)

    def choose(self, logits: Floats, allowed: Allowed | None = None) -> int:
        """The next token's id, one of those ``allowed``.  ``logits`` is left as it is."""
        values = self._adjust(_checked(logits[: self._sampleable]), allowed)
        if self._greedy:
            return int(values.argmax())
        if 0 < self._sampling.top_k < values.size:
            ids, values = self._top_logits(values, self._sampling.top_k)
            return int(ids[self._draw(values)])
        return self._draw(values)

    def accept(self, token_id: int) -> None:
        """Count a token of the answer, chosen here or not."""
        self._counts[token_id] = self._counts.get(token_id, 0) + 1

    def logprobs(self, logits: Floats, token_id: int, n: int) -> tuple[float, list[tuple[int, float]]]:
        """The model's own log probability of a token, and the ``n`` best: no bias, penalty or temperature."""
        values = _checked(logits[: self._sampleable])
        log_total = float(values.max()) + math.log(self._weigh(values, 1).sum())
        ids, best = self._top_logits(values, n) if n else ((), ())
        top = [(int(i), float(value) - log_total) for i, value in zip(ids, best, strict=True)]
        return float(values[token_id]) - log_total, top

    def _adjust(self, logits: Floats, allowed: Allowed | None) -> Floats:
        """The logits with bias and penalties, -inf for what is not allowed."""
        if allowed is None and not (self._sampling.logit_bias or (self._penalizes and self._counts)):
            return logits
        values = self._adjusted
        if allowed is None:
            np.copyto(values, logits)
        else:
            values.fill(-np.inf)
            np.copyto(values, logits, where=allowed[: self._sampleable])
        self._apply_bias(values)
        if self._penalizes:
            self._apply_penalties(values)
        if values.max() == -np.inf:
            if allowed is None:
                raise NumericFault("logit_bias forbids every token the model could give")
            raise DeadEnd("the model and logit_bias leave no token that the required format allows here")
        return values

    def _apply_bias(self, values: Floats) -> None:
        values[self._biased] += self._bias
        wanted = self._biased[self._bias >= _ABSOLUTE_BIAS]
        kept = values[wanted]
        if (kept > -np.inf).any():
            values.fill(-np.inf)
            values[wanted] = kept

    def _apply_penalties(self, values: Floats) -> None:
        ids = np.fromiter(self._counts, np.int64)
        counts = np.fromiter(self._counts.values(), np.float32)
        sampling = self._sampling
        seen = values[ids]
        seen = np.where(seen > 0, seen / sampling.repetition_penalty, seen * sampling.repetition_penalty)
        values[ids] = seen - counts * sampling.frequency_penalty - (counts > 0) * sampling.presence_penalty

    def _draw(self, values: Floats) -> int:
        """An index of ``values``, which are by lower id where equal.

        top_p and min_p need no sorting: a draw stands if the values before it (larger, or as large with a
        lower id) weigh less than top_p.  If it does not stand, nothing after it would, so the next draw is
        among those before it.
        """
        top_p, min_p = self._sampling.top_p, self._sampling.min_p
        weights = self._weigh(values, self._sampling.temperature)
        limit = top_p * float(weights.sum())
        while True:
            index = self._pick(weights)
            if top_p >= 1 and weights[index] >= min_p:
                return index
            before = values > values[index]
            before[:index] |= values[:index] == values[index]
            if weights[index] >= min_p and float(weights[before].sum()) < limit:
                return index
            weights *= before

    def _weigh(self, values: Floats, temperature: float) -> Floats:
        """Weights in proportion to the probabilities: 1 for the largest value.  Valid until the next call."""
        weights = self._weights[: values.size]
        np.subtract(values, values.max(), out=weights)
        with np.errstate(over="ignore"):  # far below the best is as good as -inf
            np.divide(weights, temperature, out=weights)
        return np.exp(weights, out=weights)

    def _pick(self, weights: Floats) -> int:
        """An index, with the probability its weight gives it: first a block, then a place in the block."""
        if weights.size > _BLOCK:
            start = _BLOCK * self._pick(np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK)))
            return start + self._pick(weights[start : start + _BLOCK])
        reach = weights.cumsum(dtype=np.float64)
        return int(reach.searchsorted(self._random.random() * reach[-1], side="right"))


def _checked(logits: Floats) -> Floats:
    """``logits``, unless they are no basis for a choice.  The maximum of a row with a NaN is NaN."""
    peak = float(logits.max())
    if not np.isfinite(peak):
        raise NumericFault(f"the model's largest logit is {peak}, expected a finite number")
    return logits
