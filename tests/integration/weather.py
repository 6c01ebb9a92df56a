"""A tool, a question that needs it, and what the model in the box says once it has called it."""

from __future__ import annotations

import json

QUESTION = "What is the weather in Bergen?"
ANSWER = "It is 7 °C and rainy in Bergen."


def get_weather(city: str) -> str:
    """Get the current weather for a city."""
    return json.dumps({"temperature": 7 if city == "Bergen" else -40, "condition": "rainy"})
