"""The choice of a token from scripted logits."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.errors import InvalidPrompt, NumericFault
from engine.request import Sampling
from engine.sampling import Floats, Sampler, numpy_top_logits

GREEDY = Sampling(temperature=0)


def row(*values: float) -> Floats:
    return np.asarray(values, np.float32)


def choices(sampling: Sampling, logits: Floats, n: int = 4000) -> Floats:
    """How often each id is chosen."""
    sampler = Sampler(replace(sampling, seed=7), logits.size)
    chosen = [sampler.choose(logits) for _ in range(n)]
    return (np.bincount(chosen, minlength=logits.size) / n).astype(np.float32)


def softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum(), np.float32)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(top_k=5), Sampling(top_p=0.9)])
def test_a17_rows_beyond_the_vocabulary_are_never_chosen(sampling: Sampling) -> None:
    logits = np.zeros(248320, np.float32)
    logits[248200] = 50
    logits[248250] = np.nan
    sampler = Sampler(sampling, 248077)
    assert all(sampler.choose(logits) < 248077 for _ in range(20))


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(top_k=2), Sampling(logit_bias={1: -100})])
@pytest.mark.parametrize(
    "logits",
    [
        row(np.nan, np.nan, np.nan),
        row(1, np.nan, 0),
        row(-np.inf, -np.inf, -np.inf),
        row(1, np.inf, 0),
    ],
    ids=["all NaN", "one NaN", "all -inf", "one +inf"],
)
def test_a42_broken_logits_are_a_numeric_fault(sampling: Sampling, logits: Floats) -> None:
    sampler = Sampler(sampling, 3)
    with pytest.raises(NumericFault, match="largest logit"):
        sampler.choose(logits)
    assert sampler.choose(row(9, 0, 9)) in (0, 2)


def test_a42_single_impossible_tokens_are_no_fault() -> None:
    assert choices(Sampling(), row(-np.inf, 0, -np.inf))[1] == 1


@pytest.mark.parametrize("top_p", [0, 1e-9, 0.9999999, 1])
@pytest.mark.parametrize("min_p", [0, 1, 1.5])
@pytest.mark.parametrize("top_k", [0, 1, 2, 10**9])
@pytest.mark.parametrize("temperature", [0, 1e-320, 1e-6, 2])
def test_a43_edge_settings_always_leave_the_best_token(
    top_p: float, min_p: float, top_k: int, temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, top_p=top_p, min_p=min_p, top_k=top_k, seed=1)
    sampler = Sampler(sampling, 4)
    chosen = {sampler.choose(row(-3e38, 1, 3, 2.5)) for _ in range(50)}
    assert 2 in chosen
    if top_p < 0.5 or min_p >= 1 or top_k == 1 or temperature < 1e-3:
        assert chosen == {2}
    else:
        assert 3 in chosen


@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_a44_a_bias_of_minus_100_makes_a_token_impossible(temperature: float) -> None:
    sampler = Sampler(Sampling(temperature=temperature, logit_bias={2: -100}), 4)
    assert all(sampler.choose(row(0, 1, 500, 0)) != 2 for _ in range(50))


@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_a44_a_bias_of_100_makes_a_token_the_only_choice(temperature: float) -> None:
    sampler = Sampler(Sampling(temperature=temperature, logit_bias={3: 100, 1: 50}), 4)
    assert all(sampler.choose(row(0, 1, 500, 0)) == 3 for _ in range(50))


def test_a44_a_bias_for_a_token_the_engine_rules_out_changes_nothing() -> None:
    assert Sampler(Sampling(temperature=0, logit_bias={0: 100}), 3).choose(row(-np.inf, 1, 2)) == 2


def test_a44_a_small_bias_shifts_the_odds() -> None:
    assert choices(Sampling(logit_bias={0: 1}), row(0, 1))[0] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("token_id", [-1, 4, 191222])
def test_a44_a_bias_for_a_token_outside_the_vocabulary_is_refused(token_id: int) -> None:
    with pytest.raises(InvalidPrompt, match=f"token {token_id}, expected 0 to 3") as refusal:
        Sampler(Sampling(logit_bias={token_id: 1}), 4)
    assert refusal.value.param == "logit_bias"


def test_a_bias_against_every_token_is_a_fault() -> None:
    with pytest.raises(NumericFault, match="forbids every token"):
        Sampler(Sampling(logit_bias={0: -100, 1: -100}), 2).choose(row(1, 2))


def test_a45_equal_maxima_give_the_lower_id() -> None:
    assert Sampler(GREEDY, 5).choose(row(0, 3, 1, 3, 3)) == 1


def test_a45_the_same_seed_gives_the_same_tokens() -> None:
    logits = np.random.default_rng(3).standard_normal(5000).astype(np.float32)
    first, second, other = (Sampler(Sampling(seed=seed), 5000) for seed in (7, 7, 8))
    tokens = [first.choose(logits) for _ in range(30)]
    assert tokens == [second.choose(logits) for _ in range(30)]
    assert tokens != [other.choose(logits) for _ in range(30)]


def test_without_a_seed_two_samplers_differ() -> None:
    logits = np.zeros(100_000, np.float32)
    one, two = Sampler(Sampling(), 100_000), Sampler(Sampling(), 100_000)
    assert [one.choose(logits) for _ in range(5)] != [two.choose(logits) for _ in range(5)]


def test_a_negative_seed_is_a_seed() -> None:
    assert Sampler(Sampling(seed=-5), 3).choose(row(0, 0, 0)) in (0, 1, 2)


def test_the_logits_are_left_as_they_are() -> None:
    logits = row(1, 2, 3)
    sampler = Sampler(Sampling(presence_penalty=1, logit_bias={0: -100}, top_p=0.5), 3, prompt=[1])
    sampler.accept(2)
    sampler.choose(logits)
    assert logits.tolist() == [1, 2, 3]


def test_temperature_divides_the_logits() -> None:
    logits = row(0, 1, 2, 3)
    assert choices(Sampling(temperature=2), logits) == pytest.approx(softmax(logits * np.float32(0.5)), abs=0.03)


def test_a_large_vocabulary_is_sampled_in_proportion() -> None:
    logits = np.full(2000, -np.inf, np.float32)
    logits[[3, 511, 512, 1999]] = np.log([1, 2, 3, 4])
    assert choices(Sampling(), logits) == pytest.approx(softmax(logits), abs=0.03)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(top_k=2), [0, 3]),
        (Sampling(top_p=0.4), [3]),
        (Sampling(top_p=0.41), [3, 0]),
        (Sampling(top_p=0.75), [3, 0, 1]),  # of the equal tokens 1 and 4 the lower id comes first
        (Sampling(min_p=0.5), [0, 3]),
        (Sampling(top_k=3, top_p=0.8), [3, 0]),  # the 0.8 is of what top_k left
        (Sampling(top_p=0.95, min_p=0.3), [3, 0, 1, 4]),
        (Sampling(temperature=0.5, min_p=0.3), [3, 0]),  # min_p sees the odds temperature made
    ],
)
def test_the_rules_keep_the_likely_tokens_in_proportion(sampling: Sampling, kept: list[int]) -> None:
    logits = np.log(row(0.3, 0.14, 0.02, 0.4, 0.14))
    expected = np.full(5, -np.inf, np.float32)
    expected[kept] = logits[kept] / sampling.temperature
    assert choices(sampling, logits) == pytest.approx(softmax(expected), abs=0.03)


@given(
    logits=arrays(np.float32, 40, elements=st.floats(-8, 8, width=16)),
    top_p=st.floats(0.01, 0.999),
    seed=st.integers(0, 2**32),
)
def test_top_p_never_leaves_the_nucleus_found_by_sorting(logits: Floats, top_p: float, seed: int) -> None:
    order = np.argsort(-logits, kind="stable")
    before = np.cumsum(softmax(logits)[order]) - softmax(logits)[order]
    nucleus = order[before < top_p + 1e-6]
    sampler = Sampler(Sampling(top_p=top_p, seed=seed), 40)
    assert {sampler.choose(logits) for _ in range(10)} <= set(nucleus.tolist())


def test_a_narrow_top_p_of_a_flat_row_takes_few_draws() -> None:
    sampler = Sampler(Sampling(top_p=1e-5), 100_000)
    begin_s = time.process_time()
    assert sampler.choose(np.zeros(100_000, np.float32)) == 0
    assert time.process_time() - begin_s < 1  # a draw from all of the row succeeds once in 100,000 times


def test_presence_and_frequency_count_generated_tokens_only() -> None:
    sampling = Sampling(temperature=0, presence_penalty=1, frequency_penalty=0.5)
    sampler = Sampler(sampling, 3, prompt=[0, 0, 0])
    assert sampler.choose(row(3, 2, 0)) == 0
    sampler.accept(0)
    assert sampler.choose(row(3, 2, 0)) == 1  # 3 - 1 - 0.5
    assert sampler.choose(row(4, 2, 0)) == 0
    sampler.accept(0)
    sampler.accept(0)
    assert sampler.choose(row(4, 2, 0)) == 1  # 4 - 1 - 1.5


def test_repetition_weakens_tokens_of_the_prompts_end_whatever_their_sign() -> None:
    sampler = Sampler(Sampling(temperature=0, repetition_penalty=2), 3, prompt=[0] + [1] * 64)
    assert sampler.choose(row(0, 4, 3)) == 2
    assert sampler.choose(row(-9, -2, -3)) == 2
    assert sampler.choose(row(2.5, 4, 2)) == 0  # 65 tokens back: forgotten


def test_penalties_come_before_top_k() -> None:
    sampler = Sampler(Sampling(top_k=2, presence_penalty=100), 4)
    for token_id in (0, 1):
        sampler.accept(token_id)
    assert {sampler.choose(row(9, 9, 1, 1)) for _ in range(40)} == {2, 3}


def test_a_negative_penalty_raises_a_token_into_the_top_k() -> None:
    sampler = Sampler(Sampling(temperature=0.01, top_k=2, presence_penalty=-2), 4)
    sampler.accept(3)
    assert sampler.choose(row(2, 2, 1, 1)) == 3


def test_top_k_asks_for_no_more_than_k() -> None:
    asked: list[int] = []

    def top(logits: Floats, n: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Floats]:
        asked.append(n)
        return numpy_top_logits(logits, n)

    Sampler(Sampling(top_k=3), 10, top_logits=top).choose(np.arange(10, dtype=np.float32))
    assert asked == [3]


def test_logprobs_are_the_models_own() -> None:
    logits = row(1, 3, 2, 99)
    sampler = Sampler(Sampling(temperature=0.1, logit_bias={0: 100}), 3)
    chosen, top = sampler.logprobs(logits, 0, 2)
    expected = np.log(softmax(logits[:3]))
    assert chosen == pytest.approx(expected[0], abs=1e-5)
    assert [token_id for token_id, _ in top] == [1, 2]
    assert [logprob for _, logprob in top] == pytest.approx(expected[[1, 2]], abs=1e-5)
    assert sampler.logprobs(logits, 0, 0) == (chosen, [])


@settings(max_examples=50)
@given(arrays(np.float32, 30, elements=st.integers(-4, 4).map(float)), st.integers(1, 40))
def test_top_logits_are_the_first_of_all_sorted_ones(logits: Floats, n: int) -> None:
    ids, values = numpy_top_logits(logits, n)
    assert ids.tolist() == sorted(range(30), key=lambda i: (-logits[i], i))[:n]
    assert values.tolist() == logits[ids].tolist()
