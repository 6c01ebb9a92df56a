"""An invented log with both kinds of regression in it, for the picture in docs/operating.md."""

from __future__ import annotations

import json
import random

SHARES = {"extend": 0.97, "anchor": 0.93, "turn_anchor": 0.8, "base": 0.55, "snapshot_s3": 0.5, "full": 0.0}
FREQUENCIES = (10, 12, 4, 6, 1, 2)
MS_PER_TOKEN = 1.1
SLOWDOWN_PER_TOKEN, SLOWDOWN_OTHER = 18, 5


def main() -> None:
    chance = random.Random(3)
    for n in range(160):
        (path,) = chance.choices(list(SHARES), FREQUENCIES)
        prompt = int(10 ** chance.uniform(2, 4.2))
        reused = int(prompt * SHARES[path] * chance.uniform(0.85, 1))
        per_token, slow = n % 37 == 5, n % 61 == 9
        slowdown = SLOWDOWN_PER_TOKEN if per_token else SLOWDOWN_OTHER if slow else 1
        record = {
            "message": "prefill",
            "prefill_path": path,
            "prompt_tokens": prompt,
            "restored_at": reused,
            "prefilled": prompt - reused,
            "prefill_ms": round((prompt - reused) * MS_PER_TOKEN * slowdown + chance.uniform(4, 9), 1),
            "kernel": "i8mm/per_token" if per_token else "i8mm/gemm_i8",
        }
        print(json.dumps(record))


if __name__ == "__main__":
    main()
