"""Lambda and HTTP: an event in, bytes out.  Knows nothing of tensors."""

import time

STARTED_S = time.perf_counter()  # the package is imported first, so init_ms counts every other import
