"""README says what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.__main__ import main
from handler.settings import table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_settings_table_is_the_settings():
    assert table() in README


def test_every_file_that_a_document_links_to_exists():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_every_command_of_the_engine_has_help_and_is_in_readme(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        assert f"python -m engine {command} " in README
        with pytest.raises(SystemExit) as done:
            main([command, "--help"])
        assert done.value.code == 0


def test_every_make_target_of_the_documents_exists():
    makefile = (ROOT / "Makefile").read_text()
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"`make ([a-z-]+)", document.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{document.name} names make {target}"
