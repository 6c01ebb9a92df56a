"""The JSON type of a tool call's argument, from the tool's JSON schema: the model's text does not tell it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

STRING = {"string"}
_MAX_DEPTH = 200  # of a value: a reader further up the stack must be able to parse it too


class ArgumentTypes:
    """The parameters of one tool.  ``schema`` is what the client sent, and may be anything."""

    def __init__(self, schema: object) -> None:
        self._root = schema

    def is_string(self, parameter: str) -> bool:
        return self.of(parameter) == STRING

    def to_json(self, parameter: str, text: str) -> str:
        """The JSON of an argument.  Text that fits none of the parameter's types is kept as a string."""
        types = self.of(parameter)
        word = text.strip()
        if "null" in types and (word == "null" or (word == "None" and "string" not in types)):
            return "null"  # the chat template prints null as None, which beside a string type is a word
        if "boolean" in types and word.lower() in ("true", "false"):
            return word.lower()
        if _is_json_of(types, word):
            return word  # as it stands, so that no digit is lost
        return json.dumps(text, ensure_ascii=False)

    def of(self, parameter: str) -> set[str]:
        """The types a parameter may have; a string where the schema does not say."""
        root = self._resolve(self._root)
        if not isinstance(root, dict):
            return STRING
        properties = root.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        pending = [properties.get(parameter, root.get("additionalProperties"))]
        types: set[str] = set()
        seen: set[int] = set()  # a schema may refer to itself
        while pending:
            schema = self._resolve(pending.pop())
            if isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                types.update(_own_types(schema))
                if "type" not in schema:
                    pending += [s for key in ("anyOf", "oneOf", "allOf") for s in _list(schema.get(key))]
        return types or STRING

    def _resolve(self, schema: object) -> object:
        """What a ``$ref`` within the schema points to; None if it points nowhere.  Nothing is fetched."""
        seen: set[str] = set()
        while isinstance(schema, dict) and isinstance(pointer := schema.get("$ref"), str):
            if pointer in seen or not pointer.startswith("#"):
                return None
            seen.add(pointer)
            schema = self._root
            for part in pointer.split("/")[1:]:
                schema = _child(schema, part.replace("~1", "/").replace("~0", "~"))
        return schema


def _own_types(schema: dict[str, Any]) -> Iterator[str]:
    """The types a schema names itself, its alternatives apart."""
    if schema.get("nullable") is True:
        yield "null"
    if "type" in schema:
        declared = schema["type"]
        yield from (name for name in (_list(declared) or [declared]) if isinstance(name, str))
    elif "enum" in schema:
        yield from map(type_of, _list(schema["enum"]))
    elif "const" in schema:
        yield type_of(schema["const"])
    elif "properties" in schema:
        yield "object"
    elif "items" in schema:
        yield "array"


def _child(schema: object, key: str) -> object:
    if isinstance(schema, dict):
        return schema.get(key)
    if isinstance(schema, list) and key.isdecimal() and len(key) < 9 and int(key) < len(schema):
        return schema[int(key)]
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def type_of(value: object) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _is_json_of(types: set[str], text: str) -> bool:
    """Whether text is a JSON number, object or array of one of the types."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    if _depth(value) > _MAX_DEPTH:
        return False
    name = type_of(value)
    if name == "integer" or (isinstance(value, float) and value.is_integer()):
        return bool(types & {"integer", "number"})
    return name in ("number", "object", "array") and name in types


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level := [inner for outer in level for inner in _children(outer)]:
        depth += 1
    return depth


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
