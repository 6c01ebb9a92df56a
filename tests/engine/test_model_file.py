"""Model files, good and hostile."""

from __future__ import annotations

import resource
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from gguf_builder import Gguf, TensorEntry, pack, small_model, text

from engine.errors import ModelFileError
from engine.model_file import ModelFile

MODELS = [
    "eq.f32",
    "gva2.f32",
    "gva2.f16bf16",
    "gva4.f32",
    "q.q8_0",
    "q.q4_0",
    "q.q4_k_m",
    "q.q5_q6",
    "q.iq4_mix",
]


def refusal(path: Path) -> str:
    """Why the file is refused, without the file's name, which every refusal begins with."""
    with pytest.raises(ModelFileError) as caught:
        ModelFile(path)
    name, _, reason = str(caught.value).partition(": ")
    assert name == str(path)
    return reason


def refusal_of(gguf: Gguf, folder: Path) -> str:
    return refusal(gguf.write(folder))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_oracle_loads_and_its_tensors_lie_inside_the_file(oracle: Path, name: str) -> None:
    with ModelFile(oracle / f"{name}.gguf") as file:
        assert file.config.n_vocab == 512
        assert file.size == (oracle / f"{name}.gguf").stat().st_size
        assert file.tensors["token_embd.weight"].dims == (file.config.n_hidden, 512)
        assert all(tensor.offset + tensor.n_bytes <= file.size for tensor in file.tensors.values())


def test_tensor_data_is_where_the_table_says(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.tensors["output_norm.weight"].data = struct.pack("<32f", *range(32))
    with ModelFile(gguf.write(tmp_path)) as file:
        tensor = file.tensors["output_norm.weight"]
        data = bytes(file.buffer[tensor.offset : tensor.offset + tensor.n_bytes])
        assert (tensor.type_name, tensor.dims) == ("F32", (32,))
    assert struct.unpack("<32f", data) == tuple(range(32))


def test_sizes_come_from_the_keys(oracle: Path) -> None:
    with ModelFile(oracle / "gva4.f32.gguf") as file:
        config = file.config
        assert (config.n_key_heads, config.n_value_heads, config.conv_kernel) == (2, 8, 4)
        assert not config.tied
        assert config.recurrent_layers == tuple((layer + 1) % 2 != 0 for layer in range(config.n_layers))
    with ModelFile(oracle / "eq.f32.gguf") as file:
        assert file.config.tied
        assert file.config.rms_eps == pytest.approx(1e-6)
        assert file.config.rope_base == 1e7


def test_a_closed_file_can_not_be_read(oracle: Path) -> None:
    file = ModelFile(oracle / "eq.f32.gguf")
    file.close()
    with pytest.raises(ValueError, match="released"):
        file.buffer[0]


def test_a_file_is_not_closed_under_a_reader_of_its_weights(oracle: Path) -> None:
    file = ModelFile(oracle / "eq.f32.gguf")
    weights = file.buffer[:100]
    with pytest.raises(BufferError):
        file.close()
    weights.release()
    file.close()


def test_the_fingerprint_tells_models_apart_and_stays_the_same(oracle: Path, tmp_path: Path) -> None:
    fingerprints = []
    for name in MODELS:
        with ModelFile(oracle / f"{name}.gguf") as file:
            fingerprints.append(file.fingerprint)
    assert len(set(fingerprints)) == len(MODELS)
    with ModelFile(oracle / f"{MODELS[0]}.gguf") as file:
        assert file.fingerprint == fingerprints[0]

    gguf = small_model()
    with ModelFile(gguf.write(tmp_path)) as file:
        before = file.fingerprint
    gguf.tensors["token_embd.weight"].data = bytes([1]) * (18 * 288)
    with ModelFile(gguf.write(tmp_path)) as file:
        assert file.fingerprint != before


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGML" + bytes(60), b"<html>Not found</html>" * 3])
def test_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert "GGUF" in refusal(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.gguf")
    assert "cannot be read" in refusal(tmp_path)


@pytest.mark.parametrize(("version", "said"), [(2, "version 2,"), (4, "version 4,"), (3 << 24, "big-endian")])
def test_another_version_is_refused(tmp_path: Path, version: int, said: str) -> None:
    data = small_model().to_bytes()
    path = tmp_path / "model.gguf"
    path.write_bytes(data[:4] + struct.pack("<I", version) + data[8:])
    assert said in refusal(path)


@pytest.mark.parametrize("part", ["header", "tensor table", "last tensor", "last byte"])
def test_a01_a_short_file_is_refused_with_both_sizes(oracle: Path, tmp_path: Path, part: str) -> None:
    data = (oracle / "eq.f32.gguf").read_bytes()
    with ModelFile(oracle / "eq.f32.gguf") as file:
        last = max(file.tensors.values(), key=lambda tensor: tensor.offset)
    cut = {
        "header": 100,
        "tensor table": data.index(b"output_norm.weight") + 24,
        "last tensor": last.offset + last.n_bytes // 2,
        "last byte": len(data) - 1,
    }[part]
    path = tmp_path / "model.gguf"
    path.write_bytes(data[:cut])
    reason = refusal(path)
    assert f"{cut} bytes" in reason
    if part == "last byte":
        assert f"{last.name} (F32, {last.dims[0]}) ends at byte {len(data)}" in reason


def test_a01_no_cut_of_the_header_goes_unnoticed(tmp_path: Path) -> None:
    data = small_model().to_bytes()
    path = tmp_path / "model.gguf"
    for cut in [*range(600), *range(600, len(data), 97)]:
        path.write_bytes(data[:cut])
        refusal(path)


@pytest.mark.parametrize("dims", [(32, (1 << 42) + 1), ((1 << 63) - 1, 2), ((1 << 64) - 1, 2), (0, 32), (32, 0)])
def test_a02_dimensions_that_wrap_or_vanish_are_refused(tmp_path: Path, dims: tuple[int, ...]) -> None:
    gguf = small_model()
    gguf.tensors["output_norm.weight"].dims = dims
    assert refusal_of(gguf, tmp_path).startswith("tensor output_norm.weight ")


@pytest.mark.parametrize("n_dims", [0, 5, 9, 0xFFFFFFFF])
def test_a03_a_tensor_has_one_to_four_dimensions(tmp_path: Path, n_dims: int) -> None:
    gguf = small_model()
    gguf.tensors["output_norm.weight"].n_dims = n_dims
    assert refusal_of(gguf, tmp_path) == f"tensor output_norm.weight has {n_dims} dimensions, expected 1 to 4"


def absurd_files() -> dict[str, Gguf]:
    def with_key(value: bytes) -> Gguf:
        gguf = small_model()
        gguf.n_keys, gguf.extra_keys = len(gguf.keys) + 1, text("huge") + value
        return gguf

    keys, tensors = small_model(), small_model()
    keys.n_keys = tensors.n_tensors = 1 << 62
    return {
        "keys": keys,
        "tensors": tensors,
        "string": with_key(struct.pack("<IQ", 8, 1 << 40)),
        "longest string": with_key(struct.pack("<IQ", 8, (1 << 64) - 1)),
        "array": with_key(struct.pack("<IIQ", 9, 4, 1 << 60)),
        "string array": with_key(struct.pack("<IIQ", 9, 8, 1 << 60)),
        "string in an array": with_key(struct.pack("<IIQQ", 9, 8, 1, (1 << 64) - 1)),
        "strings past the end": with_key(struct.pack("<IIQQ", 9, 8, 100, 1 << 20)),
        "nested arrays": with_key(struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 1000),
        "key name": Gguf(n_keys=1, extra_keys=struct.pack("<Q", 1 << 40) + bytes(64)),
    }


@pytest.mark.parametrize("what", absurd_files())
def test_a04_absurd_sizes_are_refused_quickly_and_without_the_memory(tmp_path: Path, what: str) -> None:
    path = absurd_files()[what].write(tmp_path)
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    refusal(path)
    assert time.monotonic() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before < 8192  # KiB


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        ("token_type", "[]u8", [1] * 268),
        ("tokens", "[]i32", [1] * 268),
        ("merges", "[]u32", [1]),
        ("merges", None, None),
        ("tokens", "string", "a"),
        ("token_type", "[]i32", [1] * 267),
    ],
)
def test_a05_vocabulary_arrays_of_the_wrong_type_are_refused(
    tmp_path: Path, key: str, kind: str | None, value: Any
) -> None:
    gguf = small_model()
    del gguf.keys[f"tokenizer.ggml.{key}"]
    if kind is not None:
        gguf.keys[f"tokenizer.ggml.{key}"] = (kind, value)
    assert f"tokenizer.ggml.{key}" in refusal_of(gguf, tmp_path)


def test_more_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.tensors["token_embd.weight"] = TensorEntry((32, 200), 2, bytes(18 * 200))
    assert "has 268 tokens, expected 1 to 200" in refusal_of(gguf, tmp_path)


@pytest.mark.parametrize(("kind", "value"), [("u32", 0), ("u32", 3), ("u32", 4), ("i32", 32), ("u64", 32)])
def test_a06_an_alignment_that_is_none_is_refused(tmp_path: Path, kind: str, value: int) -> None:
    gguf = small_model()
    gguf.keys["general.alignment"] = (kind, value)
    assert refusal_of(gguf, tmp_path).startswith("key general.alignment is ")


def test_a06_the_data_start_honors_the_alignment(tmp_path: Path) -> None:
    for n_padding in range(0, 64, 8):  # the header ends at every multiple of 8 within 64 bytes
        gguf = small_model()
        gguf.alignment = 64
        gguf.keys["general.alignment"] = ("u32", 64)
        gguf.keys["general.description"] = ("string", "x" * n_padding)
        gguf.tensors["output_norm.weight"].data = struct.pack("<32f", *range(32))
        with ModelFile(gguf.write(tmp_path)) as file:
            tensor = file.tensors["output_norm.weight"]
            assert tensor.offset % 64 == 0
            assert bytes(file.buffer[tensor.offset :]).startswith(struct.pack("<4f", 0, 1, 2, 3))


def test_a_tensor_off_the_alignment_is_refused(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.tensors["output_norm.weight"].offset = 16
    assert "offset 16, expected a multiple of alignment 32" in refusal_of(gguf, tmp_path)


@pytest.mark.parametrize("value", [0xFFFFFFFF, 268])
def test_a07_a_special_id_outside_the_vocabulary_is_refused(tmp_path: Path, value: int) -> None:
    gguf = small_model()
    gguf.keys["tokenizer.ggml.eos_token_id"] = ("u32", value)
    reason = refusal_of(gguf, tmp_path)
    assert reason == f"key tokenizer.ggml.eos_token_id is {value}, the vocabulary has tokens 0 to 267"


def test_a08_prediction_blocks_are_not_layers(oracle: Path, tmp_path: Path) -> None:
    with ModelFile(oracle / "gva4.f32.gguf") as file:
        n_blocks = file.metadata["qwen35.block_count"]
        assert file.metadata["qwen35.nextn_predict_layers"] == 1
        assert file.config.n_layers == n_blocks - 1

    gguf = small_model()
    with ModelFile(gguf.write(tmp_path)) as file:
        plain = file.config
    gguf.keys["qwen35.block_count"] = ("u32", 5)
    gguf.keys["qwen35.nextn_predict_layers"] = ("u32", 1)
    with ModelFile(gguf.write(tmp_path)) as file:
        assert file.config == plain


def test_a08_more_prediction_blocks_than_blocks_are_refused(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.keys["qwen35.nextn_predict_layers"] = ("u32", 4)
    assert "nextn_predict_layers is 4, expected less than block_count, which is 4" in refusal_of(gguf, tmp_path)


@pytest.mark.parametrize("bare_key", [False, True])
def test_a09_there_is_no_default_number_of_layers(tmp_path: Path, bare_key: bool) -> None:
    gguf = small_model()
    del gguf.keys["qwen35.block_count"]
    if bare_key:
        gguf.keys["block_count"] = ("u32", 4)
    assert refusal_of(gguf, tmp_path) == "key qwen35.block_count is missing"


def test_a09_more_layers_than_tensors_are_refused(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.keys["qwen35.block_count"] = ("u32", (1 << 31) - 1)
    assert "2147483647 layers declared" in refusal_of(gguf, tmp_path)


@pytest.mark.parametrize(
    ("number", "name"), [(16, "IQ2_XXS (number 16)"), (10, "Q2_K"), (15, "Q8_K"), (999, "unknown")]
)
def test_a10_a_type_that_is_not_implemented_is_refused_by_name(tmp_path: Path, number: int, name: str) -> None:
    gguf = small_model()
    gguf.tensors["blk.2.attn_norm.weight"].type = number
    reason = refusal_of(gguf, tmp_path)
    assert reason.startswith(f"tensor blk.2.attn_norm.weight has type {name}")


def test_a10_every_implemented_type_may_be_in_one_file(tmp_path: Path) -> None:
    block_bytes = {0: 1024, 1: 512, 30: 512, 2: 144, 3: 160, 6: 176, 7: 192, 8: 272, 20: 144}
    block_bytes |= {11: 110, 12: 144, 13: 176, 14: 210, 23: 136}  # bytes of 256 values
    gguf = small_model()
    for number, n_bytes in block_bytes.items():
        gguf.tensors[f"extra.{number}"] = TensorEntry((256, 3), number, bytes(3 * n_bytes))
    with ModelFile(gguf.write(tmp_path)) as file:
        assert {n: file.tensors[f"extra.{n}"].n_bytes for n in block_bytes} == {
            n: 3 * n_bytes for n, n_bytes in block_bytes.items()
        }


def test_a_row_that_is_no_whole_number_of_blocks_is_refused(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.tensors["extra"] = TensorEntry((128, 4), 12, bytes(1024))
    assert refusal_of(gguf, tmp_path) == "tensor extra has rows of 128, Q4_K needs a multiple of 256"


@pytest.mark.parametrize(
    ("key", "kind", "value", "said"),
    [
        ("general.architecture", "string", "qwen35moe", "qwen35moe (a mixture of experts)"),
        ("general.architecture", "string", "llama", "architecture llama"),
        ("general.architecture", "u32", 1, "u32, expected string"),
        ("qwen35.rope.scaling.type", "string", "yarn", "rope scaling"),
        ("qwen35.attention.value_length", "u32", 32, "16, expected attention.value_length, 32"),
        ("qwen35.ssm.conv_kernel", "u32", 3, "3, expected 4"),
        ("qwen35.ssm.inner_size", "u32", 64, "64, expected time_step_rank x state_size = 32"),
        ("qwen35.embedding_length", "f32", 32.0, "f32, expected u32"),
        ("qwen35.embedding_length", "u32", 0, "0, expected 1 to"),
        ("qwen35.rope.freq_base", "f32", float("nan"), "nan, expected a positive number"),
        ("qwen35.attention.layer_norm_rms_epsilon", "f32", -1.0, "-1.0, expected a positive number"),
        ("qwen35.attention.recurrent_layers", "[]u32", [1, 1, 1, 0], "u32[4], expected bool[] for 4 layers"),
        ("qwen35.attention.recurrent_layers", "[]bool", [1, 1], "bool[2], expected bool[] for 4 layers"),
        ("split.count", "u16", 3, "one of 3 parts of a split model"),
        ("tokenizer.chat_template", "[]string", ["a"], "array, expected string"),
    ],
)
def test_a_key_that_this_engine_can_not_follow_is_refused(
    tmp_path: Path, key: str, kind: str, value: Any, said: str
) -> None:
    gguf = small_model()
    gguf.keys[key] = (kind, value)
    assert said in refusal_of(gguf, tmp_path)


@pytest.mark.parametrize("key", small_model().keys)
def test_keys_without_a_default_are_needed(tmp_path: Path, key: str) -> None:
    optional = {"general.name", "qwen35.full_attention_interval", "tokenizer.ggml.eos_token_id"}
    of_the_tokenizer = {"tokenizer.ggml.model", "tokenizer.ggml.pre"}
    gguf = small_model()
    del gguf.keys[key]
    if key in optional | of_the_tokenizer:
        ModelFile(gguf.write(tmp_path)).close()
    else:
        assert key in refusal_of(gguf, tmp_path)


def test_a_recurrent_layers_array_outranks_the_interval(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.keys["qwen35.attention.recurrent_layers"] = ("[]bool", [True, False, True, False, False])
    with ModelFile(gguf.write(tmp_path)) as file:
        assert file.config.recurrent_layers == (True, False, True, False)


def test_names_that_appear_twice_are_refused(tmp_path: Path) -> None:
    gguf = small_model()
    gguf.n_keys = len(gguf.keys) + 1
    gguf.extra_keys = text("general.name") + struct.pack("<I", 8) + pack("string", "again")
    assert refusal_of(gguf, tmp_path) == "key general.name appears twice"

    gguf = small_model()
    gguf.n_tensors = len(gguf.tensors) + 1
    gguf.extra_tensors = text("output_norm.weight") + struct.pack("<IQIQ", 1, 32, 0, 0)
    assert refusal_of(gguf, tmp_path) == "tensor output_norm.weight appears twice"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (struct.pack("<I", 13), "value type 13"),
        (struct.pack("<IB", 7, 2), "a bool of value 2"),
        (struct.pack("<IQ", 8, 2) + b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_value_that_is_none_is_refused(tmp_path: Path, value: bytes, said: str) -> None:
    gguf = small_model()
    gguf.n_keys, gguf.extra_keys = len(gguf.keys) + 1, text("odd") + value
    reason = refusal_of(gguf, tmp_path)
    assert reason.startswith("key odd")
    assert said in reason


def test_changing_any_byte_of_a_header_loads_or_is_refused_in_words(tmp_path: Path) -> None:
    gguf = small_model()
    data, n_header = bytearray(gguf.to_bytes()), len(gguf.header())
    path = tmp_path / "model.gguf"
    refused = 0
    for position in [*range(900), *range(900, n_header, 7)]:
        changed = bytearray(data)
        changed[position] ^= 0xFF
        path.write_bytes(changed)
        try:
            ModelFile(path).close()
        except ModelFileError:
            refused += 1
    assert refused > 500
