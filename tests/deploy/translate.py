"""Parameters as JSON on standard input, template.yaml translated from SAM to CloudFormation as JSON on standard output.

Runs in the SAM CLI's own environment: its translator needs another pydantic than the function.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

template = yaml_parse((Path(__file__).parents[2] / "template.yaml").read_text())
parameters = json.load(sys.stdin)
template["Resources"]["ChatFunction"]["Properties"]["ImageUri"] = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/q:1"
session = boto3.Session(region_name=parameters["AWS::Region"])
json.dump(Translator({}, Parser(), boto_session=session).translate(template, parameters), sys.stdout)
