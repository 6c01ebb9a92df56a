"""mistral.rs's speed on a model file, as one JSON line.  Runs where the mistralrs package is installed.

RAYON_NUM_THREADS=2 python peer_mistral.py MODEL --prompt 421 --generate 8

Its own figures are taken: it has no call for a prefill alone.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from typing import Any

from mistralrs import CompletionRequest, Runner, Which

WORDS = "hello world "


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure mistral.rs's speed on a model.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompt", type=int, default=421)
    parser.add_argument("--generate", type=int, default=8)
    args = parser.parse_args()
    file = Which.GGUF(quantized_model_id=str(args.model.parent), quantized_filename=args.model.name)
    runner = Runner(which=file, prefix_cache_n=0, no_paged_attn=True)

    def usage(n_words: int, n_generate: int) -> Any:
        text = (WORDS * n_words)[: len(WORDS) * n_words // 2]
        request = CompletionRequest(
            prompt=text, model="default", max_tokens=n_generate, temperature=0.0, ignore_eos=True
        )
        return runner.send_completion_request(request).usage

    usage(16, 2)  # pages the weights in
    found = usage(args.prompt, args.generate)
    result = {
        "prompt": found.prompt_tokens,
        "prefill_tok_s": found.prompt_tokens / found.total_prompt_time_sec,
        "decode_tok_s": found.completion_tokens / found.total_completion_time_sec,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
