"""Progress at a terminal, on standard error: a bar where tqdm is installed, which the image does without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Yields what is called with the number of units that are done since the last call."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _n: None
        return
    with tqdm(total=total, disable=None, leave=False, unit=f" {unit}", delay=1) as bar:
        yield bar.update
