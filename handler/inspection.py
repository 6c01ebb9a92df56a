"""What a prompt consists of, for finding out why one was not cached: /tokenize and /apply-template.

Names of fields are llama-server's.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from handler.invalid import bad_request
from handler.loader import Engine
from handler.messages import Body
from handler.request import read_request


class TokenizeRequest(Body):
    content: str
    add_special: bool | None = None  # these models' texts begin with no special token: nothing to add
    parse_special: bool | None = None
    with_pieces: bool | None = None


def tokens_of(body: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """The tokens of a text."""
    try:
        asked = TokenizeRequest.model_validate(body)
    except ValidationError as error:
        raise bad_request(error) from None
    ids = engine.tokenize(asked.content, specials=asked.parse_special is not False)
    if not asked.with_pieces:
        return {"tokens": ids}
    return {"tokens": [{"id": id_, "piece": _piece(engine.token_bytes(id_))} for id_ in ids]}


def prompt_of(body: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """The prompt that a chat-completions body becomes, and the number of its tokens."""
    rendered = engine.render(read_request(body).for_engine(splice=False))
    return {"prompt": rendered.text, "tokens": len(rendered.ids)}


def _piece(raw: bytes) -> str | list[int]:
    """The text of a token, or its bytes where they are no whole characters."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)
