"""A client's JSON schema as llguidance takes it: bounded, self-contained, and relaxed where it has to be.

References are resolved within the schema only: nothing is ever fetched.  What is relaxed is noted by its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

from engine.grammar_limits import exploding, has_huge_number

MAX_DEPTH = 48
MAX_PARTS = 2000
MAX_VALUES = 5000  # in enumerations and lists of required names

_MAPS = ("$defs", "definitions", "properties", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")
_SILENT = {  # what says nothing about a value, or would change how the rest is read
    "$anchor", "$comment", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "default", "deprecated", "description",
    "discriminator", "example", "examples", "id", "nullable", "readOnly", "title", "writeOnly", "x-guidance",
}  # fmt: skip
_SHAPE = {*_MAPS, *_LISTS, *_SINGLE, "$ref", "type", "enum", "const", "required"} - {"patternProperties", "oneOf"}
_TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}
_ROOT = "#/$defs/root"  # where a schema is, within a text that refers to it
_WHITESPACE = r" |\n[ \t]{0,64}"  # between JSON tokens: bounded, or a weak model never leaves it

Expressible = Callable[[str], bool]


class SchemaTooLarge(Exception):
    """The schema is over a limit; says which."""


class Schema:
    """One schema, the parts of which are told by JSON pointers.

    ``relaxed`` are the places at which less is enforced than it asks for.
    """

    def __init__(self, schema: object) -> None:
        """Raises SchemaTooLarge."""
        self._given = schema
        self.n_parts = 0
        self._n_values = 0
        self.relaxed: list[str] = []
        self.root = self._cleaned(schema, "", 0)
        self._drop_what_explodes()

    def json(self, pointer: str = "", types: Iterable[str] = ()) -> str:
        """The part at a pointer as text for ``%json``; ``types`` are the only ones a value may have, if given."""
        node = self.at(pointer)
        if not isinstance(node, dict):
            node = {"enum": []} if node is False else {}
        if '"$ref"' in json.dumps(node):
            node = {"$ref": _ROOT + _fragment(pointer), "$defs": {"root": self.root}}
        if types and "type" not in node:
            node = {**node, "type": sorted(types)}
        return json.dumps({**node, "x-guidance": {"whitespace_pattern": _WHITESPACE}})

    def at(self, pointer: str) -> Any:
        """The part at a pointer; None if there is none."""
        return _at(self.root, pointer)

    def resolved(self, pointer: str) -> str:
        """Where the references that begin at a pointer lead to."""
        seen: set[str] = set()
        while isinstance(node := self.at(pointer), dict) and "$ref" in node and pointer not in seen:
            seen.add(pointer)
            pointer = unquote(node["$ref"].removeprefix(_ROOT))
        return pointer

    def values(self, pointer: str) -> list[Any] | None:
        """The only values there are, if the part at a pointer lists them itself or in its alternatives."""
        values: list[Any] = []
        pending, seen = [pointer], set()
        while pending:
            pointer = self.resolved(pending.pop(0))
            node = self.at(pointer)
            if pointer in seen:
                continue
            seen.add(pointer)
            if not isinstance(node, dict):
                return None
            if "const" in node:
                values.append(node["const"])
            elif isinstance(node.get("enum"), list):
                values += node["enum"]
            elif node.get("type") == "null":
                values.append(None)
            elif (name := _union(node)) is not None:
                pending[:0] = [f"{pointer}/{name}/{n}" for n in range(len(node[name]))]
            else:
                return None
        return values

    def fit(self, expressible: Expressible, pointers: Iterable[str] = ("",)) -> None:
        """Relax what cannot be expressed, at places as small as will do."""
        maps = [f"/{name}" for name in ("$defs", "definitions")]
        shared = [
            f"{place}/{escaped(key)}" for place in maps if isinstance(map_ := self.at(place), dict) for key in map_
        ]
        for pointer in (*shared, *pointers):
            self._fit(expressible, pointer)

    def _fit(self, expressible: Expressible, pointer: str) -> None:
        node = self.at(pointer)
        if not isinstance(node, dict) or expressible(self.json(pointer)):
            return
        for child in list(_children(node, pointer)):
            self._fit(expressible, child)
        for simpler in (_any_for_one, _shape, _type, _anything):
            if expressible(self.json(pointer)):
                return
            simplified = simpler(node)
            node.clear()
            node.update(simplified)
            self._note(pointer)

    def _cleaned(self, schema: object, pointer: str, depth: int) -> Any:
        """A copy of nothing but what constrains values; references that lead out or nowhere are dropped."""
        self.n_parts += 1
        if depth > MAX_DEPTH or self.n_parts > MAX_PARTS:
            raise SchemaTooLarge(f"it has more than {MAX_DEPTH} levels or {MAX_PARTS} parts")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            self._note(pointer)
            return {}
        copy: dict[str, Any] = {}
        for name, value in schema.items():
            place = f"{pointer}/{escaped(name)}"
            if name == "$ref":
                target = self._target(value)
                if target is None:
                    self._note(pointer)
                else:
                    copy[name] = _ROOT + _fragment(target)
            elif name in _MAPS and isinstance(value, dict):
                copy[name] = {k: self._cleaned(v, f"{place}/{escaped(k)}", depth + 1) for k, v in value.items()}
            elif name in _LISTS and isinstance(value, list):
                copy[name] = [self._cleaned(v, f"{place}/{i}", depth + 1) for i, v in enumerate(value)]
            elif name in _SINGLE and isinstance(value, dict):
                copy[name] = self._cleaned(value, place, depth + 1)
            elif name in ("enum", "required") and self._too_many(value):
                raise SchemaTooLarge(f"it has more than {MAX_VALUES} values and required names")
            elif name not in _SILENT and not has_huge_number(value):
                copy[name] = value
            elif name not in _SILENT:
                self._note(pointer)
        if schema.get("nullable") is True and isinstance(copy.get("type"), str):
            copy["type"] = [copy["type"], "null"]
        return copy

    def _too_many(self, values: object) -> bool:
        self._n_values += len(values) if isinstance(values, list) else 0
        return self._n_values > MAX_VALUES

    def _drop_what_explodes(self) -> None:
        pointers = [""]
        for pointer in pointers:
            if isinstance(node := self.at(pointer), dict):
                pointers += _children(node, pointer)
        nodes = [(pointer, node) for pointer in pointers if isinstance(node := self.at(pointer), dict)]
        for pointer, node, name in exploding(nodes):
            del node[name]
            self._note(pointer)

    def _target(self, reference: object) -> str | None:
        """The pointer in a reference to a part of this schema."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        candidates = (reference[1:], unquote(reference[1:]))
        return next((p for p in candidates if isinstance(_at(self._given, p), (dict, bool))), None)

    def _note(self, pointer: str) -> None:
        if pointer not in self.relaxed:
            self.relaxed.append(pointer)


def escaped(key: str) -> str:
    """A key as part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _union(node: dict[str, Any]) -> str | None:
    """The keyword under which a part has alternatives, or the only thing it is."""
    lists = {name: node[name] for name in ("anyOf", "oneOf", "allOf") if isinstance(node.get(name), list)}
    return next((name for name, parts in lists.items() if name != "allOf" or len(parts) == 1), None)


def _fragment(pointer: str) -> str:
    return quote(pointer, safe="/~$")


def _at(node: Any, pointer: str) -> Any:
    if pointer and not pointer.startswith("/"):
        return None
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and len(key) < 9 and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def _children(node: dict[str, Any], pointer: str) -> Iterator[str]:
    for name, value in node.items():
        if name in _MAPS and isinstance(value, dict):
            yield from (f"{pointer}/{name}/{escaped(key)}" for key in value)
        elif name in _LISTS and isinstance(value, list):
            yield from (f"{pointer}/{name}/{i}" for i in range(len(value)))
        elif name in _SINGLE:
            yield f"{pointer}/{name}"


def _any_for_one(node: dict[str, Any]) -> dict[str, Any]:
    """At least one of the alternatives instead of exactly one."""
    return {("anyOf" if name == "oneOf" and "anyOf" not in node else name): value for name, value in node.items()}


def _shape(node: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name in _SHAPE}


def _type(node: dict[str, Any]) -> dict[str, Any]:
    declared = node.get("type")
    names = declared if isinstance(declared, list) else [declared]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    return {**_definitions(node), **({"type": known} if known else {})}


def _anything(node: dict[str, Any]) -> dict[str, Any]:
    return _definitions(node)


def _definitions(node: dict[str, Any]) -> dict[str, Any]:
    return {name: node[name] for name in ("$defs", "definitions") if name in node}
