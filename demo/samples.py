"""Conversations as the model sees them: rendered, in tokens, and with the weight of each token in the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from demo.corpus import Conversation, conversations
from demo.vocabulary import Encoder
from engine.template_sandbox import SandboxedTemplate

TEMPLATE = Path(__file__).with_name("template.jinja")
MAX_TOKENS = 512
POOL = 1024  # conversations sorted by length at a time, so that a batch has little padding


@dataclass(frozen=True)
class Sample:
    """``answers`` are where assistant messages begin and end, without the think block's opening."""

    ids: list[int]
    answers: list[tuple[int, int]]
    n_last: int  # answers of the last user turn
    conversation: Conversation


class Renderer:
    def __init__(self) -> None:
        self._template = SandboxedTemplate(TEMPLATE.read_text())

    def render(self, conversation: Conversation) -> str:
        context = {
            "messages": conversation.messages,
            "tools": conversation.tools or None,
            "add_generation_prompt": False,
            "enable_thinking": conversation.thinking,
        }
        return self._template.render(context)


class Sampler:
    """Turns conversations into samples."""

    def __init__(self, encoder: Encoder) -> None:
        self._renderer = Renderer()
        self._encode = encoder.encode
        self._end = encoder.ids["<|im_end|>"]
        self._starts = [
            encoder.encode("<|im_start|>assistant\n" + opening)
            for opening in ("<think>\n\n</think>\n\n", "<think>\n", "")
        ]

    def sample(self, conversation: Conversation) -> Sample:
        ids = self._encode(self._renderer.render(conversation))
        answers = []
        position = 0
        while position < len(ids):
            opening = next((s for s in self._starts if ids[position : position + len(s)] == s), None)
            if opening is None:
                position += 1
                continue
            start = position + len(opening)
            position = ids.index(self._end, start) + 1
            answers.append((start, position))
        roles = [message["role"] for message in conversation.messages]
        last_user = len(roles) - 1 - roles[::-1].index("user")
        return Sample(ids, answers, roles[last_user:].count("assistant"), conversation)

    def samples(self, seed: int, held_out: bool = False) -> Iterator[Sample]:
        for conversation in conversations(seed, held_out):
            sample = self.sample(conversation)
            if len(sample.ids) <= MAX_TOKENS:
                yield sample


def batches(samples: Iterator[Sample], n_tokens: int, seed: int) -> Iterator[list[Sample]]:
    """Batches of about ``n_tokens`` tokens, each of conversations of about one length, in random order."""
    rng = Random(seed)
    while pool := sorted(islice(samples, POOL), key=lambda sample: len(sample.ids)):
        ready: list[list[Sample]] = [[]]
        for sample in pool:
            if (len(ready[-1]) + 1) * len(sample.ids) > n_tokens:
                ready.append([])
            ready[-1].append(sample)
        rng.shuffle(ready)
        yield from ready
