"""A panic of a library written in Rust, as an exception like any other.

PyO3 raises it past every ``except Exception``, and of a class that each library makes for itself; it would end the
process.  The library's objects are sound after it: what Rust unwinds it also drops.
"""

from __future__ import annotations

from types import TracebackType


class LibraryPanic(Exception):
    """A library broke off in the middle of its work.  It does not say why: that may quote a caller."""


class PanicsAsErrors:
    """With this, a panic leaves as LibraryPanic; other exceptions as they are."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, _failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and (kind.__module__, kind.__name__) == ("pyo3_runtime", "PanicException"):
            raise LibraryPanic("a library broke off in the middle of its work").with_traceback(traceback) from None
