"""The API key: `Authorization: Bearer KEY`, or `x-api-key` where another scheme owns that header."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from handler.errors import KeysUnavailable, Unauthorized
from handler.key_store import read_parameter, read_secret
from handler.settings import Settings

REFRESH_S = 300.0  # a key taken out of its store is refused at the latest after this
RETRY_S = 3.0  # a wrong key makes the store be read again at most this often

Clock = Callable[[], float]


class Keys:
    """The keys callers may use: those in the environment, and those in a store, kept until they are due again.

    A wrong key may be a new one, so it makes the store be read again.  While a store cannot be read, keys read
    from it before stay valid, and callers with others are told to come back.
    """

    def __init__(self, settings: Settings, clock: Clock = time.monotonic) -> None:
        self._open = settings.auth == "none"
        self._fixed = settings.keys
        self._stores: list[Callable[[], tuple[str, ...]]] = []
        if settings.api_key_ssm:
            self._stores.append(lambda: read_parameter(settings.api_key_ssm))
        if settings.api_key_secret:
            self._stores.append(lambda: read_secret(settings.api_key_secret))
        self._clock = clock
        self._guard = threading.Lock()
        self._stored: tuple[str, ...] = ()
        self._read_s: float | None = None
        self._tried_s: float | None = None

    def warm_up(self) -> None:
        """Read the stores now, so that the first caller need not wait.  A failure is logged, and tried again later."""
        if not self._open:
            self._refresh()

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized unless the request carries one of the keys, KeysUnavailable if that cannot be told."""
        if self._open:
            return
        given = _given(headers)
        if given is None:
            raise Unauthorized("No API key was given: send the header 'Authorization: Bearer KEY'.")
        if self._read_s is None or self._clock() - self._read_s >= REFRESH_S:
            self._refresh()
        if _matches(given, (*self._fixed, *self._stored)):
            return
        self._refresh()
        if _matches(given, self._stored):
            return
        if self._stores and self._read_s is None:
            raise KeysUnavailable("The API keys could not be read; try again in a few seconds.")
        raise Unauthorized("The API key is not valid for this function.")

    def _refresh(self) -> None:
        """Read the stores, unless that was just tried."""
        with self._guard:
            if not self._stores or (self._tried_s is not None and self._clock() - self._tried_s < RETRY_S):
                return
            self._tried_s = self._clock()
            try:
                self._stored = tuple(key for read in self._stores for key in read())
            except KeysUnavailable:
                return  # logged where it happened
            self._read_s = self._clock()


def _matches(given: str, keys: Iterable[str]) -> bool:
    """Every key is compared, so the time taken does not tell which one was close."""
    sent = given.encode(errors="surrogatepass")
    return any([hmac.compare_digest(sent, key.encode()) for key in keys])  # noqa: C419


def _given(headers: Mapping[str, str]) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return headers.get("x-api-key")
