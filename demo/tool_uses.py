"""A tool under one of its many schemas, and one use of it: the question, the call, the result and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demo.skills import Skill, Slot
from demo.words import Words


@dataclass(frozen=True)
class Tool:
    """``slots`` are the parameters that this schema has, with their names."""

    skill: Skill
    slots: list[tuple[str, Slot]]
    schema: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.schema["function"]["name"]
        return name


@dataclass(frozen=True)
class Use:
    """One question that a tool answers."""

    call: dict[str, Any]
    ask: str
    again: str
    topic: str
    result: str
    answer: str
    value: str


def new_tool(w: Words, skill: Skill) -> Tool:
    """A schema for a skill: names, descriptions and orders vary."""
    slots, properties, required = [], {}, []
    for slot in skill.slots:
        if slot.default is not None and w.chance(0.6):
            continue
        name = w.choice(slot.names)
        slots.append((name, slot))
        properties[name] = dict(slot.schema)
        if slot.about and w.chance(0.3):
            properties[name]["description"] = w.choice(slot.about)
        if slot.default is None or w.chance(0.5):
            required.append(name)
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if w.chance(0.15):
        parameters["additionalProperties"] = False
    if w.chance(0.25):
        parameters = {key: parameters[key] for key in w.rng.sample(list(parameters), len(parameters))}
    function: dict[str, Any] = {"name": w.choice(skill.names), "description": w.choice(skill.about)}
    return Tool(skill, slots, {"type": "function", "function": function | {"parameters": parameters}})


def new_use(w: Words, tool: Tool) -> Use:
    """A question for a tool, the call it needs, and what comes back."""
    skill = tool.skill
    values: list[Any] = []
    arguments: dict[str, Any] = {}
    ending = ""
    required = tool.schema["function"]["parameters"]["required"]
    for name, slot in tool.slots:
        mentioned = slot.default is None or w.chance(0.4)
        if not mentioned and name not in required:
            continue
        value = slot.fill(w) if mentioned else slot.default
        values.append(value)
        arguments[name] = value
        if mentioned and slot.default is not None:
            ending = " " + slot.phrase.format(value)
    topic = w.choice(skill.topics).format(*values) + ending if skill.topics else ""
    ask = w.choice(skill.asks).format(*values)
    if ending:
        ask = ask.rstrip(".?") + ending + ask[len(ask.rstrip(".?")) :]
    elif topic and w.chance(0.3):
        ask = w.choice(("What is {}?", "What's {}?", "Tell me {}.", "I want to know {}.")).format(topic)
    outcome = skill.outcome(w, values)
    call = {"type": "function", "function": {"name": tool.name, "arguments": arguments}}
    again = w.choice(skill.again).format(*values) + ending
    return Use(call, ask, again, topic, outcome.result, outcome.answer, outcome.value)
