"""The engine's numbers against those of Hugging Face transformers, for every model and kernel set."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from oracle_models import ALL, F32, ORACLE, QUANTIZED, logits_of, model, reference

from engine import native
from engine.gguf_reader import UINT32
from engine.model_file import ModelFile
from engine.native import Model, Phase, Session

EXACT_BOUND = 1e-3
INT8_RMS, INT8_TOP1 = 0.13, 0.85


@pytest.mark.parametrize("split", [None, 1, 7, 64])
@pytest.mark.parametrize("name", ALL)
def test_exact_logits_equal_the_reference(name, split):
    ids = reference(name)["ids"]
    logits = logits_of(Session(model(name, exact=True), len(ids)), ids, split)
    assert np.abs(logits - reference(name)["logits_full"]).max() < EXACT_BOUND


@pytest.mark.parametrize("name", ALL)
def test_exact_decoding_equals_the_reference_token_by_token(name):
    ids = reference(name)["ids"]
    stepwise = reference(name)["logits_step"] if name in F32 else reference(name)["logits_full"]
    logits = logits_of(Session(model(name, exact=True), len(ids)), ids, 1, Phase.DECODE)
    assert np.abs(logits[-len(stepwise) :] - stepwise).max() < EXACT_BOUND


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("name", QUANTIZED)
def test_int8_logits_are_as_near_as_int8_can_be(name, isa, phase):
    ids, expected = reference(name)["ids"], reference(name)["logits_full"]
    logits = logits_of(Session(model(name, isa), len(ids)), ids, 1 if phase == Phase.DECODE else None, phase)
    assert np.sqrt(np.mean((logits - expected) ** 2)) <= INT8_RMS
    assert np.mean(logits.argmax(axis=1) == expected.argmax(axis=1)) >= INT8_TOP1


@pytest.mark.parametrize("name", F32)
def test_what_enters_each_layer_equals_the_reference(name):
    z, m = reference(name), model(name, exact=True)
    ids = z["short_ids"]
    hidden = np.empty((m.n_layers + 1, len(ids), m.n_hidden), np.float32)
    Session(m, len(ids)).eval(ids, Phase.PREFILL, hidden=hidden)
    for layer in range(m.n_layers + 1):
        assert np.abs(hidden[layer] - z[f"short_hidden_{layer}"]).max() < 1e-4, f"layer {layer}"


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("name", F32)
def test_the_recurrent_state_equals_the_reference(name, phase):
    z, m = reference(name), model(name, exact=True)
    session = Session(m, len(z["short_ids"]))
    session.eval(z["short_ids"], phase)
    state = np.frombuffer(session.save().to_bytes(), np.float32)
    expected = z["state/recurrent.0"]  # value heads grouped by key head
    n_value_heads, size = len(expected), expected.size
    n_key_heads = (len(z["state/conv.0"]) // expected.shape[2] - n_value_heads) // 2
    group = n_value_heads // n_key_heads
    tiled = [head % group * n_key_heads + head // group for head in range(n_value_heads)]
    assert np.abs(state[:size].reshape(expected.shape)[tiled] - expected).max() < 1e-4


@pytest.mark.parametrize("split", [None, 1, 7, 65])
@pytest.mark.parametrize("name", F32)
def test_greedy_continuations_equal_the_reference(name, split):
    z = reference(name)
    session = Session(model(name, exact=True), 64)
    logits = logits_of(session, z["greedy_prompt"], split)[-1]
    generated = []
    for _ in z["greedy_out"]:
        generated.append(int(logits.argmax()))
        logits = session.eval(np.array(generated[-1:], np.int32), Phase.DECODE, n_logits=1)[0][0]
    assert generated == z["greedy_out"].tolist()


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("name", ["gva4.f32", "q.q4_k_m"])
def test_logits_do_not_depend_on_the_number_of_threads_or_of_tokens_at_once(name, isa):
    ids = np.tile(reference(name)["ids"], 9)[:600]
    expected = logits_of(Session(model(name, isa, n_threads=1), 600), ids)
    for n_threads, split in [(2, None), (3, 64), (2, 16), (5, 512)]:
        logits = logits_of(Session(model(name, isa, n_threads=n_threads), 600), ids, split)
        assert np.array_equal(logits, expected), f"{n_threads} threads, blocks of {split}"


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("name", ["gva4.f32", "q.q4_k_m", "q.iq4_mix"])
def test_tokens_decoded_together_give_the_logits_of_one_by_one(name, isa):
    ids = reference(name)["ids"]
    expected = logits_of(Session(model(name, isa), len(ids)), ids, 1, Phase.DECODE)
    for split in (3, 4, 9):
        logits = logits_of(Session(model(name, isa), len(ids)), ids, split, Phase.DECODE)
        assert np.array_equal(logits, expected), f"{split} at once"


@pytest.mark.parametrize("isa", native.isas())
def test_a_long_prompt_is_as_exact_as_a_short_one(isa):
    """Positions past 1000 and several attention tiles: rotary angles and the block cuts show there."""
    ids = np.tile(reference("eq.f32")["ids"], 17)[:1200]
    exact = logits_of(Session(model("eq.f32", isa, exact=True), 1200), ids, 200)
    decoded = logits_of(Session(model("eq.f32", "scalar", exact=True), 1200), ids, 1, Phase.DECODE)
    assert np.abs(exact - decoded).max() < EXACT_BOUND


def test_a08_the_mtp_block_of_a_file_changes_nothing(tmp_path):
    """A file with the block, with its two keys alone, and with neither."""
    whole = (ORACLE / "gva4.f32.gguf").read_bytes()
    key = b"qwen35.block_count" + struct.pack("<I", UINT32)
    counts = [key + struct.pack("<I", n_blocks) for n_blocks in (5, 4)]
    assert counts[0] in whole and b"blk.4.nextn." in whole
    keys_alone = whole.replace(b"blk.4.", b"other.")
    neither = keys_alone.replace(*counts).replace(b"nextn_predict_layers", b"other_number_of_some")
    ids = reference("gva4.f32")["ids"]
    for number, data in enumerate((whole, keys_alone, neither)):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(data)
        one = Model(ModelFile(path), n_threads=2, exact=True)
        assert one.n_layers == 4
        difference = logits_of(Session(one, len(ids)), ids) - reference("gva4.f32")["logits_full"]
        assert np.abs(difference).max() < EXACT_BOUND


BLOCKS = np.load(ORACLE / "quant_blocks.npz")
TYPES = {
    "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14,
    "IQ4_NL": 20, "IQ4_XS": 23, "F16": 1, "BF16": 30,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in TYPES if f"{name}/raw" in BLOCKS])
def test_quantized_blocks_decode_bit_for_bit(name):
    for raw, expected in zip(BLOCKS[f"{name}/raw"], BLOCKS[f"{name}/dequant"], strict=True):
        decoded = native.dequantize(TYPES[name], np.ascontiguousarray(raw), expected.size)
        assert decoded.tobytes() == expected.tobytes()


def test_every_type_the_loader_reads_is_in_the_block_fixture():
    assert {name for name in TYPES if f"{name}/raw" in BLOCKS} >= set(TYPES) - {"F16", "BF16"}
