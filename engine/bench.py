"""``python -m engine bench``: load time, prefill and decode speed, memory.

Prompts are random tokens: speed does not depend on which.  Each figure is the median of its runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.commands import add_model_arguments
from engine.model_file import ModelFile
from engine.native import Ids, Model, Phase, Session
from engine.progress import progress_bar

if TYPE_CHECKING:
    from engine.commands import Subcommands


def add_bench(subcommands: Subcommands) -> None:
    """The ``bench`` command."""
    parser = subcommands.add_parser("bench", help="measure prefill and decode speed")
    add_model_arguments(parser)
    parser.add_argument(
        "--prompt", default="421", help="prompt lengths in tokens, comma separated; default: %(default)s"
    )
    parser.add_argument("--generate", type=int, default=32, help="tokens to decode, 0 for none; default: %(default)s")
    parser.add_argument("--context", type=int, help="tokens; default: what the longest run needs")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.set_defaults(run=run_bench)


def run_bench(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    lengths = [int(part) for part in arguments.prompt.split(",")]
    started = time.perf_counter()
    with ModelFile(arguments.model) as file:
        model = Model(file, n_threads=arguments.threads, isa=arguments.isa)
        load_ms = (time.perf_counter() - started) * 1e3
        context = arguments.context or max(lengths) + arguments.generate
        session = Session(model, context)
        ids = np.random.default_rng(0).integers(0, file.config.n_vocab, context).astype(np.int32)
        runs = len(lengths) * arguments.repeat + 1 + bool(arguments.generate) * arguments.repeat
        with progress_bar(runs, "runs") as advance:
            _prefill_seconds(session, ids[: min(lengths)])  # reads the file into memory, wakes the threads
            advance(1)
            prefill: dict[int, float] = {}
            for length in lengths:
                times = []
                for _ in range(arguments.repeat):
                    times.append(_prefill_seconds(session, ids[:length]))
                    advance(1)
                prefill[length] = length / statistics.median(times)
            decode = []
            for _ in range(arguments.repeat if arguments.generate else 0):
                decode.append(_decode_tok_s(session, ids[: lengths[0]], arguments.generate))
                advance(1)
        result: dict[str, Any] = {
            "model": file.name,
            "file_bytes": file.size,
            "threads": arguments.threads,
            "kernel": f"{model.isa}/{model.gemm}",
            "load_ms": round(load_ms, 1),
            "prefill_tok_s": {str(length): round(speed, 1) for length, speed in prefill.items()},
            "decode_tok_s": round(statistics.median(decode), 2) if decode else None,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        del session, model
    print(json.dumps(result) if arguments.json else _table(result))


def _prefill_seconds(session: Session, ids: Ids) -> float:
    session.reset()
    started = time.perf_counter()
    session.eval(ids, Phase.PREFILL, n_logits=1)
    return time.perf_counter() - started


def _decode_tok_s(session: Session, prompt: Ids, n_tokens: int) -> float:
    _prefill_seconds(session, prompt)
    started = time.perf_counter()
    for token in range(n_tokens):
        session.eval(np.array([token], np.int32), Phase.DECODE, n_logits=1)
    return n_tokens / (time.perf_counter() - started)


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['model']}: {result['kernel']}, {result['threads']} threads",
        f"load          {result['load_ms']:8.1f} ms",
    ]
    lines += [f"prefill {length:>5} {speed:8.1f} tok/s" for length, speed in result["prefill_tok_s"].items()]
    if result["decode_tok_s"] is not None:
        lines.append(f"decode        {result['decode_tok_s']:8.2f} tok/s")
    lines.append(
        f"peak memory   {result['peak_rss_bytes'] / 1e6:8.1f} MB, the file is {result['file_bytes'] / 1e6:,.1f} MB"
    )
    return "\n".join(lines)
