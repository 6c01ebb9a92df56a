"""Which state a prompt starts from, and that every such answer equals a cold engine's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timelines import Driver

from engine.prefix_cache import Kind, spare_positions

VECTORS = {
    vector["name"]: vector
    for vector in json.loads((Path(__file__).parents[1] / "fixtures" / "prefix_vectors.json").read_text())
}
OTHER = 511  # an id that no vector uses


def dense(*prompts):
    """The prompts with small ids in place of the real ones; equal where the real ones are equal."""
    names: dict[int, int] = {}
    return [np.array([names.setdefault(i, len(names)) for i in prompt], np.int32) for prompt in prompts]


def marks_of(vector, prompt, suffix, kind=Kind.TURN_ANCHOR):
    return {vector["system_block"]: Kind.BASE, len(prompt) - suffix: kind}


def suffix_of(kwargs):
    return 2 if kwargs.get("enable_thinking", True) else 4


def turn_pair(name):
    """Serve the first prompt of a recorded pair, generate what it did, serve the second; give back the second."""
    v = VECTORS[name]
    first, second = dense(v["prompt1_ids"], v["prompt2_ids"])
    driver = Driver()
    driver.serve(first, marks_of(v, first, suffix_of(v["kwargs1"])))
    shared = second[len(first) : v["lcp"]] if v["lcp"] > len(first) else second[:0]
    driver.generate([*shared, *[OTHER] * (v["n_state"] - len(first) - len(shared))])
    marks = marks_of(v, second, suffix_of(v["kwargs2"]))
    return v, driver, driver.serve(second, marks), driver.cold(second, marks)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("chat_next_turn_off", "anchor"),
        ("chat_next_turn_on", "anchor"),
        ("tools_step_off", "extend"),
        ("tools_step_on_reasoning_returned", "extend"),
        ("tools_step_on_reasoning_lost", "anchor"),
        ("tools_then_next_user_off", "base"),
        ("regenerate", "anchor"),
        ("edit_last_user", "base"),
        ("new_conversation_same_system", "base"),
        ("toggle_thinking", "anchor"),
        ("bool_argument_lowercase", "anchor"),
    ],
)
def test_recorded_turn_pairs_prefill_exactly_what_is_new(name, path):
    v, _, served, cold = turn_pair(name)
    assert served.reuse.path == path
    assert served.prefilled == v["reprefill_with_anchor"]
    assert served.reuse.lcp == v["lcp"]
    if path != "extend":  # generated tokens are evaluated one by one: equal within rounding only
        assert np.array_equal(served.logits, cold)


def test_all_recorded_pairs_are_tested():
    assert len(VECTORS) == 11


def test_the_next_user_message_after_a_tool_loop_starts_at_the_turns_first_anchor():
    step, after = VECTORS["tools_step_off"], VECTORS["tools_then_next_user_off"]
    first, second, third = dense(step["prompt1_ids"], step["prompt2_ids"], after["prompt2_ids"])
    driver = Driver()
    driver.serve(first, marks_of(step, first, 4))
    driver.generate(second[len(first) : step["n_state"]])
    driver.serve(second, marks_of(step, second, 4, Kind.ANCHOR))
    driver.generate([OTHER] * 13)
    marks = marks_of(after, third, 4)
    served = driver.serve(third, marks)
    assert (served.reuse.path, served.prefilled) == ("turn_anchor", len(third) - after["lcp"])
    assert np.array_equal(served.logits, driver.cold(third, marks))


def prompt(*seeds, base=40, new=30):
    """A system block and one message per seed; marks after the block and two tokens before the end."""
    parts = [np.random.default_rng(1000).integers(0, 500, base)]
    parts += [np.random.default_rng(seed).integers(0, 500, new) for seed in seeds]
    ids = np.concatenate(parts).astype(np.int32)
    return ids, {base: Kind.BASE, len(ids) - 2: Kind.TURN_ANCHOR}


def test_eight_conversations_in_turn_each_prefill_only_what_is_new():
    driver = Driver()
    for seed in range(8):
        driver.serve(*prompt(seed))
        driver.generate([seed] * 5)
    for turn in range(2):
        for seed in range(8):
            history = [seed + 100 * t for t in range(turn + 2)]
            served = driver.serve(*prompt(*history))
            assert (served.reuse.path, served.prefilled) == ("anchor", 32)
            driver.generate([seed] * 5)


def test_a_conversation_that_was_left_while_live_can_still_be_extended():
    driver = Driver()
    first, marks = prompt(1)
    driver.serve(first, marks)
    driver.generate([7] * 20)
    driver.serve(*prompt(2))
    extended = np.concatenate([first, [7] * 20, np.arange(9)]).astype(np.int32)
    served = driver.serve(extended, {})
    assert (served.reuse.path, served.prefilled) == ("extend", 9)


def test_a_prefix_that_differs_in_one_id_is_not_used():
    driver = Driver()
    ids, marks = prompt(1)
    driver.serve(ids, marks)
    other = ids.copy()
    other[3] = (other[3] + 1) % 500
    served = driver.serve(other, marks)
    assert (served.reuse.path, served.prefilled, served.reuse.lcp) == ("full", len(ids), 3)
    assert np.array_equal(served.logits, driver.cold(other, marks))


def test_snapshots_stay_within_the_budget_and_the_base_goes_last():
    one = Driver()
    one.serve(*prompt(1))
    budget = one.cache.bytes_held * 2
    driver = Driver(budget_bytes=budget)
    for seed in range(12):
        driver.serve(*prompt(seed))
        driver.generate([seed] * 3)
        assert driver.cache.bytes_held <= budget
    assert driver.cache.evictions > 0
    assert driver.serve(*prompt(99)).reuse.path == "base"


def test_system_texts_that_never_come_back_do_not_push_out_conversations():
    driver = Driver()
    ids, marks = prompt(1)
    driver.serve(ids, marks)
    driver.cache.budget_bytes = driver.cache.bytes_held * 4
    for seed in range(40):
        other = ids.copy()
        other[:40] = np.random.default_rng(2000 + seed).integers(0, 500, 40)
        driver.serve(other, {40: Kind.BASE})
        driver.serve(*prompt(1, *range(100, 100 + seed % 3)))
    kinds = [entry.kind for entry in driver.cache.entries]
    assert Kind.TURN_ANCHOR in kinds
    assert driver.serve(*prompt(55)).reuse.path == "base"


def test_nothing_is_kept_without_a_budget_and_answers_are_right_all_the_same():
    driver = Driver(budget_bytes=0)
    ids, marks = prompt(1)
    driver.serve(ids, marks)
    served = driver.serve(*prompt(2))
    assert served.reuse.path == "full"
    again = driver.serve(ids, marks)
    assert np.array_equal(again.logits, driver.cold(ids, marks))


def test_spares_lie_inside_a_long_message_only():
    assert list(spare_positions(100, 2000, 2048)) == []
    assert list(spare_positions(100, 5000, 2048)) == [2148]
    assert list(spare_positions(0, 9000, 2048)) == [2048, 4096, 6144]


def test_the_end_of_a_prompt_serves_that_prompt_alone():
    driver = Driver(ends=True)
    ids, marks = prompt(1)
    first = driver.serve(ids, marks)
    driver.generate([7] * 5)
    again = driver.serve(ids, marks)
    assert (again.reuse.path, again.prefilled) == ("anchor", 0)
    assert np.array_equal(again.logits, first.logits)
    driver.generate([8] * 5)
    longer = driver.serve(np.concatenate([ids, [3, 4, 5]]).astype(np.int32), {})
    assert (longer.reuse.path, longer.prefilled) == ("anchor", 5)


def test_a_conversation_keeps_one_end_of_a_prompt():
    driver = Driver(ends=True)
    for seeds in ([1], [1, 2], [1, 2, 3], [4]):
        driver.serve(*prompt(*seeds))
        driver.generate([7] * 5)
    kinds = [entry.kind for entry in driver.cache.entries]
    assert kinds.count(Kind.PROMPT) == 2  # of two conversations


def test_the_end_of_a_prompt_is_given_up_before_its_anchor():
    driver = Driver(ends=True)
    ids, marks = prompt(1)
    driver.serve(ids, marks)
    driver.cache.budget_bytes = driver.cache.bytes_held - 1
    assert driver.cache.make_room(0)
    assert Kind.PROMPT not in [entry.kind for entry in driver.cache.entries]
    assert driver.serve(ids, marks).prefilled == 2


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["same", "new", "next", "extend", "again", "edit", "shorten", "abort", "forget", "restart"]),
        st.integers(0, 3),  # conversation
        st.integers(1, 60),  # tokens
        st.integers(0, 12),  # tokens generated afterwards
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests=REQUESTS, budget_states=st.sampled_from([0, 1, 3, 8, 1000]))
def test_every_interleaving_of_requests_gives_the_logits_of_a_cold_engine(requests, budget_states):
    """Exact arithmetic, so that generated tokens, evaluated one by one, differ by rounding only."""
    driver = Driver("gva4.f32", exact=True, ends=True)
    driver.cache.budget_bytes = budget_states * (driver.model.state_bytes + 40000)
    random = np.random.default_rng(len(requests))
    block = random.integers(0, 500, 25)
    histories = dict.fromkeys(range(4), block)
    for action, number, n_tokens, n_generated in requests:
        history = histories[number]
        fresh = random.integers(0, 500, n_tokens)
        if action == "new":
            history = np.concatenate([block, fresh])
        elif action in ("next", "extend"):
            history = np.concatenate([history, fresh])
        elif action == "edit":
            history = np.concatenate([history[: max(25, len(history) - 8)], fresh])
        elif action == "shorten":
            history = history[: max(26, len(history) - n_tokens)]
        elif action == "forget":
            driver.cache.lost()
        elif action == "restart":
            driver.restart()
        history = np.concatenate([history, [1, 2]]) if len(history) < 27 else history
        marks = {25: Kind.BASE, len(history) - 2: Kind.ANCHOR if action == "extend" else Kind.TURN_ANCHOR}
        if action == "abort":
            driver.serve(np.concatenate([history, fresh, fresh]), marks, stop_after=n_tokens)
        served = driver.serve(history, marks)
        assert np.abs(served.logits - driver.cold(history, marks)).max() < 1e-3
        assert served.prefilled == len(history) - served.reuse.position
        assert driver.cache.bytes_held <= driver.cache.budget_bytes
        generated = random.integers(0, 500, n_generated)
        driver.generate(generated)
        histories[number] = np.concatenate([history, generated]) if action == "extend" else history
        if len(histories[number]) > 400:
            histories[number] = block
