"""``python -m engine explain``: recorded requests, and what each would find in a cache the ones before had filled."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from engine.chat_template import ChatTemplate
from engine.explain import Explainer, Explanation
from engine.model_file import ModelFile
from engine.prompt import Prompter
from engine.recorded import read_recorded
from engine.snapshot_stores import Folder
from engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from engine.commands import Subcommands


def add_explain(subcommands: Subcommands) -> None:
    """The ``explain`` command."""
    parser = subcommands.add_parser("explain", help="say what a prompt shares with earlier ones, and why not more")
    parser.add_argument("model", metavar="MODEL", help="the GGUF file; only its vocabulary and template are read")
    parser.add_argument("requests", metavar="REQUEST", nargs="+", help="recorded events or request bodies, in order")
    parser.add_argument("--baked", metavar="DIR", help="baked snapshots that the function has")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of text")
    parser.set_defaults(run=run_explain)


def run_explain(arguments: argparse.Namespace) -> None:
    """Print an explanation for each request."""
    with ModelFile(arguments.model) as file:
        tokenizer = Tokenizer(file)
        template = ChatTemplate(file.chat_template, tokenizer, file.path)
        folders = [Folder(arguments.baked, "snapshot_baked")] if arguments.baked else []
        explainer = Explainer(tokenizer, Prompter(template, None, sys.maxsize), file.fingerprint, folders)
        names = _names(arguments.requests)
        explanations = [
            explainer.explain(name, read_recorded(path)) for name, path in zip(names, arguments.requests, strict=True)
        ]
    if arguments.json:
        print(json.dumps([asdict(explanation) for explanation in explanations], indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(_text(explanation) for explanation in explanations))


def _names(paths: list[str]) -> list[str]:
    """The files' own names, numbered if a file comes twice."""
    short = [Path(path).name for path in paths]
    return [name if short.count(name) == 1 else f"{name} #{n}" for n, name in enumerate(short, 1)]


def _text(e: Explanation) -> str:
    shared = f", {e.shared} of them as in {e.like}" if e.like else ""
    lines = [f"{e.name}: {_tokens(e.prompt_tokens)}{shared}"]
    place = f"{e.path} at {e.restored_at}" if e.restored_at else e.path
    rows = [("starts from", f"{e.served_by} ({place}), {_tokens(e.prefilled)} to evaluate")]
    if e.like is not None:
        rows.append(("because", e.why))
        if e.had or e.got:
            rows += [("both have", f"…{_line(e.shared_text)}"), (e.like, _line(e.had)), (e.name, _line(e.got))]
    width = max(len(label) for label, _ in rows)
    return "\n".join([*lines, *(f"  {label:<{width}}  {text}" for label, text in rows)])


def _tokens(n: int) -> str:
    return f"{n} token{'' if n == 1 else 's'}"


def _line(text: str) -> str:
    return text.replace("\n", "⏎") or "(the end)"
