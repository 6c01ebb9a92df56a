"""Headless Chromium by way of chromedriver: the few commands of the WebDriver protocol that the page's tests need."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

ENTER, ESCAPE, SHIFT, TAB = "\ue007", "\ue00c", "\ue008", "\ue004"
_PATIENCE_S = 15.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key the protocol gives to an element's id
_ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --lang=en"
).split()


def chromium() -> str | None:
    """The browser's program, if it and its driver are installed."""
    return shutil.which("chromium") if shutil.which("chromedriver") else None


class Browser:
    """One window with a profile of its own."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="qwarm-page-", ignore_cleanup_errors=True)
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self._driver.stdout is not None
        said = iter(self._driver.stdout)
        port = next(found[1] for line in said if (found := re.search(r"successfully on port (\d+)", line)))
        self._url = f"http://127.0.0.1:{port}/session"
        options = {"binary": chromium(), "args": [*_ARGUMENTS, f"--user-data-dir={self._profile.name}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "WARNING"}}
        self._url += "/" + self._post("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._send("DELETE", "", None)
        self._driver.terminate()
        self._driver.wait()
        self._profile.cleanup()

    def open(self, url: str) -> None:
        self._post("/url", {"url": url})

    def reload(self) -> None:
        self._post("/refresh", {})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a JavaScript function body."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def type(self, selector: str, text: str) -> None:
        self._post(f"/element/{self._element(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        self._post(f"/element/{self._element(selector)}/click", {})

    def text(self, selector: str) -> str:
        """What can be read there, "" if nothing is."""
        found: str = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return found

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        give_up_s = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_s, f"waited in vain for {what}; the page says {self.text('body')!r}"
            time.sleep(0.03)

    def complaints(self) -> list[str]:
        """What the console says that is an error of the page, or its policy's, and not a status of the server."""
        entries = self._post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if "Failed to load resource" not in entry["message"]]

    def devtools(self, command: str, **parameters: Any) -> None:
        self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width: int, height: int, *, scale: float = 1, dark: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def photograph(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot", None)))

    def _element(self, selector: str) -> str:
        found: str = self._post("/element", {"using": "css selector", "value": selector})[_ELEMENT]
        return found

    def _post(self, path: str, value: dict[str, Any]) -> Any:
        return self._send("POST", path, value)

    def _send(self, method: str, path: str, value: dict[str, Any] | None) -> Any:
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self._url + path, body, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as refused:
            raise AssertionError(json.load(refused)["value"]["message"]) from None
