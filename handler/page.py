"""The page at `GET /`: one file, and headers under which it can load nothing and talk to nobody but its own server."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from handler.event import Reply

_FILE = Path(__file__).with_name("page.html")


def page_reply() -> Reply:
    """The page, the same for every caller: what it asks for needs the key, it does not."""
    html, policy = _page()
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    return Reply(200, headers, html)


@cache
def _page() -> tuple[str, str]:
    """The file, and the policy that lets in its own script and style by their hashes."""
    html = _FILE.read_text(encoding="utf-8")
    sources = {
        "default-src": "'none'",
        "script-src": _hash(html, "script"),
        "style-src": _hash(html, "style"),
        "connect-src": "'self'",
        "img-src": "data:",  # the icon, which is empty
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return html, "; ".join(f"{name} {source}" for name, source in sources.items())


def _hash(html: str, tag: str) -> str:
    (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
