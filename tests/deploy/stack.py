"""The template as CloudFormation would see it: SAM's resources translated, parameters and conditions filled in."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
PSEUDO = {
    "AWS::Region": "eu-central-1",
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::StackName": "qwarm",
}
IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/qwarm:arm64"
NO_VALUE = object()


def parse_template() -> dict[str, Any]:
    template: dict[str, Any] = yaml_parse(TEMPLATE.read_text())
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
        template = copy.deepcopy(self.source)
        template["Resources"]["ChatFunction"]["Properties"]["ImageUri"] = IMAGE
        session = boto3.Session(region_name=PSEUDO["AWS::Region"])
        parameters = {name: value for name, value in self._refs.items() if not isinstance(value, list)}
        translated = Translator({}, Parser(), boto_session=session).translate(template, parameters)
        return {
            name: self._value(resource)
            for name, resource in translated["Resources"].items()
            if "Condition" not in resource or self._condition(resource["Condition"])
        }

    @property
    def outputs(self) -> dict[str, Any]:
        return {name: self._value(output["Value"]) for name, output in self.source["Outputs"].items()}

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The properties of the resources of one type."""
        return [resource["Properties"] for resource in self.resources.values() if resource["Type"] == kind]

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
