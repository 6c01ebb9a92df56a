"""Write a synthetic Qwen3.5 model: random weights of a released model's shape and types, the real vocabulary.

python bench/make_synth.py --size 0.8b --type q4_k_m build/models/synth-0.8b-q4_k_m.gguf

Deterministic.  Speed, memory and numerics can be measured with it before there are weights worth running.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import gguf

import synth_vocab
from synth_weights import CONV_KERNEL, FULL_ATTENTION_INTERVAL, SHAPES, Shape, Weights, add_tensors

TEMPLATE = Path(__file__).with_name("synth_template.jinja")
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7, "q4_k_m": 15, "bf16": 32}


def add_keys(writer: gguf.GGUFWriter, shape: Shape, kind: str, mtp: bool) -> None:
    writer.add_string("general.type", "model")
    writer.add_string("general.name", "Synthetic Qwen3.5")
    writer.add_uint32("general.file_type", FILE_TYPES[kind])
    writer.add_uint32("general.quantization_version", 2)
    numbers = {
        "block_count": shape.n_layers + int(mtp),
        "context_length": 262144,
        "embedding_length": shape.n_hidden,
        "feed_forward_length": shape.n_ffn,
        "attention.head_count": shape.n_heads,
        "attention.head_count_kv": shape.n_kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "rope.dimension_count": shape.head_dim // 4,
        "full_attention_interval": FULL_ATTENTION_INTERVAL,
        "ssm.conv_kernel": CONV_KERNEL,
        "ssm.state_size": shape.delta_dim,
        "ssm.group_count": shape.n_key_heads,
        "ssm.time_step_rank": shape.n_value_heads,
        "ssm.inner_size": shape.delta_dim * shape.n_value_heads,
    }
    if mtp:
        numbers["nextn_predict_layers"] = 1
    for key, number in numbers.items():
        writer.add_uint32(f"qwen35.{key}", number)
    writer.add_float32("qwen35.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_float32("qwen35.rope.freq_base", 1e7)
    writer.add_array("qwen35.rope.dimension_sections", [11, 11, 10, 0])


def add_tokenizer(writer: gguf.GGUFWriter, vocabulary: synth_vocab.Vocabulary) -> None:
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.add_string("tokenizer.ggml.pre", "qwen35")
    writer.add_array("tokenizer.ggml.tokens", vocabulary.tokens)
    writer.add_array("tokenizer.ggml.token_type", vocabulary.types)
    writer.add_array("tokenizer.ggml.merges", vocabulary.merges)
    writer.add_uint32("tokenizer.ggml.eos_token_id", vocabulary.id("<|im_end|>"))
    writer.add_uint32("tokenizer.ggml.padding_token_id", vocabulary.id("<|endoftext|>"))
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_string("tokenizer.chat_template", TEMPLATE.read_text())


def write_model(path: Path, shape: Shape, kind: str, seed: int, mtp: bool = False) -> None:
    """The file appears under its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    writer = gguf.GGUFWriter(partial, "qwen35")
    add_keys(writer, shape, kind, mtp)
    add_tokenizer(writer, synth_vocab.load(shape.n_vocab))
    add_tensors(Weights(writer, shape, kind, seed), mtp)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a synthetic Qwen3.5 model.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=SHAPES, default="0.8b")
    parser.add_argument("--type", choices=FILE_TYPES, default="q4_k_m")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--vocab", type=int, default=synth_vocab.FULL_SIZE, help="tokens, cut by rank when fewer")
    parser.add_argument("--layers", type=int, help="fewer or more layers than the size has")
    parser.add_argument("--mtp", action="store_true", help="append a block that drafts tokens")
    args = parser.parse_args()
    shape = replace(SHAPES[args.size], n_vocab=args.vocab)
    if args.layers:
        shape = replace(shape, n_layers=args.layers)
    write_model(args.out, shape, args.type, args.seed, args.mtp)
    print(f"{args.out}: {args.out.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
