"""The filters, tests and attributes that chat templates use, and no others.

Most make at most a few times what they are given.  The others are written here, and say first how much they will make.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Undefined, filters
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.tests import TESTS

from engine.template_budget import Budget

Function = Callable[..., Any]


def _named(functions: Mapping[str, Any], names: str) -> dict[str, Function]:
    return {name: functions[name] for name in names.split()}


SMALL_FILTERS = _named(filters.FILTERS, "count d default first last length")  # take no time, make nothing
FILTERS = _named(
    filters.FILTERS,
    "abs capitalize float int items lower reverse safe string title trim upper",
)
ITERATING_FILTERS = _named(
    filters.FILTERS, "dictsort map max min reject rejectattr select selectattr sort unique"
)  # something is called, or compared, for each part
SMALL_TESTS = _named(
    TESTS,
    "boolean callable defined even false float integer iterable mapping none number odd sequence string true undefined",
)
COMPARISONS = _named(
    TESTS, "== != < <= > >= eq equalto ge greaterthan gt in le lessthan lower lt ne sameas upper"
)  # also go through their arguments
ATTRIBUTES = {
    kind: frozenset(names.split())
    for kind, names in {
        str: """capitalize count endswith find index isalnum isalpha isdigit islower isspace isupper join lower lstrip
            removeprefix removesuffix replace rfind rsplit rstrip split splitlines startswith strip title upper""",
        dict: "get items keys values",
        list: "count index",
        tuple: "count index",
        LoopContext: """changed cycle depth depth0 first index index0 last length nextitem previtem revindex
            revindex0""",
    }.items()
}
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_PART_BYTES = 96  # of a text that is cut out of another, with its place in a list
_MAX_JSON_GROWTH = 6  # \u0000
_MAX_SPACES = 64


class BoundedFunctions:
    """Filters, and methods of texts, that could make much out of little."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.filters: dict[str, Function] = {
            "indent": self._indent,
            "join": self._join,
            "list": self._list,
            "replace": self._replace,
            "round": self._round,
            "tojson": self._to_json,
        }
        self.methods: dict[str, Function] = {
            "join": lambda separator, parts: self._join(parts, separator),
            "replace": self._replace,
            "rsplit": lambda text, *how, **named: self._parts(text, *how, **named).rsplit(*how, **named),
            "split": lambda text, *how, **named: self._parts(text, *how, **named).split(*how, **named),
            "splitlines": self._lines,
        }

    def _indent(self, text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        margin = width if isinstance(width, str) else " " * _small(width)
        self._reserve(text, (text.count("\n") + 1) * len(margin))
        return filters.do_indent(text, margin, first, blank)

    def _join(self, parts: Sequence[Any], d: str = "") -> str:
        self._reserve(parts)
        self._budget.spend(len(parts))
        texts = [str(part) for part in parts]
        self._reserve(texts, len(texts) * self._budget.look(d))
        return d.join(texts)

    def _list(self, value: Sequence[Any]) -> list[Any]:
        self._reserve(value, len(value) * _PART_BYTES)
        return list(value)

    def _replace(self, text: str, old: str, new: str, count: int = -1) -> str:
        self._reserve(text, str(text).count(old) * self._budget.look(new))
        return str(text).replace(old, new, count)

    def _round(self, value: float, precision: int = 0, method: Any = "common") -> float:
        return filters.do_round(value, _small(precision), method)

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Plain JSON: Jinja's own filter escapes < > & ' for HTML."""
        if isinstance(value, Undefined):
            raise TypeError("tojson of an undefined value")
        size = self._budget.look(value)
        self._budget.reserve(_MAX_JSON_GROWTH * size)
        spaces = None if indent is None else _small(indent)
        for separator in separators or ():
            _small(len(separator))
        encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=spaces, separators=separators, sort_keys=sort_keys)
        if spaces is None:
            return encoder.encode(value)
        pieces, n_chars = [], 0
        for piece in encoder.iterencode(value):
            n_chars += len(piece)
            self._budget.reserve(n_chars)
            pieces.append(piece)
        return "".join(pieces)

    def _parts(self, text: str, sep: str | None = None, maxsplit: int = -1) -> str:
        """The text, once the parts it will be split into are reserved."""
        n_parts = len(text) // 2 if sep is None else text.count(sep)
        if maxsplit >= 0:
            n_parts = min(n_parts, maxsplit)
        self._reserve(text, (n_parts + 1) * _PART_BYTES)
        return text

    def _lines(self, text: str, keepends: bool = False) -> list[str]:
        self._reserve(text, (sum(map(text.count, _LINE_ENDS)) + 1) * _PART_BYTES)
        return text.splitlines(keepends)

    def _reserve(self, given: Any, more_bytes: int = 0) -> None:
        self._budget.reserve(self._budget.look(given) + more_bytes)


def _small(n: int) -> int:
    if not 0 <= n <= _MAX_SPACES:
        raise SecurityError(f"a width or a number of decimal places is {n}, expected 0 to {_MAX_SPACES}")
    return n
