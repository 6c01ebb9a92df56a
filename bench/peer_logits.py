"""llama.cpp's logits of every token, as a NumPy file.  Runs where llama-cpp-python is installed.

python peer_logits.py MODEL IDS.npy LOGITS.npy
"""

from __future__ import annotations

import sys

import llama_cpp
import numpy as np

from peer_llama import Peer


def logits(peer: Peer, ids: list[int], n_vocab: int) -> np.ndarray:
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    for position, token in enumerate(ids):
        batch.token[position] = token
        batch.pos[position] = position
        batch.n_seq_id[position] = 1
        batch.seq_id[position][0] = 0
        batch.logits[position] = 1
    batch.n_tokens = len(ids)
    if llama_cpp.llama_decode(peer.context, batch):
        raise SystemExit("llama_decode failed")
    rows = [llama_cpp.llama_get_logits_ith(peer.context, position) for position in range(len(ids))]
    return np.stack([np.ctypeslib.as_array(row, shape=(n_vocab,)) for row in rows])


def main() -> None:
    model, ids_path, logits_path = sys.argv[1:]
    ids = np.load(ids_path).tolist()
    peer = Peer(model, len(ids) + 64, threads=2, repack=False)
    n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(peer.model))
    np.save(logits_path, logits(peer, ids, n_vocab))


if __name__ == "__main__":
    main()
