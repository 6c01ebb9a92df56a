"""Our own speed: `python -m engine bench` in a process of its own, one prompt length at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(model: Path, prompt: int, generate: int, threads: int, repeat: int) -> dict[str, Any]:
    """Medians of `repeat` runs; decode_tok_s is None when nothing is generated."""
    options = {"prompt": prompt, "generate": generate, "threads": threads, "repeat": repeat}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "engine", "bench", str(model), "--json", *words]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {
        "prompt": prompt,
        "threads": threads,
        "kernel": found["kernel"],
        "load_ms": found["load_ms"],
        "prefill_tok_s": found["prefill_tok_s"][str(prompt)],
        "decode_tok_s": found["decode_tok_s"],
        "peak_rss_mb": found["peak_rss_bytes"] / 1e6,
        "file_mb": found["file_bytes"] / 1e6,
    }
