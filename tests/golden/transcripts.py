"""Golden transcripts: what the demo model says to some conversations, greedily on the exact path, and how clearly.

`make golden` answers the conversation of every JSON file beside this one again; a new file needs only "messages",
"tools" and "thinking".

A transcript is replayed teacher-forced: every step is asked for with the golden tokens before it, whatever the path
itself would have said.  So one unclear step, where another path may rightly choose otherwise, neither ends the
comparison nor spoils the steps after it, and every path is compared at the same steps.  That a path also says the
golden text when it runs freely follows if no step differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engine.chat_template import ChatTemplate
from engine.model_file import ModelFile
from engine.native import Floats, Ids, Model, Phase, Session
from engine.threads import default_thread_count
from engine.tokenizer import Tokenizer

FOLDER = Path(__file__).parent
MODEL = FOLDER.parents[1] / "models" / "qwarm-demo.gguf"
CONTEXT, MAX_TOKENS = 1024, 150


class Timeline(Protocol):
    """What evaluates tokens: engine.native.Session, or one under an emulator."""

    def eval(self, tokens: Ids, phase: Phase, *, n_logits: int = 0) -> tuple[Floats, Any]: ...

    def reset(self) -> None: ...


@dataclass(frozen=True)
class Transcript:
    """``steps`` are the answer's tokens, its end included; ``margins`` the lead of each over the next best logit."""

    name: str
    prompt: Ids
    steps: Ids
    margins: npt.NDArray[np.float64]


def prompt_of(conversation: dict[str, Any], file: ModelFile, tokenizer: Tokenizer) -> Ids:
    """The prompt's token ids."""
    template = ChatTemplate(file.chat_template, tokenizer, file.path, CONTEXT)
    rendered = template.encode_chat(conversation["messages"], conversation["tools"], conversation["thinking"], False)
    return np.array(rendered.ids, np.int32)


def read() -> list[tuple[dict[str, Any], Transcript]]:
    """Every conversation with its transcript."""
    return [(stored, _transcript(path.stem, stored)) for path, stored in _files()]


def _files() -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.json")):
        yield path, json.loads(path.read_text(encoding="utf-8"))


def _transcript(name: str, stored: dict[str, Any]) -> Transcript:
    prompt, steps = (np.array(stored[key], np.int32) for key in ("prompt_ids", "step_ids"))
    return Transcript(name, prompt, steps, np.array(stored["margins"]))


def replay(timeline: Timeline, transcript: Transcript, phase: Phase) -> npt.NDArray[np.float64]:
    """The lead of each golden token over the best other logit, negative where another is greater: [n_steps].

    The prompt is prefilled; ``phase`` says how the answer's tokens are evaluated after it.
    """
    timeline.reset()
    first, _ = timeline.eval(transcript.prompt, Phase.PREFILL, n_logits=1)
    rest, _ = timeline.eval(transcript.steps[:-1], phase, n_logits=len(transcript.steps) - 1)
    return leads(np.concatenate([first, rest]), transcript.steps)


def leads(logits: Floats, tokens: Ids) -> npt.NDArray[np.float64]:
    """How far the token of each row is ahead of the best other one: logits [n, n_vocab], tokens [n] to [n]."""
    rows = np.arange(len(tokens))
    others = logits.astype(np.float64)
    own = others[rows, tokens].copy()
    others[rows, tokens] = -np.inf
    return np.asarray(own - others.max(axis=1))


def answer(timeline: Timeline, prompt: Ids, stop_ids: frozenset[int]) -> tuple[list[int], list[float]]:
    """The greedy answer's tokens, the one that ends it included, and their leads."""
    timeline.reset()
    steps: list[int] = []
    margins: list[float] = []
    tokens, phase = prompt, Phase.PREFILL
    while len(steps) < MAX_TOKENS and not (steps and steps[-1] in stop_ids):
        logits, _ = timeline.eval(tokens, phase, n_logits=1)
        tokens, phase = logits.argmax(axis=1).astype(np.int32), Phase.DECODE
        steps.append(int(tokens[0]))
        margins.append(round(float(leads(logits, tokens)[0]), 4))
    return steps, margins


def make() -> None:
    """Write the steps of every file again."""
    file = ModelFile(str(MODEL))
    tokenizer = Tokenizer(file)
    session = Session(Model(file, n_threads=default_thread_count(), isa="scalar", exact=True), CONTEXT)
    for path, stored in _files():
        prompt = prompt_of(stored, file, tokenizer)
        steps, margins = answer(session, prompt, tokenizer.stop_ids)
        text = b"".join(map(tokenizer.decode_bytes, steps)).decode()
        kept = {key: stored[key] for key in ("messages", "tools", "thinking")}
        made = {"answer": text, "prompt_ids": prompt.tolist(), "step_ids": steps, "margins": margins}
        shown = {key: json.dumps(value, ensure_ascii=False) for key, value in (kept | made).items()}
        lines = ",\n".join(f'"{key}": {value}' for key, value in shown.items())
        path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        print(f"{path.name}: {len(prompt)} + {len(steps)} tokens, least margin {min(margins):.2f}: {text!r}")


if __name__ == "__main__":
    make()
