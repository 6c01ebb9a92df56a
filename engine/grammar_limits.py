"""What the grammar library cannot bear, found by feeding it odd schemas: it crashes, or takes all the time there is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

MAX_NUMBER = 2**53  # up to which doubles count exactly; from about -2**63 on the library overflows its stack
MAX_COMBINED = 8  # patterns that one text may have to match; with each more the time is four times as long
MAX_MODULUS = 10_000  # the library has a state for each remainder

_ALTERNATIVES = {"$ref", "anyOf", "oneOf"}
_COSTLY = {"pattern", "multipleOf"}


def has_huge_number(value: Any) -> bool:
    """Whether a JSON value has a number beyond MAX_NUMBER in it."""
    if isinstance(value, dict):
        return any(map(has_huge_number, value.values()))
    if isinstance(value, list):
        return any(map(has_huge_number, value))
    return isinstance(value, int | float) and abs(value) > MAX_NUMBER


def exploding(nodes: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The patterns and divisors of a schema's parts, each a pointer and a node, that are too much together or alone.

    They count together wherever in the schema they are, if there are parts in it that a value must fit at once.
    """
    together = any("allOf" in node or (_ALTERNATIVES & set(node) and _COSTLY & set(node)) for _, node in nodes)
    n_patterns, modulus = 0, 1
    for pointer, node in nodes:
        if "pattern" in node:
            n_patterns += 1
            if together and n_patterns > MAX_COMBINED:
                yield pointer, node, "pattern"
        if "multipleOf" in node:
            both = math.lcm(modulus if together else 1, _modulus(node["multipleOf"]))
            if both > MAX_MODULUS:
                yield pointer, node, "multipleOf"
            else:
                modulus = both


def _modulus(divisor: object) -> int:
    """How many remainders there are of a decimal number, of which the zeros at its ends do not count."""
    if isinstance(divisor, bool) or not isinstance(divisor, int | float) or divisor <= 0:
        return 1  # refused by the library, in words
    return int("".join(map(str, Decimal(str(divisor)).as_tuple().digits)).strip("0") or "1")
