"""Text and tokens: model file, tokenizer, template, prefix cache, sampling.  Below it is native/, above it handler/."""

import os

# Only numpy's elementwise functions are used here.  Its BLAS would start a thread per CPU at import, and each spins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
