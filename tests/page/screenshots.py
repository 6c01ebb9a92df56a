"""Photographs of the page for the documents: `python -m tests.page.screenshots docs/img`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.handler.scripted import KEY
from tests.page.browser import ENTER, Browser
from tests.page.scripted_page import SCRIPTS, PageEngine, serving

SHOWN = list(SCRIPTS)[:4]
WINDOWS = {"light": (1100, 900, False), "dark": (1100, 900, True), "phone": (390, 844, False)}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with serving(PageEngine()) as server, Browser() as browser:
        browser.size(1100, 900)
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        browser.run("document.querySelector('#key').value = arguments[0]; return greet()", KEY)
        browser.run("document.querySelector('#example').click()")
        for text in SHOWN:
            browser.type("#text", text + ENTER)
            browser.wait(lambda: browser.run("return coming === null"), "the end of the answer")
        browser.click(".call")
        browser.click("#text")
        for name, (width, height, dark) in WINDOWS.items():
            browser.size(width, height, scale=1.5, dark=dark)
            browser.run("document.querySelector('#log').scrollTop = 1e6")
            browser.photograph(folder / f"page-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
