"""What the demo's tools do: their schemas in many wordings, questions for them, results and the answers to those."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from demo.words import PEOPLE, Words

SKIES = "sunny cloudy rainy windy foggy clear snowy stormy".split()
LANGUAGES = "French German Spanish Italian Norwegian Polish Greek Japanese".split()


@dataclass(frozen=True)
class Slot:
    """A parameter.  One with a ``default`` is mentioned in few questions; ``phrase`` says how."""

    names: Sequence[str]
    fill: Callable[[Words], Any]
    schema: dict[str, Any]
    about: Sequence[str] = ()
    default: Any = None
    phrase: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a tool returned, the sentence that tells it, and the value that the sentence must repeat."""

    result: str
    answer: str
    value: str


@dataclass(frozen=True)
class Skill:
    """``topics`` follow "What is"; ``asks`` are whole sentences; ``again`` is said after an earlier question."""

    names: Sequence[str]
    about: Sequence[str]
    slots: Sequence[Slot]
    asks: Sequence[str]
    again: Sequence[str]
    outcome: Callable[[Words, Sequence[Any]], Outcome]
    topics: Sequence[str] = ()


def _json_or_text(w: Words, fields: dict[str, Any], text: str) -> str:
    return json.dumps(fields, ensure_ascii=False) if w.chance(0.6) else text


def _weather(w: Words, values: Sequence[Any]) -> Outcome:
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


def _time(w: Words, values: Sequence[Any]) -> Outcome:
    clock = f"{w.rng.randrange(24):02}:{w.rng.randrange(60):02}"
    result = _json_or_text(w, {w.choice(("time", "local_time", "now")): clock}, clock)
    return Outcome(result, f"It is {clock} in {values[0]}.", clock)


def _search(w: Words, values: Sequence[Any]) -> Outcome:
    hit = f"{w.name()} {w.choice(('Museum', 'House', 'Guide', 'Shop', 'Review', 'Park', 'Journal'))}"
    if w.chance(0.4):
        return Outcome(json.dumps({"results": [{"title": hit}]}, ensure_ascii=False), f"I found {hit}.", hit)
    if w.chance(0.3):
        other = w.name()
        return Outcome(f"{hit}, {other}", f"I found {hit} and {other}.", hit)
    return Outcome(hit, f"I found {hit}.", hit)


def _calculator(w: Words, values: Sequence[Any]) -> Outcome:
    expression = str(values[0])
    left, sign, right = expression.split(" ")
    a, b = int(left), int(right)
    number = {"+": a + b, "-": a - b, "*": a * b}[sign]
    result = _json_or_text(w, {w.choice(("result", "value", "answer")): number}, str(number))
    return Outcome(result, f"{expression} = {number}.", str(number))


class Expression(str):
    """A sum, difference or product of two numbers."""

    @property
    def spoken(self) -> str:
        left, sign, right = self.split(" ")
        return f"{left} {dict(zip('+-*', ('plus', 'minus', 'times'), strict=True))[sign]} {right}"


def _expression(w: Words) -> Expression:
    return Expression(f"{w.number()} {w.choice('+-**')} {w.number()}")


def _done(sentence: str) -> Callable[[Words, Sequence[Any]], Outcome]:
    def outcome(w: Words, values: Sequence[Any]) -> Outcome:
        code = w.code()
        result = _json_or_text(w, {"status": "ok", w.choice(("id", "number", "reference")): code}, f"ok, {code}")
        return Outcome(result, f"{sentence.format(*values)} The number is {code}.", code)

    return outcome


def _told(sentence: str) -> Callable[[Words, Sequence[Any]], Outcome]:
    """The answer repeats one word or number."""

    def outcome(w: Words, values: Sequence[Any]) -> Outcome:
        value = w.choice((w.name, w.code, lambda: str(w.number()), w.invented))()
        shown: Any = int(value) if value.isdecimal() else value
        result = _json_or_text(w, {w.choice(("result", "value", "answer", "text")): shown}, value)
        return Outcome(result, sentence.format(*values, value=value), value)

    return outcome


def _rooms(w: Words, values: Sequence[Any]) -> Outcome:
    rooms = [{"room": str(w.rng.randint(1, 40)), "price": w.rng.randint(60, 260)} for _ in range(w.choice((1, 2)))]
    listed = " and ".join(f"room {room['room']} for {room['price']}" for room in rooms)
    return Outcome(json.dumps(rooms), f"There is {listed}.", str(rooms[0]["price"]))


def _date(w: Words) -> str:
    return f"20{w.rng.randint(24, 29)}-{w.rng.randint(1, 12):02}-{w.rng.randint(1, 28):02}"


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PLACE = Slot(("city", "city", "location", "place", "town"), Words.place, STRING, ("City name", "The city", "Where"))
UNIT = Slot(
    ("unit", "units"),
    lambda w: w.choice(("celsius", "fahrenheit")),
    {"type": "string", "enum": ["celsius", "fahrenheit"]},
    ("celsius or fahrenheit",),
    default="celsius",
    phrase="in {}",
)
LIMIT = Slot(
    ("limit", "max_results", "count"),
    lambda w: w.rng.randint(1, 9),
    INTEGER,
    ("How many results", "Number of results"),
    default=3,
    phrase="with {} results",
)
NIGHTS = Slot(("nights",), lambda w: w.rng.randint(1, 9), INTEGER, ("Number of nights",))

SKILLS = (
    Skill(
        ("get_weather", "get_weather", "weather", "current_weather", "get_current_weather", "weather_lookup"),
        ("Get the current weather for a city.", "Current weather", "Weather of a place", "Look up the weather"),
        (PLACE, UNIT),
        ("How is the weather in {0}?", "Is it cold in {0}?", "Is it raining in {0}?", "weather {0}", "Weather in {0}?",
         "What is the weather like in {0}?", "Tell me the weather in {0}.", "How warm is it in {0}?"),
        ("in {0}", "{0}"),
        _weather,
        ("the weather in {0}", "the temperature in {0}"),
    ),
    Skill(
        ("get_time", "get_time", "time", "current_time", "local_time", "clock"),
        ("Get the local time of a city.", "Current time in a place", "Tell the time", "What time it is somewhere"),
        (PLACE,),
        ("What time is it in {0}?", "Tell me the time in {0}.", "What's the time in {0}?", "time in {0}"),
        ("in {0}", "{0}"),
        _time,
        ("the time in {0}", "the local time in {0}"),
    ),
    Skill(
        ("search", "search", "web_search", "search_web", "lookup"),
        ("Search the web.", "Search the web and return the top results.", "Find pages", "Web search"),
        (Slot(("query", "query", "q", "text", "terms"), Words.subject, STRING, ("What to search",)), LIMIT),
        ("Search for {0}.", "Look up {0}.", "Find something about {0}.", "Search the web for {0}", "search {0}",
         "Can you search for {0}?"),
        ("{0}", "for {0}"),
        _search,
    ),
    Skill(
        ("calculator", "calculator", "calculate", "compute", "math"),
        ("Calculate an expression.", "Do arithmetic", "Evaluate a sum or a product", "A calculator"),
        (Slot(("expression", "expression", "input", "formula"), _expression, STRING, ("Such as 2 * 3",)),),
        ("What is {0}?", "Calculate {0}.", "How much is {0}?", "Compute {0}", "{0}", "{0} = ?",
         "What is {0.spoken}?", "How much is {0.spoken}?"),
        ("{0}", "{0.spoken}"),
        _calculator,
        ("{0}",),
    ),
    Skill(
        ("send_email", "send_message", "write_email"),
        ("Send a message.", "Send an email to someone"),
        (Slot(("to", "recipient"), Words.person, STRING, ("Who gets it",)),
         Slot(("subject", "title"), Words.subject, STRING)),
        ("Send {0} an email about {1}.", "Write to {0} about {1}.", "Send a message to {0} about {1}"),
        ("to {0} about {1}",),
        _done("The message to {0} is sent."),
    ),
    Skill(
        ("set_timer", "start_timer", "timer"),
        ("Start a timer.", "Set a timer for some minutes"),
        (Slot(("minutes", "duration"), lambda w: w.rng.randint(1, 99), INTEGER, ("In minutes",)),),
        ("Set a timer for {0} minutes.", "Start a timer of {0} minutes", "Timer, {0} minutes please"),
        ("for {0} minutes",),
        _done("The timer runs for {0} minutes."),
    ),
    Skill(
        ("translate", "translate_text"),
        ("Translate a text.", "Translate words into a language"),
        (Slot(("text", "words"), Words.thing, STRING), Slot(("language", "target"), lambda w: w.choice(LANGUAGES), STRING)),
        ("Translate {0} into {1}.", "How do you say {0} in {1}?", "What is {0} in {1}?"),
        ("{0} in {1}",),
        _told("In {1} it is {value}."),
    ),
    Skill(
        ("order_status", "get_order", "track_order"),
        ("Status of an order.", "Look up an order by its number"),
        (Slot(("order_id", "id", "number"), Words.code, STRING, ("Order number",)),),
        ("Where is my order {0}?", "What happened to order {0}?", "Check order {0}.", "Status of {0}?"),
        ("order {0}", "{0}"),
        _told("Order {0} is {value}."),
        ("the status of order {0}",),
    ),
    Skill(
        ("free_rooms", "find_rooms"),
        ("List the rooms that are free, with their prices.", "Find free rooms"),
        (Slot(("from_date", "date"), _date, STRING, ("First night, as YYYY-MM-DD",)), NIGHTS),
        ("Is there a room from {0} for {1} nights?", "I need a room on {0} for {1} nights.", "Rooms from {0}, {1} nights?"),
        ("from {0} for {1} nights",),
        _rooms,
    ),
    Skill(
        ("find_booking", "get_booking"),
        ("Find a booking by the guest's name.", "Look up a booking"),
        (Slot(("name", "guest"), lambda w: f"{w.choice(PEOPLE)} {w.name()}", STRING),),
        ("Is there a booking for {0}?", "Find the booking of {0}.", "Did {0} book a room?"),
        ("for {0}",),
        _told("The booking of {0} is {value}."),
    ),
)  # fmt: skip


def invented_skill(w: Words) -> Skill:
    """A tool that no other conversation has: only its schema tells its name and its parameter."""
    noun = w.choice("price owner height color status level size age score address rank weight code phone".split())
    if w.chance(0.7):
        noun = w.invented()
    about = w.choice((f"The {noun} of something", f"Get the {noun}", f"Look up the {noun} by name", f"Find a {noun}."))
    slot = w.choice("name item id thing key object of target".split()) if w.chance(0.7) else w.invented()
    return Skill(
        [w.choice((f"get_{noun}", f"find_{noun}", f"{noun}_of", f"{noun}", f"{noun}_lookup", f"read_{noun}"))],
        [about],
        [Slot((slot,), w.choice((Words.name, Words.place, Words.person, Words.thing, Words.code)), STRING)],
        [f"Find the {noun} of {{0}}.", f"Which {noun} does {{0}} have?", f"Tell me the {noun} of {{0}}."],
        ["of {0}", "{0}"],
        _told(f"The {noun} of {{0}} is {{value}}."),
        [f"the {noun} of {{0}}"],
    )
