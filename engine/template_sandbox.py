"""A model file's Jinja template, rendered where it can do nothing but make text.

The template comes with the file, so it is hostile until checked: the sandbox is immutable, knows
only the functions that chat templates use, and bounds the source, the loops and the output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_TEMPLATE_CHARS = 1 << 18
MAX_RENDERED_CHARS = 1 << 21  # eight for each token of the longest context these models were trained for
MAX_LOOP_STEPS = 1 << 17  # taken by range() in one rendering

_COMPILE_ERRORS = (TemplateError, RecursionError, SyntaxError, ValueError)
_RENDER_ERRORS = (
    TemplateError, ArithmeticError, LookupError, AttributeError, TypeError, ValueError, RecursionError
)  # fmt: skip


class TemplateFault(Exception):
    """A template does not compile or does not render; the message is the template's own, if it has one."""


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Numbers may be multiplied; repeated strings and powers are how small templates take all memory."""
        if operator == "**" or not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise SecurityError(f"the operator {operator} is for numbers only, and ** is not allowed")
        return super().call_binop(context, operator, left, right)


class SandboxedTemplate:
    """One compiled template."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise TemplateFault(f"the template has {len(source)} characters, expected at most {MAX_TEMPLATE_CHARS}")
        environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = _to_json
        environment.globals = {
            "namespace": Namespace,
            "dict": dict,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        try:
            self._template = environment.from_string(source)
        except _COMPILE_ERRORS as error:
            raise TemplateFault(_sentence(error)) from error

    def render(self, context: Mapping[str, Any]) -> str:
        """The rendered text."""
        chunks: list[str] = []
        n_chars = 0
        try:
            for chunk in self._template.generate({**context, "range": _bounded_range()}):
                n_chars += len(chunk)
                if n_chars > MAX_RENDERED_CHARS:
                    raise TemplateFault(f"the rendered text has more than {MAX_RENDERED_CHARS} characters")
                chunks.append(chunk)
        except _RENDER_ERRORS as error:
            raise TemplateFault(_sentence(error)) from error
        return "".join(chunks)


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__


def _bounded_range() -> Any:
    """A range() for one rendering."""
    left = MAX_LOOP_STEPS

    def bounded_range(*arguments: int) -> range:
        nonlocal left
        steps = range(*arguments)
        left -= len(steps)
        if left < 0:
            raise SecurityError(f"range() takes more than {MAX_LOOP_STEPS} steps in one rendering")
        return steps

    return bounded_range


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: Jinja's own filter escapes < > & ' for HTML."""
    if isinstance(value, Undefined):
        raise TypeError("tojson of an undefined value")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)
