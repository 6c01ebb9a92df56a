"""A Lambda event of any HTTP shape as one request, and a reply in the shape the event's sender reads."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from handler.errors import AnswerTooLarge, BadRequest, BodyTooLarge, Problem, UnsupportedEncoding, problem
from handler.limits import MAX_BODY_BYTES

MAX_BUFFERED_BYTES = 6_000_000  # Lambda refuses 6,291,556, and kills the runtime for it


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request, wherever it came from.  Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Reply:
    """One HTTP answer.  A streamed one has ``chunks`` for its body; ``close`` ends the work behind them."""

    status: int
    headers: dict[str, str]
    body: str = ""
    chunks: Iterator[bytes] | None = None
    close: Callable[[], None] = field(default=lambda: None)

    def pieces(self) -> Iterator[bytes]:
        return self.chunks if self.chunks is not None else iter((self.body.encode(),))


def json_reply(status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Reply:
    body = json.dumps(value, ensure_ascii=False)
    return Reply(status, {"content-type": "application/json", **(headers or {})}, body)


def error_reply(trouble: Problem) -> Reply:
    return json_reply(trouble.status, trouble.body(), trouble.headers)


def is_http(event: Any) -> bool:
    return isinstance(event, dict) and isinstance(event.get("requestContext"), dict)


def direct_request(event: Any) -> HttpRequest:
    """An invocation without HTTP: the event is the body, and its caller was let in by IAM."""
    if not isinstance(event, dict) or "messages" not in event:
        raise BadRequest("The event is neither an HTTP request nor an object with 'messages'.", code="invalid_event")
    if event.get("stream"):
        raise BadRequest("'stream' should be false: a direct invocation has one answer.", "stream")
    return HttpRequest("POST", "/v1/chat/completions", {}, json.dumps(event).encode())


def http_request(event: Mapping[str, Any]) -> HttpRequest:
    """The request in a function-URL, HTTP API (payload 1.0 or 2.0), REST API or load-balancer event."""
    context = event["requestContext"]
    http = context.get("http")
    if isinstance(http, dict):
        method, path = http.get("method"), event.get("rawPath")
    else:
        method, path = event.get("httpMethod"), event.get("path")
    headers = {name.lower(): str(value) for name, value in _object(event, "headers").items()}
    for name, values in _object(event, "multiValueHeaders").items():
        headers.setdefault(name.lower(), ",".join(map(str, values)) if isinstance(values, list) else str(values))
    path = _encodable(path or "/")
    stage = f"/{context.get('stage')}/"
    if path.startswith(stage):  # an API Gateway stage other than $default is part of the path
        path = path[len(stage) - 1 :]
    return HttpRequest(_encodable(method or "GET").upper(), path, headers, _body(event, headers))


def _encodable(value: Any) -> str:
    """A value as text that can be sent back in an error."""
    return str(value).encode(errors="replace").decode()


def _object(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = event.get(name) or {}
    if not isinstance(found, dict):
        raise BadRequest(f"The event's '{name}' should be an object.", code="invalid_event")
    return found


def _body(event: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise UnsupportedEncoding(f"The body is compressed with {encoding[:20]!r}; send it uncompressed.")
    text = event.get("body") or ""
    if not isinstance(text, str):
        raise BadRequest("The event's 'body' should be a string.", code="invalid_event")
    if len(text) > MAX_BODY_BYTES * 4 // 3 + 4:
        raise BodyTooLarge(f"The body is over {MAX_BODY_BYTES} bytes.")
    if not event.get("isBase64Encoded"):
        body: bytes = text.encode("utf-8", "surrogatepass")
    else:
        try:
            body = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise BadRequest("The body is marked as base64 and is not.", code="invalid_body") from None
    if len(body) > MAX_BODY_BYTES:
        raise BodyTooLarge(f"The body has {len(body)} bytes; at most {MAX_BODY_BYTES} are taken.")
    return body


def lambda_result(event: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """The buffered answer as Lambda's HTTP front ends read it, within the size they carry."""
    result = _result(event, reply)
    if len(json.dumps(result)) > MAX_BUFFERED_BYTES:
        too_large = AnswerTooLarge("The answer is too large for an invocation that is not streamed.")
        result = _result(event, error_reply(problem(too_large)))
    return result


def _result(event: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    result: dict[str, Any] = {"statusCode": reply.status, "body": reply.body, "isBase64Encoded": False}
    if "multiValueHeaders" in event and "headers" not in event:  # a load balancer set to multi-value headers
        result["multiValueHeaders"] = {name: [value] for name, value in reply.headers.items()}
    else:
        result["headers"] = reply.headers
    return result
