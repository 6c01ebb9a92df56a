"""Conversations for the demo model, the same for the same seed: small talk, sums, tools, follow-ups, JSON.

A conversation ends with the answer of its last user turn.  ``checks`` says what each assistant message of that
turn has to contain; the evaluation asks the model for exactly these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from demo import small_talk
from demo.skills import CALCULATOR, COMMON, SKILLS, Skill, invented_skill
from demo.tool_uses import Tool, Use, new_tool, new_use
from demo.words import Words

Message = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """``calls``: exactly these names and arguments.  ``value``: the text contains what the tool returned; ``sum``: the
    text contains the number.  ``json``: exactly this value.  ``text``: word for word.
    """

    kind: Literal["calls", "value", "sum", "json", "text"]
    expected: Any


@dataclass(frozen=True)
class Conversation:
    messages: list[Message]
    tools: list[dict[str, Any]]
    thinking: bool
    checks: list[Check]


def conversations(seed: int, held_out: bool = False) -> Iterator[Conversation]:
    """Without end.  Held-out ones use other seeds and other invented words."""
    index = 0
    while True:
        yield Builder(Random(f"{seed}/{held_out}/{index}"), held_out).conversation()
        index += 1


class Builder:
    """Draws one conversation."""

    def __init__(self, rng: Random, held_out: bool) -> None:
        self.w = Words(rng, held_out)
        self.thinking = self.w.chance(0.2)
        self.messages: list[Message] = []
        self.checks: list[Check] = []
        self.tools: list[Tool] = []

    def conversation(self) -> Conversation:
        kinds: tuple[tuple[Callable[[], None], int], ...] = (
            (self.single, 28),
            (self.double, 12),
            (self.follow_up, 12),
            (self.structured, 24),
            (self.talk, 19),
            (self.no_tool, 5),
        )
        if self.w.chance(0.35):
            self.messages.append({"role": "system", "content": self.w.choice(small_talk.SYSTEM)})
        functions, weights = zip(*kinds, strict=True)
        self.w.rng.choices(functions, weights)[0]()
        self.w.rng.shuffle(self.tools)
        return Conversation(self.messages, [tool.schema for tool in self.tools], self.thinking, self.checks)

    # --- kinds of conversation ---

    def single(self) -> None:
        self.add_tools(self.w.choice((1, 1, 2, 2, 3)))
        use = new_use(self.w, self.tools[0])
        self.turn(self.said(use.ask), [use])

    def double(self) -> None:
        """Two calls in one turn, of one tool or of two."""
        self.add_tools(self.w.choice((1, 2, 2, 3)))
        first = new_use(self.w, self.tools[0])
        second = new_use(self.w, self.tools[-1 if self.w.chance(0.4) else 0])
        if first.call == second.call:
            question, uses = first.ask, [first]
        elif first.call["function"]["name"] == second.call["function"]["name"]:
            joint = self.w.choice((f"{first.ask.rstrip('.?')} and {second.again}?", f"{first.ask} And {second.again}?"))
            question, uses = joint, [first, second]
        elif first.topic and second.topic and self.w.chance(0.5):
            question, uses = f"What is {first.topic} and {second.topic}?", [first, second]
        else:
            question, uses = f"{first.ask} {second.ask}", [first, second]
        self.turn(self.said(question), uses)

    def follow_up(self) -> None:
        self.add_tools(self.w.choice((1, 1, 2, 2)))
        tool = self.tools[0]
        use = new_use(self.w, tool)
        self.turn(self.said(use.ask), [use])
        for _ in range(self.w.choice((1, 1, 2))):
            if self.w.chance(0.15):
                question, answer = self.w.choice(small_talk.THANKS)
                self.say(question, answer)
            elif self.w.chance(0.25):
                use = new_use(self.w, self.w.choice(self.tools))
                self.turn(self.said(use.ask), [use])
            else:
                use = new_use(self.w, next(t for t in self.tools if t.name == use.call["function"]["name"]))
                forms = ("And {}?", "And {}?", "What about {}?", "and {}", "Now {}.", "The same {}?", "{}?")
                self.turn(self.w.choice(forms).format(use.again), [use])

    def structured(self) -> None:
        """Facts in a sentence, to be returned as JSON for a schema."""
        text, value, schema = small_talk.record(self.w)
        ask = self.w.choice(small_talk.JSON_REQUESTS)
        shown = json.dumps(schema, ensure_ascii=False)
        if self.w.chance(0.5):
            self.messages[:] = [{"role": "system", "content": f"{ask} {shown}"}]
            question = text
        else:
            question = f"{ask} {shown}\n{text}" if self.w.chance(0.5) else f"{text}\n{ask} {shown}"
        self.say(question, json.dumps(value, ensure_ascii=False), Check("json", value), "I fill in the fields.")

    def talk(self) -> None:
        if self.w.chance(0.4):
            self.add_tools(self.w.choice((1, 2)))
        for _ in range(self.w.choice((1, 1, 2, 3))):
            has_calculator = any(tool.skill is CALCULATOR for tool in self.tools)
            if self.w.chance(0.4) and not has_calculator:
                question, answer, value = small_talk.arithmetic(self.w)
                self.say(self.said(question), answer, Check("sum", value), answer)
            elif self.w.chance(0.15) and not self.tools:
                question = self.w.choice(small_talk.UNKNOWN_QUESTIONS).format(self.w.subject())
                self.say(self.said(question), small_talk.UNKNOWN, thought="I do not know that.")
            else:
                question, answer = self.w.choice(small_talk.ANSWERS)
                self.say(self.said(question), answer)

    def no_tool(self) -> None:
        """A question for a tool that is not there."""
        if self.w.chance(0.7):
            self.add_tools(self.w.choice((1, 2)))
        taken = [tool.skill for tool in self.tools]
        missing = self.w.choice([skill for skill in SKILLS if skill not in taken and skill is not CALCULATOR])
        use = new_use(self.w, new_tool(self.w, missing))
        self.say(self.said(use.ask), small_talk.NO_TOOL, thought="No tool helps here.")

    # --- parts ---

    def said(self, text: str) -> str:
        """The text as people type it."""
        w = self.w
        if w.chance(0.12):
            text = w.choice(("Please: ", "Hi! ", "Hello, ", "Hey, ", "One question: ", "Quick: ")) + text
        if w.chance(0.08):
            text = text.rstrip(".?") + w.choice((" please", ", please.", " now?", ""))
        if w.chance(0.1) and not text.startswith("I "):
            text = text[0].lower() + text[1:]
        return text

    def say(self, question: str, answer: str, check: Check | None = None, thought: str = "I just answer.") -> None:
        """A turn without tools."""
        self.messages.append({"role": "user", "content": question})
        self.messages.append({"role": "assistant", "content": answer} | self.thought(thought))
        self.checks = [check or Check("text", answer)]

    def turn(self, question: str, uses: list[Use]) -> None:
        """A turn that calls tools, gets their results and tells them."""
        calls = [use.call for use in uses]
        names = " and ".join(call["function"]["name"] for call in calls)
        self.messages.append({"role": "user", "content": question})
        self.messages.append(
            {"role": "assistant", "content": "", "tool_calls": calls} | self.thought(f"I call {names}.")
        )
        self.messages += [{"role": "tool", "content": use.result} for use in uses]
        values = " and ".join(use.value for use in uses)
        answer = " ".join(use.answer for use in uses)
        self.messages.append({"role": "assistant", "content": answer} | self.thought(f"The result is {values}."))
        functions = [call["function"] for call in calls]
        self.checks = [Check("calls", functions), *(Check("value", use.value) for use in uses)]

    def thought(self, text: str) -> Message:
        return {"reasoning_content": text} if self.thinking else {}

    def add_tools(self, n_tools: int) -> None:
        taken: list[Skill] = []
        while len(self.tools) < n_tools:
            pick = self.w.rng.random()
            skill = invented_skill(self.w) if pick < 0.3 else self.w.choice(COMMON if pick < 0.75 else SKILLS)
            tool = new_tool(self.w, skill)
            if skill not in taken and tool.name not in (other.name for other in self.tools):
                taken.append(skill)
                self.tools.append(tool)
