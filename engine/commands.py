"""Subcommands of ``python -m engine`` that look at what a model computes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np

from engine.memory import machine_memory, plan_memory
from engine.model_file import ModelFile
from engine.native import Ids, Model, Phase, Session, top_logits
from engine.progress import progress_bar
from engine.request import Sampling
from engine.sampling import Sampler
from engine.text_stream import Utf8Stream
from engine.threads import default_thread_count
from engine.tokenizer import Tokenizer

_BLOCK_TOKENS = 512  # what the engine evaluates together; progress is shown in between

if TYPE_CHECKING:
    Subcommands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command that computes needs to know."""
    parser.add_argument("model", metavar="MODEL", help="a GGUF file of a Qwen3.5-family model")
    parser.add_argument("--threads", type=int, default=default_thread_count(), help="default: %(default)s")
    parser.add_argument("--isa", help="a kernel set this CPU runs; default: its best")


def add_logits(subcommands: Subcommands) -> None:
    """The ``logits`` command."""
    parser = subcommands.add_parser("logits", help="write the logits of each token of a prompt to a .npy file")
    add_model_arguments(parser)
    ids = parser.add_mutually_exclusive_group(required=True)
    ids.add_argument("--ids", help="token ids, comma separated")
    ids.add_argument("--ids-file", help="a .npy file of token ids")
    parser.add_argument(
        "--split",
        type=int,
        metavar="N",
        default=_BLOCK_TOKENS,
        help="prefill in blocks of N tokens; default: %(default)s",
    )
    parser.add_argument("--decode", action="store_true", help="evaluate as generated tokens, one by one")
    parser.add_argument("--exact", action="store_true", help="f32 activations x dequantized weights: the reference")
    parser.add_argument("--out", required=True, help="the .npy file to write: float32, one row per id")
    parser.set_defaults(run=run_logits)


def run_logits(arguments: argparse.Namespace) -> None:
    """Evaluate the ids and keep every row."""
    ids = _read_ids(arguments)
    split = arguments.split
    if split < 1:
        raise ValueError(f"--split is {split}, expected at least 1")
    with ModelFile(arguments.model) as file:
        model = Model(file, n_threads=arguments.threads, isa=arguments.isa, exact=arguments.exact)
        session = Session(model, len(ids))
        phase = Phase.DECODE if arguments.decode else Phase.PREFILL
        rows = []
        with progress_bar(len(ids), "tokens") as advance:
            for start in range(0, len(ids), split):
                block = ids[start : start + split]
                rows.append(session.eval(block, phase, n_logits=len(block))[0])
                advance(len(block))
        np.save(arguments.out, np.concatenate(rows))
        del session, model


def _read_ids(arguments: argparse.Namespace) -> Ids:
    if arguments.ids is not None:
        ids = np.array([int(part) for part in arguments.ids.split(",")], np.int64)
    else:
        ids = np.load(arguments.ids_file, allow_pickle=False)
    if ids.ndim != 1 or ids.size == 0 or not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"ids have shape {ids.shape} and type {ids.dtype}, expected a list of integers")
    if ids.min() < 0 or ids.max() > np.iinfo(np.int32).max:
        raise ValueError(f"ids run from {ids.min()} to {ids.max()}, expected token ids")
    return ids.astype(np.int32)


def add_generate(subcommands: Subcommands) -> None:
    """The ``generate`` command."""
    parser = subcommands.add_parser("generate", help="continue a text, without a chat template")
    add_model_arguments(parser)
    parser.add_argument("--prompt", required=True, help="special tokens in it are matched by spelling")
    parser.add_argument("--max-tokens", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: always the likeliest; default: %(default)s")
    parser.add_argument("--seed", type=int, help="for the same choices again")
    parser.add_argument("--exact", action="store_true", help="f32 activations x dequantized weights: the reference")
    parser.set_defaults(run=run_generate)


def run_generate(arguments: argparse.Namespace) -> None:
    """Print the continuation as it comes."""
    with ModelFile(arguments.model) as file:
        tokenizer = Tokenizer(file)
        ids = tokenizer.encode_with_specials(arguments.prompt)
        if not ids:
            raise ValueError("the prompt is empty")
        model = Model(file, n_threads=arguments.threads, isa=arguments.isa, exact=arguments.exact)
        session = Session(model, len(ids) + arguments.max_tokens)
        sampling = Sampling(temperature=arguments.temperature, seed=arguments.seed)
        sampler = Sampler(sampling, tokenizer.n_real, prompt=ids, top_logits=top_logits)
        text = Utf8Stream()
        with progress_bar(len(ids), "tokens") as advance:
            for start in range(0, len(ids), _BLOCK_TOKENS):
                block = np.array(ids[start : start + _BLOCK_TOKENS], np.int32)
                logits, _ = session.eval(block, Phase.PREFILL, n_logits=1)
                advance(len(block))
        for _ in range(arguments.max_tokens):
            token = sampler.choose(logits[0])
            if token in tokenizer.stop_ids:
                break
            sampler.accept(token)
            sys.stdout.write(text.feed(tokenizer.decode_bytes(token)))
            sys.stdout.flush()
            logits, _ = session.eval(np.array([token], np.int32), Phase.DECODE, n_logits=1)
        print(text.finish())
        del session, model


def add_inspect(subcommands: Subcommands) -> None:
    """The ``inspect`` command."""
    parser = subcommands.add_parser("inspect", help="say what a model file holds and what memory it needs")
    parser.add_argument("model", metavar="MODEL", help="a GGUF file of a Qwen3.5-family model")
    parser.add_argument("--context", type=int, help="tokens; default: what the memory allows")
    parser.add_argument("--memory-mb", type=int, help="the function's memory; default: this machine's")
    parser.set_defaults(run=run_inspect)


def run_inspect(arguments: argparse.Namespace) -> None:
    """Print sizes, types, and how the memory would be shared out."""
    with ModelFile(arguments.model) as file:
        c = file.config
        recurrent = sum(c.recurrent_layers)
        print(f"{file.name}: {file.size / 1e6:,.1f} MB, fingerprint {file.fingerprint}")
        print(f"layers       {c.n_layers}: {recurrent} Gated DeltaNet, {c.n_layers - recurrent} attention")
        print(f"hidden       {c.n_hidden}, feed-forward {c.n_ffn}, vocabulary {c.n_vocab}")
        print(f"attention    {c.n_heads} query and {c.n_kv_heads} KV heads of {c.head_dim}")
        print(f"delta heads  {c.n_key_heads} key and {c.n_value_heads} value heads of {c.delta_head_dim}")
        for type_name in sorted({tensor.type_name for tensor in file.tensors.values()}):
            sizes = [t.n_bytes for t in file.tensors.values() if t.type_name == type_name]
            print(f"{type_name:<12} {len(sizes)} tensors, {sum(sizes) / 1e6:,.1f} MB")
        model = Model(file, n_threads=1)
        memory_bytes = arguments.memory_mb << 20 if arguments.memory_mb else machine_memory()
        plan = plan_memory(
            memory_bytes=memory_bytes,
            file_bytes=file.size,
            workspace_bytes=model.workspace_bytes,
            state_bytes=model.state_bytes,
            kv_token_bytes=model.kv_token_bytes,
            trained_context=c.context_length,
            context=arguments.context,
            cache_bytes=None,
        )
        print(f"state        {model.state_bytes / 1e6:,.1f} MB, {model.kv_token_bytes:,} bytes a token")
        print(
            f"in {memory_bytes >> 20:,} MiB: context {plan.context:,} tokens, "
            f"{plan.cache_bytes >> 20:,} MiB for snapshots"
        )
        del model
