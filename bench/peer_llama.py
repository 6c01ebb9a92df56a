"""llama.cpp's speed on a model file, as one JSON line.  Runs where llama-cpp-python is installed.

python peer_llama.py MODEL --prompt 421 --generate 32 --threads 2 --repack 0

Its low-level functions are called directly, so no Python runs between tokens that ours would not run too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import resource
import time

import llama_cpp

BATCH = 2048
MICRO_BATCH = 512


class Peer:
    """A loaded model and a context that fits the measurement."""

    def __init__(self, path: str, n_context: int, threads: int, repack: bool) -> None:
        llama_cpp.llama_backend_init()
        model_options = llama_cpp.llama_model_default_params()
        model_options.use_extra_bufts = repack
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_options)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = n_context, BATCH, MICRO_BATCH
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)

    def reset(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def eval(self, tokens: list[int]) -> None:
        for start in range(0, len(tokens), BATCH):
            part = tokens[start : start + BATCH]
            ids = (ctypes.c_int32 * len(part))(*part)  # the batch only points at it
            batch = llama_cpp.llama_batch_get_one(ids, len(part))
            if llama_cpp.llama_decode(self.context, batch):
                raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)


def seconds(peer: Peer, tokens: list[int], prompt: int) -> tuple[float, float]:
    """Time of the prefill, and of the tokens after it one by one."""
    peer.reset()
    start_s = time.perf_counter()
    peer.eval(tokens[:prompt])
    prefilled_s = time.perf_counter()
    for token in tokens[prompt:]:
        peer.eval([token])
    return prefilled_s - start_s, time.perf_counter() - prefilled_s


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure llama.cpp's speed on a model.")
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=421)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repack", type=int, choices=(0, 1), default=0, help="let it rearrange weights at load")
    args = parser.parse_args()
    peer = Peer(args.model, args.prompt + args.generate + 64, args.threads, bool(args.repack))
    draw = random.Random(0)
    tokens = [draw.randrange(240000) for _ in range(args.prompt + args.generate)]
    seconds(peer, tokens[: min(args.prompt, 64)] + tokens[-2:], min(args.prompt, 64))  # pages the weights in
    prefill_s, decode_s = seconds(peer, tokens, args.prompt)
    result = {
        "prefill_tok_s": args.prompt / prefill_s,
        "decode_tok_s": args.generate / decode_s if args.generate else None,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
