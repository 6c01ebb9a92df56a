"""Every package that is installed is pinned to a version and to the hashes of its files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^\s;]+)( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")


def requirements(path: Path) -> list[str]:
    """The file's requirements, each on one line."""
    joined = path.read_text().replace("\\\n", " ")
    lines = (re.sub(r"\s+", " ", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def pins(path: Path) -> dict[str, str]:
    return {found["name"]: found["version"] for line in requirements(path) if (found := PIN.fullmatch(line))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_is_a_version_with_hashes_and_nothing_else(path: Path) -> None:
    lines = requirements(path)
    assert lines
    assert [line for line in lines if not PIN.fullmatch(line)] == []


def test_what_the_function_runs_on_is_pinned_as_the_project_says() -> None:
    asked = PROJECT["project"]["dependencies"]
    pinned = pins(ROOT / "requirements" / "runtime.txt")
    assert {requirement.split("==")[0]: requirement.split("==")[1] for requirement in asked}.items() <= pinned.items()


def test_every_requirement_of_the_project_has_one_version() -> None:
    project = PROJECT["project"]
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]
    loose = [text for group in groups for text in group if "==" not in text and not text.startswith("qwarm[")]
    assert loose == []


def test_every_installation_from_the_files_asks_for_the_hashes() -> None:
    for name in ("Makefile", "Dockerfile"):
        text = (ROOT / name).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if "-r requirements/" in line and "pip" in line:
                assert "--require-hashes" in line, (name, line)
