"""Both fuzzers, one after the other, and one closing line: PYTHONPATH=. python tests/fuzz/run.py FUZZ_MODEL SECONDS.

Inputs that reach new code are kept beside the program and are the seeds of the next run; what is found is kept there
too and named.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.gguf_target import ORACLE, Target, fuzz, seeds
from tests.fuzz.model_seeds import write_seeds


def fuzz_model(program: Path, seconds: int) -> int:
    """How many models libFuzzer tried; SystemExit with its report if one of them did harm."""
    corpus, given = program.parent / "corpus", program.parent / "seeds"
    corpus.mkdir(exist_ok=True)
    write_seeds(given, sorted(ORACLE.glob("*.gguf")))
    limits = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
    command = [str(program), *limits, f"-artifact_prefix={program.parent}/", str(corpus), str(given)]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    if result.returncode:
        raise SystemExit(result.stderr[-5000:])
    found = re.search(r"number_of_executed_units: (\d+)", result.stderr)
    assert found
    return int(found[1])


def main() -> None:
    program, seconds = Path(sys.argv[1]), int(sys.argv[2])
    n_models = fuzz_model(program, max(1, seconds // 2))
    seed = time.time_ns() % 1_000_000
    target = Target()
    n_files = fuzz(target, seeds(), random.Random(seed), time.monotonic() + seconds / 2)
    print(
        f"fuzz: {seconds} s, {n_models} models under ASan+UBSan, {n_files} GGUF files (seed {seed}: {target.refused} "
        f"refused in words, {target.loaded} loaded), nothing found"
    )


if __name__ == "__main__":
    main()
