"""The engine without the handler: talk with a model, look into it, measure it, prepare what an image carries."""

from __future__ import annotations

import argparse
import sys

from engine import bake, bench, chat, commands, explain_command
from engine.errors import EngineError


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; the exit code is 0, 1 for an error of one line, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (
        chat.add_chat,
        commands.add_generate,
        commands.add_inspect,
        bench.add_bench,
        explain_command.add_explain,
        bake.add_bake,
        commands.add_logits,
    ):
        add(subcommands)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except (EngineError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
