"""The template with parameters and conditions filled in, as CloudFormation would see it, or SAM before that."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SAM_PYTHON = ROOT / "build" / "sam-venv" / "bin" / "python"
PSEUDO = {
    "AWS::Region": "eu-central-1",
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::StackName": "qwarm",
}
NO_VALUE = object()


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms: `!Ref X` is {"Ref": "X"}, `!Sub X` is {"Fn::Sub": "X"}."""


def _short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        text = loader.construct_scalar(node)
        return {name: text.split(".") if suffix == "GetAtt" else text}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _short_form)


def parse_template() -> dict[str, Any]:
    template: dict[str, Any] = yaml.load((ROOT / "template.yaml").read_text(), Loader)
    return template


class RefusedParameters(Exception):
    """A rule of the template does not allow them; the message is its description."""


class Stack:
    """What a deployment with these parameters makes.  RefusedParameters if the template's rules forbid them."""

    def __init__(self, **parameters: str | int) -> None:
        self.source = parse_template()
        defaults = {name: said.get("Default") for name, said in self.source["Parameters"].items()}
        assert set(parameters) <= set(defaults), "no such parameter"
        values = {**defaults, **parameters}
        self._refs: dict[str, Any] = {
            name: str(value).split(",") if self.source["Parameters"][name]["Type"] == "CommaDelimitedList" else value
            for name, value in values.items()
        } | PSEUDO
        for rule in self.source["Rules"].values():
            if self._value(rule["RuleCondition"]):
                for assertion in rule["Assertions"]:
                    if not self._value(assertion["Assert"]):
                        raise RefusedParameters(assertion["AssertDescription"])

    @cached_property
    def resources(self) -> dict[str, Any]:
        """The resources as written."""
        return self._made(self.source["Resources"])

    @cached_property
    def translated(self) -> dict[str, Any]:
        """The resources as SAM's translator writes them for CloudFormation."""
        if not SAM_PYTHON.exists():
            pytest.skip("`make validate` installs SAM's translator")
        parameters = {name: value for name, value in self._refs.items() if not isinstance(value, list)}
        command = [SAM_PYTHON, Path(__file__).with_name("translate.py")]
        done = subprocess.run(command, input=json.dumps(parameters), stdout=subprocess.PIPE, text=True, check=True)
        return self._made(json.loads(done.stdout)["Resources"])

    def _made(self, resources: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._value(resource)
            for name, resource in resources.items()
            if "Condition" not in resource or self._condition(resource["Condition"])
        }

    @property
    def outputs(self) -> dict[str, Any]:
        return {name: self._value(output["Value"]) for name, output in self.source["Outputs"].items()}

    def of_type(self, kind: str, *, translated: bool = False) -> list[dict[str, Any]]:
        """The properties of the resources of one type."""
        resources = self.translated if translated else self.resources
        return [resource["Properties"] for resource in resources.values() if resource["Type"] == kind]

    def _condition(self, name: str) -> bool:
        return bool(self._value(self.source["Conditions"][name]))

    def _value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [value for value in map(self._value, node) if value is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name in self._functions:
                return self._functions[name](argument)
        filled = {name: self._value(value) for name, value in node.items()}
        return {name: value for name, value in filled.items() if value is not NO_VALUE}

    @cached_property
    def _functions(self) -> dict[str, Callable[[Any], Any]]:
        value = self._value
        return {
            "Ref": lambda name: NO_VALUE if name == "AWS::NoValue" else self._refs.get(name, f"<{name}>"),
            "Condition": self._condition,
            "Fn::If": lambda of: value(of[1] if self._condition(of[0]) else of[2]),
            "Fn::Equals": lambda of: str(value(of[0])) == str(value(of[1])),
            "Fn::Not": lambda of: not value(of[0]),
            "Fn::And": lambda of: all(map(value, of)),
            "Fn::Join": lambda of: of[0].join(value(of[1])),
            "Fn::Split": lambda of: value(of[1]).split(of[0]),
            "Fn::Select": lambda of: value(of[1])[int(of[0])],
            "Fn::GetAtt": lambda of: f"<{of if isinstance(of, str) else '.'.join(of)}>",
            "Fn::Sub": self._substituted,
        }

    def _substituted(self, argument: Any) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else argument
        known = {**self._refs, **{name: self._value(value) for name, value in local.items()}}
        return re.sub(r"\$\{([^}]+)\}", lambda found: str(known.get(found[1], f"<{found[1]}>")), text)
