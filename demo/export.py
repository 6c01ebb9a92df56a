"""Write a trained demo model as GGUF files: F32, Q8_0 and the Q4_K_M mix, with vocabulary and chat template inside.

PYTHONPATH=bench:. python -m demo.export --out build/demo

transformers stores norms around 0 and groups the value heads of a key head; a GGUF file stores norms around 1 and
has the value heads in turns, so that value head h uses key head h mod n.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch
from gguf import GGMLQuantizationType as Type
from transformers import Qwen3_5TextConfig

from demo import vocabulary
from demo.samples import TEMPLATE
from demo.train import config
from synth_vocab import Vocabulary
from synth_weights import encode

Array = npt.NDArray[np.float32]

FILE_TYPES = {"f32": 0, "q8_0": 7, "q4_k_m": 15}
NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


def tensors(weights: dict[str, torch.Tensor], c: Qwen3_5TextConfig) -> Iterator[tuple[str, Array]]:
    """Names and values as a GGUF file has them."""
    for name, tensor in weights.items():
        values: Array = tensor.float().numpy()
        if name == "model.embed_tokens.weight":
            yield "token_embd.weight", values
        elif name == "model.norm.weight":
            yield "output_norm.weight", values + 1
        elif name != "lm_head.weight":  # tied
            layer, leaf = name.removeprefix("model.layers.").split(".", 1)
            yield f"blk.{layer}.{NAMES[leaf]}", _converted(leaf, values, c)


def _converted(leaf: str, values: Array, c: Qwen3_5TextConfig) -> Array:
    dim = c.linear_value_head_dim
    n_keys = 2 * c.linear_num_key_heads * c.linear_key_head_dim  # rows of queries and keys
    if leaf == "linear_attn.A_log":
        return _in_turns(-np.exp(values), c, 1)
    if leaf in ("linear_attn.dt_bias", "linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"):
        return _in_turns(values, c, 1)
    if leaf == "linear_attn.in_proj_z.weight":
        return _in_turns(values, c, dim)
    if leaf in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight"):
        rows = values.reshape(len(values), -1)
        return np.concatenate([rows[:n_keys], _in_turns(rows[n_keys:], c, dim)])
    if leaf == "linear_attn.out_proj.weight":
        return _in_turns(values.T, c, dim).T
    if "norm" in leaf and leaf != "linear_attn.norm.weight":
        return values + 1
    return values


def _in_turns(rows: Array, c: Qwen3_5TextConfig, n_rows: int) -> Array:
    """Value heads of ``n_rows`` rows each, from key head by key head to one of each key head in turn."""
    n_keys, n_values = c.linear_num_key_heads, c.linear_num_value_heads
    heads = rows.reshape(n_keys, n_values // n_keys, n_rows, *rows.shape[1:])
    return heads.swapaxes(0, 1).reshape(rows.shape)


def tensor_type(name: str, values: Array, kind: str) -> Type:
    """Matrices are quantized, all but the two that make a few numbers a token."""
    if values.ndim == 1 or "conv1d" in name or "ssm_alpha" in name or "ssm_beta" in name:
        return Type.F32
    if kind != "q4_k_m":
        return Type[kind.upper()]
    if name == "token_embd.weight" or "attn_v" in name or "ffn_down" in name:
        return Type.Q6_K
    return Type.Q5_K if "attn_qkv" in name else Type.Q4_K


def add_keys(writer: gguf.GGUFWriter, c: Qwen3_5TextConfig, kind: str) -> None:
    writer.add_string("general.type", "model")
    writer.add_string("general.name", "qwarm demo")
    writer.add_uint32("general.file_type", FILE_TYPES[kind])
    writer.add_uint32("general.quantization_version", 2)
    rope = c.rope_parameters
    numbers = {
        "block_count": c.num_hidden_layers,
        "context_length": c.max_position_embeddings,
        "embedding_length": c.hidden_size,
        "feed_forward_length": c.intermediate_size,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads,
        "attention.key_length": c.head_dim,
        "attention.value_length": c.head_dim,
        "rope.dimension_count": int(c.head_dim * rope["partial_rotary_factor"]),
        "full_attention_interval": c.layer_types.index("full_attention") + 1,
        "ssm.conv_kernel": c.linear_conv_kernel_dim,
        "ssm.state_size": c.linear_value_head_dim,
        "ssm.group_count": c.linear_num_key_heads,
        "ssm.time_step_rank": c.linear_num_value_heads,
        "ssm.inner_size": c.linear_value_head_dim * c.linear_num_value_heads,
    }
    for key, number in numbers.items():
        writer.add_uint32(f"qwen35.{key}", number)
    writer.add_float32("qwen35.attention.layer_norm_rms_epsilon", c.rms_norm_eps)
    writer.add_float32("qwen35.rope.freq_base", rope["rope_theta"])
    writer.add_array("qwen35.rope.dimension_sections", [*rope["mrope_section"], 0])


def add_vocabulary(writer: gguf.GGUFWriter, words: Vocabulary) -> None:
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.add_string("tokenizer.ggml.pre", "qwen35")
    writer.add_array("tokenizer.ggml.tokens", words.tokens)
    writer.add_array("tokenizer.ggml.token_type", words.types)
    writer.add_array("tokenizer.ggml.merges", words.merges)
    writer.add_uint32("tokenizer.ggml.eos_token_id", words.id("<|im_end|>"))
    writer.add_uint32("tokenizer.ggml.padding_token_id", words.id("<|endoftext|>"))
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_string("tokenizer.chat_template", TEMPLATE.read_text())


def write(path: Path, weights: dict[str, torch.Tensor], words: Vocabulary, kind: str) -> None:
    """The file appears under its name only when it is complete."""
    c = config(len(words.tokens), words.id("<|im_end|>"))
    partial = path.with_name(path.name + ".partial")
    writer = gguf.GGUFWriter(partial, "qwen35")
    add_keys(writer, c, kind)
    add_vocabulary(writer, words)
    for name, values in tensors(weights, c):
        values = np.ascontiguousarray(values)
        type_ = tensor_type(name, values, kind)
        writer.add_tensor(name, values if type_ == Type.F32 else encode(values, type_), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a trained demo model as GGUF files.")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where demo.train left the checkpoint")
    args = parser.parse_args()
    words = vocabulary.load(args.out / "vocabulary.json")
    weights = torch.load(args.out / "checkpoint.pt")["model"]
    for kind in FILE_TYPES:
        path = args.out / f"qwarm-demo-{kind}.gguf"
        write(path, weights, words, kind)
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
