"""What the demo's tools are for: their parameters, and questions for them, in many wordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from demo import outcomes
from demo.outcomes import Outcome
from demo.words import PEOPLE, Words

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
class Skill:
    """``topics`` follow "What is"; ``asks`` are whole sentences; ``again`` is said after an earlier question."""

    names: Sequence[str]
    about: Sequence[str]
    slots: Sequence[Slot]
    asks: Sequence[str]
    again: Sequence[str]
    outcome: Callable[[Words, Sequence[Any]], Outcome]
    topics: Sequence[str] = ()


class Expression(str):
    """A sum, difference or product of two numbers."""

    @property
    def spoken(self) -> str:
        left, sign, right = self.split(" ")
        return f"{left} {dict(zip('+-*', ('plus', 'minus', 'times'), strict=True))[sign]} {right}"


def _expression(w: Words) -> Expression:
    return Expression(f"{w.number()} {w.choice('+-**')} {w.number()}")


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
         "What is the weather like in {0}?", "Tell me the weather in {0}.", "How warm is it in {0}?",
         "What's the weather like in {0} today?", "How's the weather in {0} today?", "Will it rain in {0}?",
         "Do I need an umbrella in {0}?", "What's the temperature in {0} right now?"),
        ("in {0}", "{0}"),
        outcomes.weather,
        ("the weather in {0}", "the temperature in {0}"),
    ),
    Skill(
        ("get_time", "get_time", "time", "current_time", "local_time", "clock"),
        ("Get the local time of a city.", "Current time in a place", "Tell the time", "What time it is somewhere"),
        (PLACE,),
        ("What time is it in {0}?", "Tell me the time in {0}.", "What's the time in {0}?", "time in {0}",
         "What time is it now in {0}?", "Do you know what time it is in {0}?"),
        ("in {0}", "{0}"),
        outcomes.time,
        ("the time in {0}", "the local time in {0}"),
    ),
    Skill(
        ("search", "search", "web_search", "search_web", "lookup"),
        ("Search the web.", "Search the web and return the top results.", "Find pages", "Web search"),
        (Slot(("query", "query", "q", "text", "terms"), Words.subject, STRING, ("What to search",)), LIMIT),
        ("Search for {0}.", "Look up {0}.", "Find something about {0}.", "Search the web for {0}", "search {0}",
         "Can you search for {0}?", "What do you know about {0}?"),
        ("{0}", "for {0}"),
        outcomes.search,
    ),
    Skill(
        ("calculator", "calculator", "calculate", "compute", "math"),
        ("Calculate an expression.", "Do arithmetic", "Evaluate a sum or a product", "A calculator"),
        (Slot(("expression", "expression", "input", "formula"), _expression, STRING, ("Such as 2 * 3",)),),
        ("What is {0}?", "Calculate {0}.", "How much is {0}?", "Compute {0}", "{0}", "{0} = ?",
         "Can you compute {0}?", "What is {0.spoken}?", "How much is {0.spoken}?"),
        ("{0}", "{0.spoken}"),
        outcomes.calculator,
        ("{0}",),
    ),
    Skill(
        ("send_email", "send_message", "write_email"),
        ("Send a message.", "Send an email to someone"),
        (Slot(("to", "recipient"), Words.person, STRING, ("Who gets it",)),
         Slot(("subject", "title"), Words.subject, STRING)),
        ("Send {0} an email about {1}.", "Write to {0} about {1}.", "Send a message to {0} about {1}"),
        ("to {0} about {1}",),
        outcomes.done("The message to {0} is sent."),
    ),
    Skill(
        ("set_timer", "start_timer", "timer"),
        ("Start a timer.", "Set a timer for some minutes"),
        (Slot(("minutes", "duration"), lambda w: w.rng.randint(1, 99), INTEGER, ("In minutes",)),),
        ("Set a timer for {0} minutes.", "Start a timer of {0} minutes", "Timer, {0} minutes please"),
        ("for {0} minutes",),
        outcomes.done("The timer runs for {0} minutes."),
    ),
    Skill(
        ("translate", "translate_text"),
        ("Translate a text.", "Translate words into a language"),
        (Slot(("text", "words"), Words.thing, STRING),
         Slot(("language", "target"), lambda w: w.choice(LANGUAGES), STRING)),
        ("Translate {0} into {1}.", "How do you say {0} in {1}?", "What is {0} in {1}?"),
        ("{0} in {1}",),
        outcomes.told("In {1} it is {value}."),
    ),
    Skill(
        ("order_status", "get_order", "track_order"),
        ("Status of an order.", "Look up an order by its number"),
        (Slot(("order_id", "id", "number"), Words.code, STRING, ("Order number",)),),
        ("Where is my order {0}?", "What happened to order {0}?", "Check order {0}.", "Status of {0}?"),
        ("order {0}", "{0}"),
        outcomes.told("Order {0} is {value}."),
        ("the status of order {0}",),
    ),
    Skill(
        ("free_rooms", "find_rooms"),
        ("List the rooms that are free, with their prices.", "Find free rooms"),
        (Slot(("from_date", "date"), _date, STRING, ("First night, as YYYY-MM-DD",)), NIGHTS),
        ("Is there a room from {0} for {1} nights?", "I need a room on {0} for {1} nights.",
         "Rooms from {0}, {1} nights?"),
        ("from {0} for {1} nights",),
        outcomes.rooms,
    ),
    Skill(
        ("find_booking", "get_booking"),
        ("Find a booking by the guest's name.", "Look up a booking"),
        (Slot(("name", "guest"), lambda w: f"{w.choice(PEOPLE)} {w.name()}", STRING),),
        ("Is there a booking for {0}?", "Find the booking of {0}.", "Did {0} book a room?"),
        ("for {0}",),
        outcomes.told("The booking of {0} is {value}."),
    ),
)  # fmt: skip
COMMON = SKILLS[:4]  # the ones that most conversations are about
CALCULATOR = SKILLS[3]


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
        outcomes.told(f"The {noun} of {{0}} is {{value}}."),
        [f"the {noun} of {{0}}"],
    )
