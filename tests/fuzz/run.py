"""Both fuzzers, one after the other, and one closing line: PYTHONPATH=. python tests/fuzz/run.py FUZZ_MODEL SECONDS.

Inputs that reach new code are kept beside the program and are the seeds of the next run; what is found is kept there
too and named.  Where Atheris is not installed the GGUF reader gets damaged files that nothing was learned from.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.gguf_target import ORACLE, Target, fuzz, seeds
from tests.fuzz.model_seeds import write_seeds

HERE = Path(__file__).parent


def libfuzzer(command: Sequence[str], folder: Path, name: str, seconds: int, **environ: str) -> str:
    """What was tried and reached; SystemExit with the report if something did harm."""
    corpus, given = folder / f"{name}-corpus", folder / f"{name}-seeds"
    corpus.mkdir(exist_ok=True)
    limits = [f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=2048", "-max_len=65536"]
    whole = [*command, *limits, f"-artifact_prefix={folder}/{name}-", str(corpus), str(given)]
    result = subprocess.run(
        whole, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", env=os.environ | environ
    )
    counts = re.findall(r"#(\d+)\s.*cov: (\d+)", result.stderr)
    if result.returncode or not counts:
        raise SystemExit(result.stderr[-5000:])
    return f"{counts[-1][0]} tried, {counts[-1][1]} edges reached"


def fuzz_model(program: Path, seconds: int) -> str:
    write_seeds(program.parent / "model-seeds", sorted(ORACLE.glob("*.gguf")))
    return libfuzzer([str(program)], program.parent, "model", seconds)


def fuzz_gguf(folder: Path, seconds: int) -> str:
    atheris = next(Path("build/fuzz-venv").glob("lib/python*/site-packages/atheris"), None)
    if atheris is None:
        seed = time.time_ns() % 1_000_000
        target = Target()
        n_files = fuzz(target, seeds(), random.Random(seed), time.monotonic() + seconds)
        return f"{n_files} damaged with seed {seed}, {target.loaded} loaded"
    given = folder / "gguf-seeds"
    given.mkdir(exist_ok=True)
    for number, data in enumerate(seeds()):
        (given / str(number)).write_bytes(data)
    paths = os.pathsep.join((".", str(atheris.parent)))
    return libfuzzer([sys.executable, str(HERE / "fuzz_gguf.py")], folder, "gguf", seconds, PYTHONPATH=paths)


def main() -> None:
    program, seconds = Path(sys.argv[1]), int(sys.argv[2])
    half = max(1, seconds // 2)
    models, files = fuzz_model(program, half), fuzz_gguf(program.parent, half)
    print(f"fuzz: {seconds} s, models under ASan+UBSan: {models}; GGUF files: {files}; nothing found")


if __name__ == "__main__":
    main()
