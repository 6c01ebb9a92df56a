"""Where the time of a cold start goes: new environments with nothing in the page cache, and with everything there.

python bench/cold.py MODEL --emulator build/rie/aws-lambda-rie

Each start is a new process in the real runtime under AWS's emulator.  Its own `init` and `prefill` records say how long
the stages took; shown is each stage's least time of several starts, because what else the machine does only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from run_events import ROOT, TIMEOUT, Environment

EVENT = ROOT / "events" / "chat_plain.json"
BESIDE = ("page_in_ms", "page_in_mb")
RECORDS_TIMEOUT_S = 60


def imported_files() -> Iterator[Path]:
    """What an interpreter may read: the standard library, the packages, this project."""
    libraries = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platlib")]
    for place in (*libraries, ROOT / "engine", ROOT / "handler"):
        yield from (path for path in place.rglob("*") if path.suffix in (".py", ".pyc", ".so") and path.is_file())


def evict(paths: Iterable[Path]) -> None:
    """Take files out of the page cache.  What another process has mapped stays."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def start(emulator: Path, model: Path) -> dict[str, float]:
    """One environment and its first answer: milliseconds by stage, in the order in which they end."""
    environment = Environment(emulator.absolute(), model.absolute(), **TIMEOUT)
    try:
        status = environment.invoke(EVENT.read_bytes())["statusCode"]
        found = _records(environment)
    finally:
        environment.close()
    if status != 200:
        raise SystemExit(f"the first request was answered with status {status}")
    init, prefill = found["init"], found["prefill"]
    stages = {name: ms for name, ms in init.items() if name.endswith("_ms") and name not in (*BESIDE, "init_ms")}
    beside = {name: init[name] for name in BESIDE}
    return {**stages, "init_ms": init["init_ms"], **beside, "first_token_ms": prefill["prefill_ms"]}


def _records(environment: Environment) -> dict[str, dict[str, Any]]:
    """The records by message, once both that are needed are there."""
    found: dict[str, dict[str, Any]] = {}
    give_up_s = time.monotonic() + RECORDS_TIMEOUT_S
    while not found.keys() >= {"init", "prefill"}:
        if time.monotonic() > give_up_s:
            raise SystemExit(f"the log has no init and prefill record, only {', '.join(found) or 'nothing'}")
        lines = (json.loads(line) for line in environment.new_lines() if line.startswith("{"))
        found |= {line["message"]: line for line in lines}
    return found


def least(starts: list[dict[str, float]]) -> dict[str, float]:
    """Each stage's least time."""
    return {name: min(each[name] for each in starts) for name in starts[0]}


def table(cold: dict[str, float], warm: dict[str, float]) -> Iterator[str]:
    """The lines to print."""
    words = {
        "init_ms": "ready: all of these",
        "page_in_ms": f"weights read meanwhile ({warm['page_in_mb']:.0f} MB)",
        "first_token_ms": "first token of the first prompt",
    }
    yield f"{'milliseconds':<40}{'cold':>9}{'warm':>9}"
    for name in warm:
        if name != "page_in_mb":
            yield f"{words.get(name, name.removesuffix('_ms')):<40}{cold[name]:>9,.0f}{warm[name]:>9,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the stages of a cold start.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--emulator", type=Path, required=True, help="the aws-lambda-rie program")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    cold, warm = [], []
    for _ in range(args.repeat):
        evict([args.model, *imported_files()])
        cold.append(start(args.emulator, args.model))
        warm.append(start(args.emulator, args.model))
    print(f"{args.model.name}, least of {args.repeat} starts each, cold and warm page cache")
    print("\n".join(table(least(cold), least(warm))))


if __name__ == "__main__":
    main()
