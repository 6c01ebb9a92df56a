r"""The grammar of tool calls in the family's form, from the tools' schemas.

    <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>

A string is raw text up to the end marker on a line of its own; every other value is JSON.  Parameters come in the
schema's order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from engine.argument_types import STRING, ArgumentTypes, type_of
from engine.grammar_schema import Expressible, Schema, SchemaTooLarge, escaped
from engine.tokenizer import Tokenizer

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_END = '"\\n</parameter>\\n"'
_KEY = re.compile(r"[^<>\n]{1,256}")  # what the parser of calls takes for a name
_OPEN_ENDED = r"~/(?s:.*)\n<\/parameter>(?s:.*)/"
_RAW = rf"/\n(?s:.*)/ & {_OPEN_ENDED}"  # with the line break that precedes it
_ANY_KEY = "/[^<>\\n]{1,64}/"
_UNKEPT = ("format", "pattern", "minLength", "maxLength", "minimum", "maximum")  # by text that is just text
_MAX_LENGTH = 10_000
_MAX_PARTS = 10_000  # of the schemas of all tools
_ANCHORED_END = re.compile(r"(?<!\\)(?:\\\\)*\$\Z")


class CallGrammar:
    """Rules of the calls of some tools.  ``relaxed`` are the parameters of which less is enforced than asked."""

    def __init__(self, tools: tuple[dict[str, Any], ...], tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tools = [_Tool(n, tool["function"]) for n, tool in enumerate(tools)]
        n_parts = 0
        for tool in self._tools:
            n_parts += tool.n_parts
            if n_parts > _MAX_PARTS:
                tool.loosen()

    @property
    def relaxed(self) -> list[str]:
        return [place for tool in self._tools for place in tool.relaxed]

    def fit(self, expressible: Expressible) -> None:
        """Relax what the rules cannot express."""
        for tool in self._tools:
            tool.fit(expressible)

    def loosen(self) -> None:
        """Give up every schema: raw text for every parameter."""
        for tool in self._tools:
            tool.loosen()

    def rules(self) -> str:
        """``call`` and ``opened_call``, the latter without its opening marker."""
        tags = sorted(self._tokenizer.user_defined.values())
        functions = " | ".join(f"tool_{tool.number}" for tool in self._tools)
        return "\n".join(
            (
                f"call: {self._marker(OPEN)} opened_call",
                f'opened_call: "\\n<function=" ({functions}) "</function>\\n" {self._marker(CLOSE)}',
                f"RAW: {_RAW}",
                f"RAW_END: RAW {_END}",
                f"tag: <[{','.join(map(str, tags))}]>" if tags else "",
                f"MORE: /(?s:.+)/ & {_OPEN_ENDED}",
                f"MORE_END: MORE? {_END}",
                "raw: RAW_END" + (" | RAW tag (MORE? tag)* MORE_END" if tags else ""),
                *(rule for tool in self._tools for rule in tool.rules()),
            )
        )

    def _marker(self, spelling: str) -> str:
        id_ = self._tokenizer.specials.get(spelling)
        return literal(spelling) if id_ is None else f"<[{id_}]>"


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Tool:
    def __init__(self, number: int, function: dict[str, Any]) -> None:
        self.number = number
        self._name: str = function["name"]
        self._types = ArgumentTypes(function.get("parameters"))
        self._unread = False
        self._left_out: dict[str, None] = {}  # what only the form of calls cannot hold
        try:
            self._schema = Schema(function.get("parameters") or {})
        except SchemaTooLarge:
            self.loosen()

    @property
    def n_parts(self) -> int:
        return self._schema.n_parts

    @property
    def relaxed(self) -> list[str]:
        if self._unread:
            return [self._name]
        return [self._name + place for place in (*self._schema.relaxed, *self._left_out)]

    def loosen(self) -> None:
        self._schema, self._unread = Schema({"additionalProperties": True}), True

    def fit(self, expressible: Expressible) -> None:
        try:
            self._schema.fit(expressible, [pointer for _, pointer, _ in self._parameters() if self._schema.at(pointer)])
        except SchemaTooLarge:
            self.loosen()

    def rules(self) -> Iterator[str]:
        name = f"tool_{self.number}"
        parts = [literal(f"{self._name}>\n")]
        parameters = self._parameters()
        for n, (key, pointer, required) in enumerate(parameters):
            yield from self._parameter(f"{name}_{n}", literal(f"<parameter={key}>"), key, pointer)
            parts.append(f"{name}_{n}" if required else f"{name}_{n}?")
        free = self._object().get("additionalProperties")
        if free is not None and free is not False:
            listed = " | ".join(literal(key) for key, _, _ in parameters)
            yield f"{name.upper()}_KEY: {_ANY_KEY}" + (f" & ~({listed})" if listed else "")
            place = f"{self._root()}/additionalProperties"
            yield from self._parameter(f"{name}_free", f'"<parameter=" {name.upper()}_KEY ">"', "", place)
            parts.append(f"{name}_free*")
        yield f"{name}: {' '.join(parts)}"

    def _parameter(self, rule: str, opening: str, key: str, pointer: str) -> Iterator[str]:
        """The rule of one parameter, and the terminal of its value if that needs one."""
        types = set(STRING) if self._unread else self._types.of(key)
        conditions = self._conditions(pointer) if types == STRING else []
        if texts := self._literals(pointer, types):
            value = f"{rule.upper()}_END"
            choices = " | ".join(literal("\n" + text) for text in texts)
            yield f"{value}: ({choices}) {_END}"
        elif conditions:
            value = f"{rule.upper()}_END"
            yield f"{value}: ({' & '.join((_RAW, *conditions))}) {_END}"
        elif "string" in types:
            value = "raw"
            asked = json.dumps(self._schema.at(self._schema.resolved(pointer)))
            if any(f'"{name}"' in asked for name in _UNKEPT):
                self._left_out[pointer] = None
        else:
            value = f'"\\n" %json {self._schema.json(pointer, types)} {_END}'
        yield f"{rule}: {opening} {value}"

    def _root(self) -> str:
        return self._schema.resolved("")

    def _object(self) -> dict[str, Any]:
        root = self._schema.at(self._root())
        return root if isinstance(root, dict) else {}

    def _parameters(self) -> list[tuple[str, str, bool]]:
        """Name, place of the schema and whether it is required.  A name the form cannot hold is left out."""
        root = self._object()
        properties, required = root.get("properties"), root.get("required")
        listed = properties if isinstance(properties, dict) else {}
        wanted = [key for key in required if isinstance(key, str)] if isinstance(required, list) else []
        found = []
        for key in dict.fromkeys((*listed, *wanted)):
            pointer = f"{self._root()}/properties/{escaped(key)}"
            if _KEY.fullmatch(key):
                found.append((key, pointer, key in wanted))
            else:
                self._left_out[pointer] = None
        return found

    def _literals(self, pointer: str, types: set[str]) -> list[str]:
        """The texts of the only values there are, if the schema lists them."""
        texts: dict[str, None] = {}
        for value in self._schema.values(pointer) or ():
            name = type_of(value)
            if name in types or (name == "integer" and "number" in types):
                texts[value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)] = None
        return [text for text in texts if "\n</parameter>" not in f"\n{text}"]

    def _conditions(self, pointer: str) -> list[str]:
        """A string's length and pattern, as terminals that its raw text must match too."""
        node = self._schema.at(self._schema.resolved(pointer))
        if not isinstance(node, dict):
            return []
        conditions = []
        least, most = _length(node.get("minLength")) or 0, _length(node.get("maxLength"))
        if least or most is not None:
            conditions.append(f"/\\n(?s:.{{{least},{'' if most is None else most}}})/")
        if isinstance(pattern := node.get("pattern"), str):
            searched = _searched(pattern)
            conditions += [searched] if searched else []
            if searched is None:
                self._left_out[pointer] = None
        if conditions and "format" in node:
            self._left_out[pointer] = None
        return conditions


def _length(limit: object) -> int | None:
    return limit if isinstance(limit, int) and 0 <= limit <= _MAX_LENGTH else None


def _searched(pattern: str) -> str | None:
    """Text in which a pattern is found, as a terminal; None for a pattern of which the anchors are not clear."""
    from llguidance import regex_to_lark

    at_start, at_end = pattern.startswith("^"), bool(_ANCHORED_END.search(pattern))
    inner = pattern[at_start : len(pattern) - at_end]
    grouped = inner.startswith("(") and inner.endswith(")") and inner.count("(") == 1
    if "\n" in pattern or ("|" in inner and not grouped and (at_start or at_end)):
        return None
    before, after = ("" if anchored else "(?s:.*)" for anchored in (at_start, at_end))
    return f"/\\n{before}({regex_to_lark(inner, 'dw')}){after}/"
