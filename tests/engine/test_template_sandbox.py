"""Templates that try to take all time or all memory, or to get out: each is refused in one sentence."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from engine import template_budget
from engine.template_budget import Budget
from engine.template_sandbox import MAX_RENDERED_CHARS, MAX_TEMPLATE_CHARS, SandboxedTemplate, TemplateFault

STEPS, MADE_BYTES = 1 << 16, 1 << 20
DOUBLED = "{%% set ns = namespace(x=%s) %%}{%% for i in range(60) %%}{%% set ns.x = %s %%}{%% endfor %%}%s"
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that is soon used up."""
    monkeypatch.setattr(template_budget, "MAX_STEPS", STEPS)
    monkeypatch.setattr(template_budget, "MAX_MADE_BYTES", MADE_BYTES)


def rendered(source: str, **context: Any) -> str:
    return SandboxedTemplate(source).render({"messages": MESSAGES, **context})


def refusal(source: str, **context: Any) -> str:
    with pytest.raises(TemplateFault) as caught:
        rendered(source, **context)
    sentence = str(caught.value)
    assert 0 < len(sentence) <= 400 and "\n" not in sentence
    return sentence


PADDED = [
    "{{ 'x'|center(1000000000) }}",
    "{{ 'x'.center(1000000000) }}",
    "{{ 'x'['center'](1000000000) }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ 'x'.expandtabs(1000000000) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%999999999d'|format(1) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "{{ 'a' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    "{{ 10 ** 1000000000 }}",
    "{{ 1.5|round(1000000000, 'floor') }}",
    "{{ 'a\nb'|indent(1000000000) }}",
    "{{ 'a b'|wordwrap(1) }}",
    "{{ ['a']|batch(1000000000, 'x')|list }}",
    "{{ ['a']|slice(1000000000)|list }}",
    "{{ messages|tojson(indent=1000000000) }}",
    "{{ ['a']|map('center', 1000000000)|list }}",
    "{{ [[1], [2]]|sum(start=[]) }}",
    "{{ range(1000000000)|list }}",
    "{{ range(1000000000)|join }}",
    "{{ ','.join(range(1000000000)) }}",
    "{% filter center(1000000000) %}x{% endfilter %}",
    "{{ (1).to_bytes(1000000000, 'big') }}",
    "{{ lipsum(1000000000) }}",
    "{{ cycler('a') }}",
    "{{ strftime_now('%Y' ~ messages|tojson(indent=60)) }}",
]
DOUBLINGS = [
    ("'aa'", "ns.x ~ ns.x", "{{ ns.x|length }}"),
    ("'aa'", "ns.x + ns.x", "{{ ns.x|length }}"),
    ("'aa'", "ns.x.replace('a', 'aaaa')", "{{ ns.x|length }}"),
    ("'aa'", "ns.x|replace('a', 'aaaa')", "{{ ns.x|length }}"),
    ("'aa'", "ns.x.join(['a', 'b', 'c'])", "{{ ns.x|length }}"),
    ("'aa'", "[ns.x, ns.x]|join", "{{ ns.x|length }}"),
    ("'aa'", "[ns.x, ns.x]|tojson", "{{ ns.x|length }}"),
    ("'aa'", "[ns.x, ns.x]|string", "{{ ns.x|length }}"),
    ("'a\\n'", "(ns.x ~ '\\n')|replace(' ', '\\n')|indent(9, true, true)", "{{ ns.x|length }}"),
    ("[1]", "ns.x + ns.x", "{{ ns.x|length }}"),
    ("[1]", "[ns.x, ns.x]", "{{ ns.x|length }}"),
    ("[1]", "(ns.x, ns.x)", "{{ ns.x }}"),
    ("[1]", "{'a': ns.x, 'b': ns.x}", "{{ ns.x|tojson }}"),
    ("[1]", "dict(a=ns.x, b=ns.x)", "{{ ns.x == ns.x }}"),
    ("7", "ns.x * ns.x", "{{ ns.x }}"),
]
LONG_RUNNING = [
    "{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}",
    "{% for a in range(999) %}{% for b in 'x'.join(range(999)) %}{% endfor %}{% endfor %}",
    "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f(n) %}{% if n %}{{ caller(n) }}{{ caller(n) }}{% endif %}{% endmacro %}"
    "{% macro g(n) %}{% call(m) f(n) %}{{ g(m - 1) }}{% endcall %}{% endmacro %}{{ g(60) }}",
    "{% set x = range(9999)|list %}{% for a in x %}{% if x == x[:] %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|list %}{% for a in x %}{% if -1 in x %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|list %}{% for a in x %}{% if x.count(-1) %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|list %}{% for a in x %}{% if loop.changed(x) %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|list %}{% for a in x %}{% if x|map('string')|list %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|list %}{% for a in x %}{% if x is eq(x) %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|list %}{% set y %}{% for a in x %}{{ x }}{% endfor %}{% endset %}",
    "{% set x = range(9999)|join %}{% for a in range(9999) %}{% if x.find('b') %}{% endif %}{% endfor %}",
    "{% set x = range(9999)|join %}{% set y %}{% for a in range(9999) %}{{ x }}{% endfor %}{% endset %}",
    "{% set x = range(9999)|join %}{% if x|map('upper')|list and x|sort and x|unique|list %}{% endif %}" * 9,
    "{% set x = namespace() %}{% for a in range(9999) %}{% set x.y = [x.y, x.y, x.y] %}{% endfor %}",
    "{{ [-99999999]|map('entered')|list }}{{ [[1]]|map('looped', -99999999)|list }}",
]
ESCAPES = [
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ (''|attr('__class__')).mro() }}",
    "{{ messages|map(attribute='__class__.__mro__')|list }}",
    "{{ messages[0]['__class__']['__mro__'] }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ raise_exception.__globals__['json'] }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ self._TemplateReference__context.parent }}",
    "{{ dict.fromkeys('ab') }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(a=1) }}",
    "{{ messages[(1, 2)] }}",
    "{% include 'secret' %}",
    "{% import 'secret' as s %}",
    "{% from 'secret' import s %}",
    "{% extends 'secret' %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{% autoescape true %}{{ '<' }}{% endautoescape %}",
]


@pytest.mark.parametrize("source", [*PADDED, *(DOUBLED % parts for parts in DOUBLINGS), *LONG_RUNNING])
def test_a90_what_would_take_all_memory_or_time_is_refused_before_it_does(small: None, source: str) -> None:
    tracemalloc.start()
    try:
        refusal(source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MADE_BYTES


@pytest.mark.parametrize("source", ESCAPES)
def test_a90_nothing_is_reached_from_a_template_but_what_it_is_given(source: str) -> None:
    refusal(source)


def test_a90_a_loop_through_itself_has_no_text() -> None:
    looped = "{% set ns = namespace() %}{% set ns.ns = ns %}"
    assert rendered(looped + "{{ ns }}") == "<Namespace>"
    assert "not JSON serializable" in refusal(looped + "{{ ns|tojson }}")


@pytest.mark.parametrize("value", [10**400, "x" * 100_000, [[[["a"]]]], {"a": {"b": None}}, "\0", "\ud800", -1.5, True])
def test_what_a_request_gives_to_the_template_is_no_way_in_either(value: Any) -> None:
    source = "{% for m in messages %}{{ m.content }}{{ raise_exception(x) if x is mapping }}{% endfor %}{{ x|tojson }}"
    if isinstance(value, dict):
        assert "not callable" in refusal(source, x=value, raise_exception=value)
    else:
        assert rendered(source, x=value, range=value, namespace=value) == "Hello" + json.dumps(
            value, ensure_ascii=False
        )


def test_the_output_may_be_as_long_as_the_limit_and_no_longer() -> None:
    source = "{% for a in range(n) %}" + "x" * 1024 + "{% endfor %}{{ more }}"
    fits = MAX_RENDERED_CHARS // 1024
    assert len(rendered(source, n=fits, more="")) == MAX_RENDERED_CHARS
    assert refusal(source, n=fits, more="x") == f"the rendered text has more than {MAX_RENDERED_CHARS} characters"


def test_the_source_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert len(rendered("x" * MAX_TEMPLATE_CHARS)) == MAX_TEMPLATE_CHARS
    assert refusal("x" * (MAX_TEMPLATE_CHARS + 1)).endswith(f"expected at most {MAX_TEMPLATE_CHARS}")


def test_a_rendering_may_use_up_the_budget_and_the_next_one_has_it_again(small: None) -> None:
    template = SandboxedTemplate("{% for a in range(n) %}{% endfor %}")
    for _ in range(3):
        template.render({"n": 2000})
        assert STEPS / 8 < template.steps_taken < STEPS
        with pytest.raises(TemplateFault, match=f"the template takes more than {STEPS} steps in one rendering"):
            template.render({"n": 20_000})


def test_the_longest_conversation_takes_a_third_of_the_budget(released_template: str) -> None:
    """4096 messages, the most a request may have, with a call and its result in every turn."""
    call = {"function": {"name": "river_level", "arguments": {"place": "Ulm", "days": [1, 2]}}}
    turn = [
        {"role": "user", "content": "How high?"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nI look.", "tool_calls": [call]},
        {"role": "tool", "content": "3 m"},
    ]
    template = SandboxedTemplate(released_template)
    template.render({"messages": [*turn * 1365, turn[0]], "add_generation_prompt": True})
    assert template.steps_taken < template_budget.MAX_STEPS / 3


def test_sizes_count_what_is_there_twice_twice() -> None:
    budget = Budget()
    text = "x" * 1000
    assert budget.look([text, text]) > budget.look([text]) + 1000
    assert budget.look({"a": [text]}) > budget.look(text) >= 1000
