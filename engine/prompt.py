"""From a request to token ids, and the positions in them at which snapshots are worth keeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.cache_entry import Kind
from engine.chat_template import ChatTemplate, Rendered
from engine.errors import ContextFull, InvalidPrompt
from engine.messages import normalize_messages
from engine.native import Ids
from engine.prefix_cache import spare_positions
from engine.request import ChatRequest
from engine.splice import Splicer

_SPARE_EVERY = 2048


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is evaluated before an answer.

    ``anchor``: where the answer's turn begins, before any think block; None if the template has no such place.
    ``thinking``: the answer begins inside a think block.
    ``plain``: no template was used; the answer is text, whatever it looks like.
    """

    ids: Ids
    marks: dict[int, Kind]
    anchor: int | None = None
    spliced: int = 0
    thinking: bool = False
    plain: bool = False


class Prompter:
    """Renders conversations with a model's template, earlier tool calls as they were generated."""

    def __init__(self, template: ChatTemplate, splicer: Splicer | None, context: int) -> None:
        self._template = template
        self._splicer = splicer
        self._context = context

    def prompt(self, request: ChatRequest) -> Prompt:
        """Raises InvalidPrompt, or ContextFull when no room is left for an answer."""
        rendered = self.render(request)
        ids, spliced = rendered.ids, 0
        if self._splicer is not None and request.splice:
            ids, spliced = self._splicer.splice(rendered.ids, normalize_messages(request.messages))
        self._check_room(ids)
        anchor = None if rendered.anchor is None else rendered.anchor + len(ids) - len(rendered.ids)
        after_tool = bool(request.messages) and request.messages[-1].get("role") == "tool"
        marks = _marks(rendered, anchor, Kind.ANCHOR if after_tool else Kind.TURN_ANCHOR)
        return Prompt(np.array(ids, np.int32), marks, anchor, spliced, rendered.thinking)

    def render(self, request: ChatRequest) -> Rendered:
        """The conversation as the template writes it.  Raises InvalidPrompt."""
        return self._template.encode_chat(
            request.messages, request.tools, request.thinking, request.continue_final, **request.template_kwargs
        )

    def plain(self, ids: Sequence[int]) -> Prompt:
        """A prompt of these tokens and nothing else.  Raises InvalidPrompt or ContextFull."""
        if not ids:
            raise InvalidPrompt("the prompt has no tokens", "prompt")
        self._check_room(ids)
        marks = dict.fromkeys(spare_positions(0, len(ids), _SPARE_EVERY), Kind.SPARE)
        if len(ids) > 1:
            marks[len(ids) - 1] = Kind.ANCHOR  # where the same prompt can start again
        return Prompt(np.array(ids, np.int32), marks, plain=True)

    def _check_room(self, ids: Sequence[int]) -> None:
        if len(ids) >= self._context:
            raise ContextFull(len(ids), self._context)


def _marks(rendered: Rendered, anchor: int | None, anchor_kind: Kind) -> dict[int, Kind]:
    marks: dict[int, Kind] = {}
    base = max(rendered.base_end or 0, rendered.tools_end or 0)
    if anchor is not None:
        marks = dict.fromkeys(spare_positions(base, anchor, _SPARE_EVERY), Kind.SPARE)
        marks[anchor] = anchor_kind
    for position in (rendered.tools_end, rendered.base_end):
        if position:
            marks[position] = Kind.BASE
    return marks
