"""Why a prompt can or cannot start from what an earlier one left: no weights are read and nothing is evaluated.

The cache that decides is the engine's own; only its session and its snapshots are positions without a state.  What was
generated between two prompts is not known.  If the second begins with all of the first, the answer in it is taken to
be what was generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from engine.cache_entry import Kind, Reuse, common_prefix
from engine.chat_template import Rendered
from engine.events import PrefillPath
from engine.explain_reason import Turn, reason
from engine.messages import normalize_messages
from engine.native import Ids, Session, Snapshot
from engine.prefix_cache import PrefixCache
from engine.prompt import Prompter
from engine.request import ChatRequest
from engine.snapshot_file import longest_prefix, position_of
from engine.snapshot_stores import Folder
from engine.tokenizer import Tokenizer

_NOT_A_TOKEN = -1
_AROUND = 16  # tokens shown on each side of a divergence


@dataclass(frozen=True, slots=True)
class Explanation:
    """One prompt: what of it is there already, from where, and why not more."""

    name: str
    prompt_tokens: int
    path: PrefillPath
    served_by: str
    restored_at: int
    prefilled: int
    like: str | None = None  # the earlier prompt that shares most with it
    shared: int = 0  # with that
    why: str = ""
    shared_text: str = ""
    had: str = ""
    got: str = ""


@dataclass
class Explainer:
    """Takes the prompts of one environment in order."""

    tokenizer: Tokenizer
    prompter: Prompter
    fingerprint: str
    folders: Sequence[Folder] = ()
    _turns: list[Turn] = field(default_factory=list)
    _cache: _DryCache = field(default_factory=lambda: _DryCache(cast(Session, _DrySession()), 0))

    def explain(self, name: str, request: ChatRequest) -> Explanation:
        prompt, rendered = self.prompter.prompt(request), self.prompter.render(request)
        turn = Turn(name, normalize_messages(request.messages), request.tools, rendered, prompt.ids)
        self._generate_before(prompt.ids)
        reuse = self._find(prompt.ids, rendered.base_end or 0)
        explanation = self._explanation(turn, reuse)
        self._cache.restore(reuse)
        self._cache.advanced(prompt.ids[reuse.position :].tolist())
        for position, kind in sorted(({len(prompt.ids): Kind.PROMPT} | prompt.marks).items()):
            if position > reuse.position:
                logits = np.empty(0, np.float32) if position == len(prompt.ids) else None
                self._cache.keep(kind, cast(Snapshot, _DrySnapshot(position)), logits)
        self._cache.finished()
        self._turns.append(turn)
        return explanation

    def _generate_before(self, ids: Ids) -> None:
        """Put an answer after the last prompt: the one this prompt has there, or one that no prompt has."""
        if not self._turns:
            return
        last = self._turns[-1].ids
        rest = ids[len(last) :].tolist() if common_prefix(ids, last) == len(last) else []
        end = next((index for index, id_ in enumerate(rest) if id_ in self.tokenizer.stop_ids), 0)
        self._cache.advanced(rest[:end] or [_NOT_A_TOKEN])
        self._cache.finished()

    def _find(self, ids: Ids, base: int) -> Reuse:
        reuse = self._cache.find(ids)
        best = reuse.position
        stored: tuple[Folder, str] | None = None
        for folder in self.folders:
            name = longest_prefix(self.fingerprint, folder.names(), ids[:base], best)
            if name is not None:
                stored, best = (folder, name), position_of(name)
        if stored is None:
            return reuse
        self._cache.adopt(ids[:best], cast(Snapshot, _DrySnapshot(best)), stored[0].path)
        return self._cache.find(ids)

    def _explanation(self, turn: Turn, reuse: Reuse) -> Explanation:
        n_prompt = len(turn.ids)
        explanation = Explanation(
            name=turn.name,
            prompt_tokens=n_prompt,
            path=reuse.path,
            served_by=_served_by(reuse, turn.rendered),
            restored_at=reuse.position,
            prefilled=n_prompt - reuse.position,
        )
        if not self._turns:
            return explanation
        like = max(reversed(self._turns), key=lambda earlier: common_prefix(earlier.ids, turn.ids))
        shared = common_prefix(like.ids, turn.ids)
        return replace(
            explanation,
            like=like.name,
            shared=shared,
            why=reason(like, turn, shared),
            shared_text=self._text(turn.ids[max(0, shared - _AROUND) : shared]),
            had=self._text(like.ids[shared : shared + _AROUND]),
            got=self._text(turn.ids[shared : shared + _AROUND]),
        )

    def _text(self, ids: Ids) -> str:
        spelled = {id_: text.encode() for text, id_ in self.tokenizer.specials.items()}
        pieces = (spelled.get(id_) or self.tokenizer.decode_bytes(id_) for id_ in ids.tolist())
        return b"".join(pieces).decode(errors="replace")


def _served_by(reuse: Reuse, rendered: Rendered) -> str:
    """What a person would call the state a prompt starts from."""
    if reuse.path == "full":
        return "nothing"
    if reuse.entry is None or reuse.path == "extend":
        return "the state after the earlier answer"
    if reuse.logits is not None:
        return "the end of the same prompt"
    if reuse.entry.kind == Kind.BASE:
        return (
            "the state after the tools" if reuse.position == rendered.tools_end else "the state after the system block"
        )
    if reuse.entry.kind == Kind.SPARE:
        return "a state inside a long message"
    return "the state before an earlier answer"


class _DryCache(PrefixCache):
    """A cache whose snapshots take no memory."""

    @property
    def bytes_held(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class _DrySnapshot:
    position: int


class _DrySession:
    """Stands where PrefixCache has its session."""

    def save(self) -> _DrySnapshot:
        return _DrySnapshot(0)  # a tip: its position is that of its ids

    def load(self, snapshot: _DrySnapshot) -> None:
        """Nothing to load."""

    def reset(self) -> None:
        """Nothing to reset."""
