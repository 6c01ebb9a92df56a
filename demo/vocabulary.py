"""The demo's byte-level BPE: trained on its conversations, split as the Qwen3.5 family splits, its special tokens.

A name must have the same tokens after a space, a quote or a line break, or copying it is no longer copying.
So pieces of words are learned without what stands before them; only the commonest words get a form with a space,
and those merges come last.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from synth_vocab import CONTROL_TYPE, NORMAL_TYPE, SPECIALS, USER_DEFINED, USER_DEFINED_TYPE, Vocabulary

N_VOCAB = 2048
N_SPACED_WORDS = 256
SPACE = "Ġ"  # in the byte alphabet

FAMILY_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TRAINING_SPLIT = r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
_SPECIAL = re.compile("|".join(map(re.escape, SPECIALS)))


def train(texts: Iterable[str]) -> Vocabulary:
    """Texts are rendered conversations; their special tokens are left out."""
    pieces = [piece for text in texts for piece in _SPECIAL.split(text)]
    words = Counter(word for piece in pieces for word in re.findall(r" ([a-z]{2,})\b", piece))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB - len(SPECIALS) - N_SPACED_WORDS, initial_alphabet=alphabet, show_progress=False
    )
    bpe = _split_by(Tokenizer(models.BPE()), TRAINING_SPLIT)
    bpe.train_from_iterator(pieces, trainer)
    merges = [tuple(merge) for merge in json.loads(bpe.to_str())["model"]["merges"]]
    tokens = sorted(alphabet) + [left + right for left, right in merges]
    whole = [word for word, _ in words.most_common() if word in tokens]
    merges += [(SPACE, word) for word in whole[:N_SPACED_WORDS]]
    tokens += [SPACE + word for word in whole[:N_SPACED_WORDS]]
    types = [NORMAL_TYPE] * len(tokens)
    types += [USER_DEFINED_TYPE if special in USER_DEFINED else CONTROL_TYPE for special in SPECIALS]
    return Vocabulary([*tokens, *SPECIALS], types, [" ".join(merge) for merge in merges])


def save(vocabulary: Vocabulary, path: Path) -> None:
    fields = {"tokens": vocabulary.tokens, "types": vocabulary.types, "merges": vocabulary.merges}
    path.write_text(json.dumps(fields, ensure_ascii=False))


def load(path: Path) -> Vocabulary:
    return Vocabulary(**json.loads(path.read_text()))


class Encoder:
    """Trusted text to tokens: special tokens are matched by their spelling."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.ids = {token: id_ for id_, token in enumerate(vocabulary.tokens)}
        normal = {token: id_ for token, id_ in self.ids.items() if token not in SPECIALS}
        merges = [(left, right) for left, right in (merge.split(" ") for merge in vocabulary.merges)]
        self._bpe = _split_by(Tokenizer(models.BPE(vocab=normal, merges=merges)), FAMILY_SPLIT)
        self._bpe.normalizer = normalizers.NFC()

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        position = 0
        for match in _SPECIAL.finditer(text):
            ids += self._bpe.encode(text[position : match.start()]).ids
            ids.append(self.ids[match.group()])
            position = match.end()
        return ids + list(self._bpe.encode(text[position:]).ids)


def _split_by(bpe: Tokenizer, rule: str) -> Tokenizer:
    split = pre_tokenizers.Split(Regex(rule), behavior="isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return bpe
