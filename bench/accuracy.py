"""What fast arithmetic costs: the KL divergence, rms error and top token of our two paths and of llama.cpp's.

python bench/accuracy.py MODEL --peer-python build/peers-venv/bin/python --out build/bench

All against our exact path (float32 activations, dequantized weights), over the same random tokens.  Synthetic
weights make flatter and more fragile distributions than trained ones, so only the order and the ratios tell.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from engine.model_file import ModelFile
from engine.native import Floats, Ids, Model, Phase, Session

N_TOKENS = 96
MOST_OVER_PEER = 1.3


def our_logits(file: ModelFile, ids: Ids, phase: Phase, *, exact: bool = False) -> Floats:
    model = Model(file, n_threads=len(os.sched_getaffinity(0)), exact=exact)
    logits, _ = Session(model, len(ids)).eval(ids, phase, n_logits=len(ids))
    return logits


def peer_logits(python: Path, model: Path, ids: Ids) -> Floats:
    script = Path(__file__).with_name("peer_logits.py")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/ids.npy", ids)
        command = (str(python), str(script), str(model), f"{folder}/ids.npy", f"{folder}/logits.npy")
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        logits: Floats = np.load(f"{folder}/logits.npy")
    return logits


def log_softmax(logits: Floats) -> Floats:
    shifted: Floats = logits - logits.max(1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True, dtype=np.float64))
    return result


def errors(logits: Floats, exact: Floats) -> dict[str, float]:
    p, q = log_softmax(exact), log_softmax(logits)
    return {
        "kl": float((np.exp(p) * (p - q)).sum(1).mean()),
        "rms": float(np.sqrt(np.square(logits - exact, dtype=np.float64).mean())),
        "top_1": float((logits.argmax(1) == exact.argmax(1)).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what fast arithmetic costs in accuracy.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer-python", type=Path, required=True, help="a Python that has llama-cpp-python")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    args = parser.parse_args()
    with ModelFile(args.model) as file:
        ids = np.random.default_rng(3).integers(0, min(240000, file.config.n_vocab), N_TOKENS).astype(np.int32)
        exact = our_logits(file, ids, Phase.PREFILL, exact=True)
        result = {
            "prefill (P8)": errors(our_logits(file, ids, Phase.PREFILL), exact),
            "decode (GEMV)": errors(our_logits(file, ids, Phase.DECODE), exact),
            "llama.cpp": errors(peer_logits(args.peer_python, args.model, ids), exact),
        }
    for name, found in result.items():
        print(f"{name:14} KL {found['kl']:.4f}  rms {found['rms']:.4f}  top-1 {found['top_1']:.3f}")
    ratio = result["prefill (P8)"]["kl"] / result["llama.cpp"]["kl"]
    print(f"prefill's KL is {ratio:.2f} x llama.cpp's, at most {MOST_OVER_PEER} expected; {N_TOKENS} tokens")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"accuracy-{args.model.stem}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
