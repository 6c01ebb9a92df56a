"""Lambda's runtime loop: awslambdaric's own, with a client that can also send an answer in pieces.

Lambda's streaming protocol for HTTP: one POST in chunked coding; first a JSON prelude with status and headers
and eight NUL bytes, then the body; a trailer if the answer broke off.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from awslambdaric import bootstrap
from awslambdaric.lambda_runtime_client import LambdaRuntimeClient
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller

from handler.errors import problem
from handler.event import Reply, error_reply
from handler.log import log
from handler.settings import SettingsError

HTTP_CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"
PRELUDE_END = b"\0" * 8
_POST_TIMEOUT_S = 60.0  # the runtime API is on this machine


class Marshaller(LambdaMarshaller):  # type: ignore[misc]  # awslambdaric has no types
    """Lets a Reply through as it is; everything else becomes JSON."""

    def marshal_response(self, response: Any) -> tuple[Any, str]:
        if isinstance(response, Reply):
            return response, HTTP_CONTENT_TYPE
        result: tuple[Any, str] = super().marshal_response(response)
        return result


class StreamingClient(LambdaRuntimeClient):  # type: ignore[misc]
    """Posts a Reply piece by piece.  Nothing is raised while one is posted: the process would end with it.

    ``idle`` is called when an answer has been posted, before the next event is asked for: Lambda freezes the
    environment only then.
    """

    marshaller = Marshaller()

    def __init__(self, address: str, idle: Callable[[], None] = lambda: None) -> None:
        super().__init__(address)
        self._idle = idle

    def wait_next_invocation(self) -> Any:
        self._idle()
        return super().wait_next_invocation()

    def post_invocation_result(
        self,
        invoke_id: str,
        result_data: Any,
        content_type: str = "application/json",
        invocation_id: str | None = None,
    ) -> None:
        if not isinstance(result_data, Reply):
            super().post_invocation_result(invoke_id, result_data, content_type, invocation_id)
            return
        post = _Post(self.lambda_runtime_address, invoke_id, invocation_id)
        try:
            post.send(result_data)
        except (OSError, http.client.HTTPException) as failure:  # the caller, or Lambda, is gone
            log("stream_broken", level=logging.WARNING, request_id=invoke_id, error=type(failure).__name__)
        finally:
            result_data.close()
            post.close()


class _Post:
    """One streamed response on its own connection to the runtime API."""

    def __init__(self, address: str, invoke_id: str, invocation_id: str | None) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=_POST_TIMEOUT_S)
        self._path = f"/2018-06-01/runtime/invocation/{invoke_id}/response"
        self._invocation_id = invocation_id

    def send(self, reply: Reply) -> None:
        failure: Exception | None = None
        begun = False
        try:
            for piece in reply.pieces():
                if not begun:
                    self._begin(reply)
                    begun = True
                self._chunk(piece)
        except (OSError, http.client.HTTPException):
            raise
        except Exception as error:  # noqa: BLE001  raised, it would end the process
            failure = error  # the body has told the caller; the trailer tells Lambda
            if not begun:
                plain = error_reply(problem(error))
                self._begin(plain)
                self._chunk(plain.body.encode())
        self._end(failure)

    def close(self) -> None:
        self._connection.close()

    def _begin(self, reply: Reply) -> None:
        connection = self._connection
        connection.putrequest("POST", self._path, skip_accept_encoding=True)
        connection.putheader("Lambda-Runtime-Function-Response-Mode", "streaming")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.putheader("Content-Type", HTTP_CONTENT_TYPE)
        connection.putheader("Trailer", "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body")
        if self._invocation_id:
            connection.putheader("Lambda-Runtime-Invocation-Id", self._invocation_id)
        connection.endheaders()
        prelude = {"statusCode": reply.status, "headers": reply.headers, "cookies": []}
        self._chunk(json.dumps(prelude).encode() + PRELUDE_END)

    def _chunk(self, piece: bytes) -> None:
        if piece:  # an empty chunk would end the body
            self._connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))

    def _end(self, failure: Exception | None) -> None:
        self._connection.send(b"0\r\n" + (_error_trailer(failure) if failure else b"") + b"\r\n")
        response = self._connection.getresponse()
        response.read()
        if response.status != 202:
            log("stream_refused", level=logging.ERROR, status=response.status)


def _error_trailer(failure: Exception) -> bytes:
    kind = type(failure).__name__
    said = json.dumps({"errorMessage": problem(failure).message, "errorType": kind})
    return (
        f"Lambda-Runtime-Function-Error-Type: Runtime.{kind}\r\n"
        f"Lambda-Runtime-Function-Error-Body: {base64.b64encode(said.encode()).decode()}\r\n"
    ).encode()


def _end_on_sigterm() -> None:
    """End with status 0 on SIGTERM, which comes when no event is being answered.

    A handler would not do: the main thread waits for events in C and would run it only after the next one, and a
    process with number 1, as in a container, ignores the signal by default.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for threads begun from now on, too

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        os._exit(0)

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def serve(init: Callable[[], object], handler: str, idle: Callable[[], None]) -> None:
    """Run the function until Lambda ends it.  A wrong setting is reported as a failed init phase."""
    _end_on_sigterm()
    client = StreamingClient(os.environ["AWS_LAMBDA_RUNTIME_API"], idle)
    try:
        init()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        client.post_init_error({"errorMessage": str(error), "errorType": "SettingsError", "stackTrace": []})
        sys.exit(1)
    bootstrap.run(handler, client)
