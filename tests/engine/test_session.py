"""Sessions and snapshots: what is restored equals what was, and nobody else's rows change."""

from __future__ import annotations

import numpy as np
import pytest
from oracle_models import logits_of, model, model_file

from engine import native
from engine.errors import ContextFull, EngineError, ModelFileError, NumericFault, UnsupportedCpu
from engine.native import Model, Phase, Session, Snapshot, snapshots_bytes, top_logits

NAME = "gva2.f32"
RNG = np.random.default_rng(7)


def tokens(n):
    return RNG.integers(0, 512, n).astype(np.int32)


def test_a_loaded_snapshot_continues_as_the_original_did():
    session = Session(model(NAME), 300)
    prefix, rest = tokens(130), tokens(70)
    session.eval(prefix, Phase.PREFILL)
    snapshot = session.save()
    expected = logits_of(session, rest)
    other = Session(model(NAME), 300)
    other.eval(tokens(200), Phase.PREFILL)
    other.load(snapshot)
    assert other.position == 130
    assert np.array_equal(logits_of(other, rest), expected)


def test_timelines_that_share_pages_do_not_write_into_each_other():
    session = Session(model(NAME), 300)
    session.eval(tokens(100), Phase.PREFILL)  # the second page is shared in its middle
    snapshot = session.save()
    first, second = tokens(50), tokens(50)
    expected_first = logits_of(session, first)
    session.load(snapshot)
    expected_second = logits_of(session, second)
    kept = session.save()
    for branch, expected in [(first, expected_first), (second, expected_second), (first, expected_first)]:
        session.load(snapshot)
        assert np.array_equal(logits_of(session, branch), expected)
    session.load(kept)
    assert session.position == 150


@pytest.mark.parametrize("isa", native.isas())
def test_a_mark_keeps_the_state_that_stopping_there_would_have(isa):
    ids = tokens(150)
    marked = Session(model(NAME, isa), 200)
    logits, snapshots = marked.eval(ids, Phase.PREFILL, n_logits=1, marks=[5, 64, 77, 150])
    stopped = Session(model(NAME, isa), 200)
    for start, end, snapshot in zip([0, 5, 64, 77], [5, 64, 77, 150], snapshots, strict=True):
        last, _ = stopped.eval(ids[start:end], Phase.PREFILL, n_logits=1)
        assert snapshot.position == end
        assert snapshot.to_bytes() == stopped.save().to_bytes()
    assert np.array_equal(last, logits)


def test_marks_work_across_the_blocks_of_a_long_prefill():
    ids = tokens(1100)
    marks = [300, 512, 700, 1099]
    session = Session(model(NAME), 1100)
    _, snapshots = session.eval(ids, Phase.PREFILL, marks=marks)
    for mark, snapshot in zip(marks, snapshots, strict=True):
        other = Session(model(NAME), 1100)
        for start, end in zip([0, *marks], marks, strict=False):
            if end <= mark:
                other.eval(ids[start:end], Phase.PREFILL)
        assert other.save().to_bytes() == snapshot.to_bytes()


def test_decode_over_spans_of_keys_is_exact_and_the_same_for_any_threads():
    ids = tokens(1100)  # a decoded token's keys are shared out in spans of 512
    exact = logits_of(Session(model(NAME, exact=True), 1100), ids)
    decoded = [logits_of(Session(model(NAME, n_threads=n), 1100), ids, phase=Phase.DECODE) for n in (1, 2, 3)]
    rms = np.sqrt(np.mean((decoded[0] - exact) ** 2, axis=1))
    assert rms[1024:].max() < 1e-3  # keys and values are f16; logits have a deviation of 2
    assert all(np.array_equal(other, decoded[0]) for other in decoded[1:])


def test_decode_one_by_one_equals_a_block_where_spans_get_longer():
    start, ids = 32_757, tokens(32_776)  # past 64 spans of 512 they have 1024 keys
    session = Session(model(NAME), len(ids))
    session.eval(ids[:start], Phase.PREFILL)
    snapshot = session.save()
    block = logits_of(session, ids[start:], phase=Phase.DECODE)
    session.load(snapshot)
    assert np.array_equal(logits_of(session, ids[start:], split=1, phase=Phase.DECODE), block)


def test_exported_bytes_come_back_as_the_same_state():
    session = Session(model(NAME), 200)
    session.eval(tokens(90), Phase.PREFILL)
    snapshot, rest = session.save(), tokens(20)
    expected = logits_of(session, rest)
    session.load(Snapshot.from_bytes(model(NAME), 90, bytes(snapshot.to_bytes())))
    assert np.array_equal(logits_of(session, rest), expected)


@pytest.mark.parametrize("change", [-1, 1])
def test_exported_bytes_of_another_length_are_refused(change):
    session = Session(model(NAME), 200)
    session.eval(tokens(9), Phase.PREFILL)
    data = bytes(session.save().to_bytes()) + b"\0"
    with pytest.raises(EngineError, match="a snapshot at token 9 has"):
        Snapshot.from_bytes(model(NAME), 9, data[: len(data) - 1 + change])


def test_shared_pages_count_once():
    session = Session(model(NAME), 400)
    session.eval(tokens(256), Phase.PREFILL)
    one = session.save()
    state = model(NAME).state_bytes
    assert state <= snapshots_bytes([one, session.save()]) - snapshots_bytes([one]) < state + 1000


def test_a_reset_session_is_as_new():
    ids = tokens(80)
    session = Session(model(NAME), 200)
    expected = logits_of(session, ids)
    session.eval(tokens(60), Phase.PREFILL)
    session.reset()
    assert np.array_equal(logits_of(session, ids), expected)


def test_counters_tell_prefill_from_decode_and_gemm_from_gemv():
    session = Session(model(NAME), 50)
    session.eval(tokens(20), Phase.PREFILL)
    prefilled = session.counters
    session.eval(tokens(3), Phase.DECODE)
    decoded = session.counters
    assert (prefilled.prefill_tokens, prefilled.decode_tokens, prefilled.gemv_rows) == (20, 0, 0)
    assert (decoded.prefill_tokens, decoded.decode_tokens) == (20, 3)
    assert decoded.gemv_rows > 0
    assert decoded.gemm_rows == prefilled.gemm_rows > 0


def test_too_many_tokens_are_refused_and_the_position_stays():
    session = Session(model(NAME), 10)
    session.eval(tokens(8), Phase.PREFILL)
    with pytest.raises(ContextFull, match="11 tokens needed, the context holds 10"):
        session.eval(tokens(3), Phase.PREFILL)
    assert session.position == 8
    session.eval(tokens(2), Phase.PREFILL)


@pytest.mark.parametrize("token", [-1, 512])
def test_a_token_outside_the_vocabulary_is_refused(token):
    session = Session(model(NAME), 10)
    with pytest.raises(RuntimeError, match=f"token {token} is outside the vocabulary of 512"):
        session.eval(np.array([1, token], np.int32), Phase.PREFILL)
    assert session.position == 0


@pytest.mark.parametrize("marks", [[0], [11], [4, 4], [5, 3]])
def test_marks_outside_the_tokens_or_out_of_order_are_refused(marks):
    session = Session(model(NAME), 20)
    with pytest.raises(RuntimeError, match="mark"):
        session.eval(tokens(10), Phase.PREFILL, marks=marks)
    assert session.position == 0


def test_an_unknown_kernel_set_is_refused_by_name():
    with pytest.raises(UnsupportedCpu, match="kernel set sse9 is unknown or not on this CPU; the best one here is"):
        Model(model_file(NAME), n_threads=1, isa="sse9")


def test_no_threads_are_refused():
    with pytest.raises(ModelFileError, match="n_threads is 0"):
        Model(model_file(NAME), n_threads=0)


def test_top_logits_are_the_largest_with_ties_to_the_lower_id():
    logits = np.array([1, 5, 3, 5, -2, 3], np.float32)
    ids, values = top_logits(logits, 4)
    assert ids.tolist() == [1, 3, 2, 5]
    assert values.tolist() == [5, 5, 3, 3]


def test_top_logits_agree_with_sorting():
    for n in (1, 7, 64):
        logits = RNG.integers(-50, 50, 5000).astype(np.float32)
        order = np.lexsort((np.arange(5000), -logits))[:n]
        assert top_logits(logits, n)[0].tolist() == order.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_top_logits_of_broken_logits_are_a_numeric_fault(bad):
    logits = np.zeros(100, np.float32)
    logits[37] = bad
    with pytest.raises(NumericFault):
        top_logits(logits, 5)
    with pytest.raises(NumericFault):
        top_logits(np.full(100, -np.inf, np.float32), 5)


def test_a_model_may_be_freed_before_its_sessions_and_snapshots():
    """A cyclic garbage collector frees in any order."""
    own = Model(model_file(NAME), n_threads=1)
    session = Session(own, 50)
    session.eval(tokens(20), Phase.PREFILL)
    snapshot, rest = session.save(), tokens(5)
    expected = logits_of(session, rest)
    native.ffi.release(own._handle)
    session.load(snapshot)
    assert np.array_equal(logits_of(session, rest), expected)


def test_the_set_that_is_chosen_is_one_that_runs():
    assert native.fastest_isa() in native.isas()
    with pytest.raises(UnsupportedCpu):
        native._check(native.lib.qw_isa_trial(native.ffi.new("char[]", b"sse9")))
