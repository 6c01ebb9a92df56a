"""The API key: `Authorization: Bearer KEY`, or `x-api-key` where another scheme owns that header."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence

from handler.errors import Unauthorized


def check_key(headers: Mapping[str, str], keys: Sequence[str]) -> None:
    """Raise Unauthorized unless the request carries one of the keys.  No keys: everyone may enter."""
    if not keys:
        return
    given = _given(headers)
    if given is None:
        raise Unauthorized("No API key was given: send the header 'Authorization: Bearer KEY'.")
    # Every key is compared, so the time taken does not tell which one was close.
    matches = [hmac.compare_digest(given.encode(), key.encode()) for key in keys]
    if not any(matches):
        raise Unauthorized("The API key is not valid for this function.")


def _given(headers: Mapping[str, str]) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return headers.get("x-api-key")
