"""What the demo's tools return, as JSON or as text, and the sentences that tell it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from demo.words import Words

SKIES = "sunny cloudy rainy windy foggy clear snowy stormy".split()


@dataclass(frozen=True)
class Outcome:
    """What a tool returned, the sentence that tells it, and the value that the sentence must repeat."""

    result: str
    answer: str
    value: str


def _json_or_text(w: Words, fields: dict[str, Any], text: str) -> str:
    return json.dumps(fields, ensure_ascii=False) if w.chance(0.6) else text


def weather(w: Words, values: Sequence[Any]) -> Outcome:
    place, unit = values[0], "°F" if "fahrenheit" in values else "°C"
    degrees, sky = w.rng.randint(-20, 40), w.choice(SKIES)
    if w.chance(0.25):
        result = _json_or_text(w, {w.choice(("temperature", "temp", "degrees")): degrees}, f"{degrees} degrees")
        return Outcome(result, f"It is {degrees} {unit} in {place}.", str(degrees))
    names = w.choice((("temperature", "condition"), ("temp_c", "sky"), ("temp", "weather"), ("degrees", "sky")))
    fields: dict[str, Any] = dict(zip(names, (degrees, sky), strict=True))
    if w.chance(0.3):
        fields = {"city": place} | fields
    result = _json_or_text(w, fields, f"{degrees}{w.choice(('C', ' °C', ' degrees'))}, {sky}")
    return Outcome(result, f"It is {degrees} {unit} and {sky} in {place}.", str(degrees))


def time(w: Words, values: Sequence[Any]) -> Outcome:
    clock = f"{w.rng.randrange(24):02}:{w.rng.randrange(60):02}"
    result = _json_or_text(w, {w.choice(("time", "local_time", "now")): clock}, clock)
    return Outcome(result, f"It is {clock} in {values[0]}.", clock)


def search(w: Words, values: Sequence[Any]) -> Outcome:
    hit = f"{w.name()} {w.choice(('Museum', 'House', 'Guide', 'Shop', 'Review', 'Park', 'Journal'))}"
    if w.chance(0.4):
        return Outcome(json.dumps({"results": [{"title": hit}]}, ensure_ascii=False), f"I found {hit}.", hit)
    if w.chance(0.3):
        other = w.name()
        return Outcome(f"{hit}, {other}", f"I found {hit} and {other}.", hit)
    return Outcome(hit, f"I found {hit}.", hit)


def calculator(w: Words, values: Sequence[Any]) -> Outcome:
    expression = str(values[0])
    left, sign, right = expression.split(" ")
    a, b = int(left), int(right)
    number = {"+": a + b, "-": a - b, "*": a * b}[sign]
    result = _json_or_text(w, {w.choice(("result", "value", "answer")): number}, str(number))
    return Outcome(result, f"{expression} = {number}.", str(number))


def done(sentence: str) -> Callable[[Words, Sequence[Any]], Outcome]:
    def outcome(w: Words, values: Sequence[Any]) -> Outcome:
        code = w.code()
        result = _json_or_text(w, {"status": "ok", w.choice(("id", "number", "reference")): code}, f"ok, {code}")
        return Outcome(result, f"{sentence.format(*values)} The number is {code}.", code)

    return outcome


def told(sentence: str) -> Callable[[Words, Sequence[Any]], Outcome]:
    """The answer repeats one word or number."""

    def outcome(w: Words, values: Sequence[Any]) -> Outcome:
        value = w.choice((w.name, w.code, lambda: str(w.number()), w.invented))()
        shown: Any = int(value) if value.isdecimal() else value
        result = _json_or_text(w, {w.choice(("result", "value", "answer", "text")): shown}, value)
        return Outcome(result, sentence.format(*values, value=value), value)

    return outcome


def rooms(w: Words, values: Sequence[Any]) -> Outcome:
    rooms = [{"room": str(w.rng.randint(1, 40)), "price": w.rng.randint(60, 260)} for _ in range(w.choice((1, 2)))]
    listed = " and ".join(f"room {room['room']} for {room['price']}" for room in rooms)
    return Outcome(json.dumps(rooms), f"There is {listed}.", str(rooms[0]["price"]))
