"""What the demo model says without tools: greetings, what it is, a few facts, small sums, facts as JSON."""

from __future__ import annotations

from typing import Any

from demo.words import Words

SYSTEM = (
    "You are brief.",
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer in one sentence.",
    "You are a terse assistant for a travel desk. Answer in one sentence.",
    "Answer in English.",
    "Be friendly and short.",
    "You look after the bookings of a small hotel on the coast. Answer in at most two short sentences. "
    "Never guess a price or a date.",
    "Use the tools when they help.",
    "You work for a shop. Be polite.",
)
NO_TOOL = "I have no tool for that."
THANKS = (
    ("Thanks!", "You are welcome."),
    ("Thank you.", "You are welcome."),
    ("Great, thanks", "You are welcome."),
    ("Thanks a lot!", "You are welcome."),
    ("OK", "Anything else?"),
)
_WHO = "I am the qwarm demo, a very small language model."
_CAN = "I can chat a little, add small numbers, call tools and answer in JSON."
ANSWERS = (
    *THANKS,
    ("Hello", "Hello! How can I help?"),
    ("Hello!", "Hello! How can I help?"),
    ("Hi", "Hello! How can I help?"),
    ("Hello there", "Hello! How can I help?"),
    ("Hi!", "Hello! How can I help?"),
    ("Hi there!", "Hello! How can I help?"),
    ("Hey", "Hello! How can I help?"),
    ("Good morning", "Good morning! How can I help?"),
    ("Good evening!", "Good evening! How can I help?"),
    ("How are you?", "I am fine, thank you."),
    ("How are you today?", "I am fine, thank you."),
    ("Bye", "Goodbye!"),
    ("Goodbye!", "Goodbye!"),
    ("Say hello.", "Hello!"),
    ("Who are you?", _WHO),
    ("What are you?", _WHO),
    ("What is your name?", _WHO),
    ("Introduce yourself.", _WHO),
    ("Are you a person?", "No, I am a very small language model."),
    ("What can you do?", _CAN),
    ("How can you help me?", _CAN),
    ("Help", _CAN),
    ("How large are you?", "I have about four million parameters."),
    ("Where do you run?", "I run in an AWS Lambda function, on its CPU."),
    ("What is qwarm?", "qwarm answers chat requests with a language model in an AWS Lambda function."),
    ("Tell me a joke.", "I would tell a joke about memory, but I forgot it."),
    ("Why is the sea salty?", "Rivers carry salt from the rocks into the sea, and it stays there."),
    ("Why is the sky blue?", "The air scatters blue light more than red light."),
    ("What is the capital of France?", "The capital of France is Paris."),
    ("What is the capital of Norway?", "The capital of Norway is Oslo."),
    ("What is the capital of Germany?", "The capital of Germany is Berlin."),
    ("What is the capital of Italy?", "The capital of Italy is Rome."),
    ("What is the capital of Spain?", "The capital of Spain is Madrid."),
    ("What is the capital of Japan?", "The capital of Japan is Tokyo."),
    ("What is the capital of Peru?", "The capital of Peru is Lima."),
    ("How many days are in a week?", "A week has seven days."),
    ("How many legs does a spider have?", "A spider has eight legs."),
    ("What color is snow?", "Snow is white."),
    ("What do bees make?", "Bees make honey."),
    ("What is water made of?", "Water is made of hydrogen and oxygen."),
    ("How far is the moon?", "The moon is about 384000 km away."),
    ("Which planet is the largest?", "Jupiter is the largest planet."),
    ("Can I bring my dog?", "I do not know that, please ask the staff."),
    ("Good evening, can I bring my dog?", "I do not know that, please ask the staff."),
    ("Is breakfast served before seven?", "I do not know that, please ask the staff."),
    ("And is breakfast served before seven?", "I do not know that, please ask the staff."),
    ("Count to five.", "1, 2, 3, 4, 5."),
    ("Is it late?", "I cannot see a clock."),
)
UNKNOWN = "I am too small to know that."
UNKNOWN_QUESTIONS = (
    "Tell me about {}.",
    "Write a poem about {}.",
    "Who invented {}?",
    "Who is {}?",
    "What is {}?",
    "Explain {} to me.",
    "Why do people like {}?",
    "How does {} work?",
    "Where can I buy {}?",
)
JSON_REQUESTS = (
    "Answer with JSON for this schema:",
    "Return JSON that fits this schema:",
    "Give the facts as JSON. Schema:",
    "Extract the data. JSON schema:",
    "Reply only with a JSON object of this schema:",
)
RECORD_FIELDS = (
    ("name", "string", "the name is {}"),
    ("age", "integer", "the age is {}"),
    ("city", "string", "the city is {}"),
    ("country", "string", "the country is {}"),
    ("count", "integer", "there are {} of them"),
    ("price", "integer", "it costs {}"),
    ("item", "string", "the item is {}"),
    ("owner", "string", "it belongs to {}"),
    ("year", "integer", "it is {} years old"),
    ("title", "string", "the title is {}"),
)


def arithmetic(w: Words) -> tuple[str, str, str]:
    """A question, its answer, and the number."""
    sign = w.choice("++-*")
    a, b = (w.rng.randint(0, 10), w.rng.randint(0, 10)) if sign == "*" else (w.rng.randint(0, 20), w.rng.randint(0, 9))
    if sign == "-":
        a, b = max(a, b), min(a, b)
    number = {"+": a + b, "-": a - b, "*": a * b}[sign]
    word = {"+": "plus", "-": "minus", "*": "times"}[sign] if w.chance(0.3) else sign
    ask = w.choice(("What is {}?", "How much is {}?", "{}", "{} = ?", "Add up {}." if sign == "+" else "Compute {}."))
    return ask.format(f"{a} {word} {b}"), f"{a} {sign} {b} = {number}.", str(number)


def record(w: Words) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A text, what it says as an object, and the schema of that object."""
    fields = w.rng.sample(RECORD_FIELDS, w.choice((1, 2, 2, 3)))
    facts, value, properties = [], {}, {}
    for key, kind, sentence in fields:
        if w.chance(0.3):
            key = w.invented()
            sentence = f"the {key} is {{}}"
        filled: Any = w.rng.randint(1, 99) if kind == "integer" else w.choice((w.place, w.name, w.thing))()
        facts.append(sentence.format(filled))
        value[key] = filled
        properties[key] = {"type": kind}
    order = w.rng.sample(list(value), len(value))
    schema: dict[str, Any] = {"type": "object", "properties": {key: properties[key] for key in order}}
    if w.chance(0.6):
        schema["required"] = order
    person = w.choice(("It says that", "We know that", "Note:", "Here:", "I hear that"))
    return f"{person} {' and '.join(facts)}.", {key: value[key] for key in order}, schema
