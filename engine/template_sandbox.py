"""A model file's Jinja template, rendered where it can do nothing but make text.

The template comes with the file, so it is hostile until checked, and what it renders is hostile too.  The sandbox is
immutable, knows only what chat templates use, and pays for everything out of one budget: Metering puts payments into
the template; the environment adds those of calls, filters and operators.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from types import BuiltinMethodType
from typing import Any, NoReturn

from jinja2 import Template
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import LoopControlExtension
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context

from engine.template_budget import Budget
from engine.template_functions import (
    ATTRIBUTES,
    COMPARISONS,
    FILTERS,
    ITERATING_FILTERS,
    SMALL_FILTERS,
    SMALL_TESTS,
    BoundedFunctions,
    Function,
)
from engine.template_metering import Metering

MAX_TEMPLATE_CHARS = 1 << 16  # compiling one of this size takes 100 MB; Qwen3.5's has 8,000
MAX_RENDERED_CHARS = 1 << 21  # eight for each token of the longest context these models were trained for
_MAX_MESSAGE_CHARS = 400
_MAX_LAYOUT_CHARS = 64
_MAX_INT_BITS = 256
_CALL_STEPS = 16
_MAX_GROWTH = 6  # of what an operation is given, if it is not one of BoundedFunctions
_WITH_PARTS = (str, list, tuple, dict, range)
_OF_THE_COMPILER = ("_loop_vars", "_block_vars")  # that it adds to the arguments of calls

_COMPILE_ERRORS = (TemplateError, RecursionError, SyntaxError, ValueError)
_RENDER_ERRORS = (
    TemplateError, ArithmeticError, LookupError, AttributeError, TypeError, ValueError, RecursionError
)  # fmt: skip


class TemplateFault(Exception):
    """A template does not compile or does not render; the message is the template's own, if it has one."""


class _Namespace(Namespace):
    def __repr__(self) -> str:
        return "<Namespace>"  # not what is in it: it may be itself


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension],
            optimized=False,  # nothing is evaluated before it is paid for
            finalize=self._shown,
        )
        self.budget = Budget()
        bounded = BoundedFunctions(self.budget)
        self._methods = bounded.methods
        self.filters = {
            **SMALL_FILTERS,
            **{name: self._paid(function) for name, function in (FILTERS | bounded.filters).items()},
            **{name: self._paid(function, _CALL_STEPS) for name, function in ITERATING_FILTERS.items()},
            "compared": self._compared,
            "entered": self._entered,
            "joined": self._joined,
            "looped": self._looped,
            "made": self._made,
        }
        self.tests = {**SMALL_TESTS, **{name: self._paid(function) for name, function in COMPARISONS.items()}}
        self.globals = {
            "namespace": _Namespace,
            "dict": dict,
            "range": range,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if type(obj) is _Namespace:
            return super().is_safe_attribute(obj, attr, value)
        return attr in ATTRIBUTES.get(type(obj), ())

    def wrap_str_format(self, value: Any) -> None:
        """Jinja's own str.format knows what is private, not what is long: no template gets one."""

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(argument, str | int):
            raise SecurityError(f"a subscript is of type {type(argument).__name__}, expected a name or a number")
        return super().getitem(obj, argument)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.budget.spend(_CALL_STEPS)
        if isinstance(function, Macro):  # what a macro does, and what it puts out, is paid for
            return super().call(context, function, *args, **kwargs)
        named = {name: value for name, value in kwargs.items() if name not in _OF_THE_COMPILER}
        self._expect((*args, *named.values()))
        if isinstance(function, BuiltinMethodType) and isinstance(owner := function.__self__, str | list | tuple):
            self._expect([owner])
            if isinstance(owner, str) and function.__name__ in self._methods:
                return self.budget.make(self._methods[function.__name__](owner, *args, **named))
        return self.budget.make(super().call(context, function, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Numbers of a sensible size, and whatever can be added."""
        for value in (left, right):
            if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
                raise SecurityError(f"a number has more than {_MAX_INT_BITS} bits")
            if operator != "+" and not isinstance(value, int | float):
                raise SecurityError(f"the operator {operator} is for numbers only")
        if operator == "**":
            raise SecurityError("the operator ** is not allowed")
        return self.budget.make(super().call_binop(context, operator, left, right))

    def concat(self, pieces: list[str]) -> str:  # type: ignore[override]  # Jinja has a function here
        """What a macro or a block has put out."""
        self.budget.reserve(self.budget.look(pieces))
        return self.budget.make("".join(pieces))

    @pass_context
    def _joined(self, _context: Context, values: list[Any]) -> str:
        """The operator ~."""
        self._expect(values)
        return self.concat([str(value) for value in values])

    @pass_context
    def _made(self, _context: Context, value: Any) -> Any:
        return self.budget.make(value)

    @pass_context
    def _compared(self, _context: Context, value: Any) -> Any:
        self.budget.look(value)
        return value

    @pass_context
    def _looped(self, _context: Context, values: Any, body_steps: int) -> Any:
        self.budget.spend(len(values) * body_steps)
        return values

    @pass_context
    def _entered(self, _context: Context, body_steps: int) -> str:
        self.budget.spend(body_steps)
        return ""

    @pass_context
    def _shown(self, _context: Context, value: Any) -> Any:
        """What {{ }} puts out."""
        self._expect([value])
        return value if isinstance(value, str) else self.budget.make(str(value))

    def _expect(self, given: Iterable[Any]) -> None:
        """Pay for going through what an operation is given, and make sure that it can be paid for what it makes."""
        self.budget.reserve(_MAX_GROWTH * sum(map(self.budget.look, given)))

    def _paid(self, function: Function, per_part: int = 0) -> Function:
        """A filter or a test that pays for what it is given and what it makes."""

        @wraps(function)
        def paid(*args: Any, **kwargs: Any) -> Any:
            if per_part:
                self.budget.spend(per_part * max((len(arg) for arg in args if isinstance(arg, _WITH_PARTS)), default=0))
            self._expect((*args, *kwargs.values()))
            result = function(*args, **kwargs)
            return self.budget.make(list(result) if isinstance(result, Iterator) else result)

        return paid


class SandboxedTemplate:
    """One compiled template."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise TemplateFault(f"the template has {len(source)} characters, expected at most {MAX_TEMPLATE_CHARS}")
        self._environment = _Environment()
        self._turn = threading.Lock()  # there is one budget
        try:
            tree = Metering().visit(self._environment.parse(source))
            code = self._environment.compile(tree.set_environment(self._environment))
        except _COMPILE_ERRORS as error:
            raise TemplateFault(_sentence(error)) from error
        self._template = Template.from_code(self._environment, code, self._environment.make_globals(None))

    @property
    def steps_taken(self) -> int:
        """Of the budget, by the last rendering."""
        return self._environment.budget.steps_taken

    def render(self, context: Mapping[str, Any]) -> str:
        """The rendered text."""
        chunks: list[str] = []
        n_chars = 0
        with self._turn:
            self._environment.budget.renew()
            try:
                for chunk in self._template.generate(context):
                    n_chars += len(chunk)
                    if n_chars > MAX_RENDERED_CHARS:
                        raise TemplateFault(f"the rendered text has more than {MAX_RENDERED_CHARS} characters")
                    chunks.append(chunk)
            except _RENDER_ERRORS as error:
                raise TemplateFault(_sentence(error)) from error
        return "".join(chunks)


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message[:_MAX_MESSAGE_CHARS])


def _strftime_now(layout: str) -> str:
    if len(layout) > _MAX_LAYOUT_CHARS:
        raise SecurityError(f"a layout of a date has {len(layout)} characters, expected at most {_MAX_LAYOUT_CHARS}")
    return datetime.now().strftime(layout)
