"""A full chat with the extension module of another build, such as one with sanitizers, in place of engine/'s own.

PYTHONPATH=. LD_PRELOAD=libasan.so python tests/handler/sanitized_chat.py FOLDER MODEL

Requests go through the handler as in a function that is started twice: prefill, a tool call that a grammar forces,
answers in pieces and broken off, states from memory and, in the second life, from a file.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from handler.app import App

EVENTS = Path(__file__).parents[2] / "events"
TURNS = ["chat_tools", "chat_tools", "chat_tool_result", "chat_second_turn", "chat_plain"]


def settings(model: str, folder: str) -> dict[str, str]:
    return {
        "QWARM_API_KEY": "sk-test",
        "QWARM_MODEL": model,
        "QWARM_CONTEXT": "2048",
        "QWARM_CACHE_MB": "16",
        "QWARM_THREADS": "3",
        "QWARM_INVOKE_MODE": "RESPONSE_STREAM",
        "QWARM_SNAPSHOT_DIR": folder,
    }


def ask(app: App, event: dict[str, Any], most_pieces: int | None = None, **fields: Any) -> list[dict[str, Any]]:
    """The objects of an answer; with ``most_pieces`` the caller goes away after so many."""
    from handler.event import Reply
    from tests.handler.scripted import LambdaContext

    body = json.loads(event["body"]) | {"temperature": 0, "max_tokens": 24} | fields
    reply = app.handle(event | {"body": json.dumps(body)}, LambdaContext())
    assert isinstance(reply, Reply) and reply.status == 200, reply
    pieces = []
    for piece in reply.pieces():
        pieces.append(piece.decode())
        if len(pieces) == most_pieces:
            break
    reply.close()
    streamed = fields.get("stream", False)
    lines = [line[6:] for line in "".join(pieces).splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in (lines if streamed else pieces)]


def cached_tokens(answer: list[dict[str, Any]]) -> int:
    found: int = answer[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


def live(model: str, folder: str) -> int:
    """One life of the function; the first answer's cached tokens, which can only come from a file."""
    from handler.app import App, load_engine
    from handler.settings import read_settings

    values = read_settings(settings(model, folder))
    app = App(values, lambda: load_engine(values))
    events = [json.loads((EVENTS / f"{name}.json").read_text()) for name in TURNS]
    first = cached_tokens(ask(app, events[0]))
    for event in events:
        ask(app, event)
        ask(app, event, most_pieces=3, stream=True)
        ask(app, event, stream=True, logprobs=True, top_logprobs=3)
        app.idle()
    called = ask(app, events[0], tool_choice="required", max_tokens=60)
    assert called[0]["choices"][0]["message"]["tool_calls"]
    assert cached_tokens(ask(app, events[0])) > 0
    return first


def main() -> None:
    folder, model = Path(sys.argv[1]).resolve(), sys.argv[2]
    engine.__path__.insert(0, str(folder))
    from engine import _native

    assert Path(str(_native.__file__)).parent == folder
    logging.getLogger("qwarm").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as place:
        lives = [live(model, place) for _ in range(2)]
        n_files = len(list(Path(place).iterdir()))
    assert lives[0] == 0 < lives[1] and n_files > 0, (lives, n_files)
    print(f"full chat: 2 lives of 17 answers, {lives[1]} tokens from {n_files} stored snapshots, nothing found")


if __name__ == "__main__":
    main()
