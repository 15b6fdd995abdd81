"""Answers of resources: JSON, a stream of events or a file whose parts are made one after another, and refusals.

A stream ends when the visitor leaves, or when the resource has no further event. Its last event is named `end`, or
`failure` with a sentence.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import trio
from starlette.types import Receive, Scope, Send

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import BadParameter
from headgate.tools.console.resource_table import AnswerKind, Download
from headgate.tools.console.visitors import NotLoggedIn, TooManyStreams, Visitor, VisitorStream
from headgate.tools.output import UsageError

JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_FAULT: Final = "the console failed; its log says why"
_END: Final = b"event: end\ndata: {}\n\n"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")

logger = logging.getLogger("headgate.console")


def json_bytes(content: Any) -> bytes:
    """JSON of ASCII letters: no text of a record can break it. Raises ValueError for what is not JSON."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def refusal_of(error: Exception) -> tuple[int, str]:
    """The status and the sentence for an error of a resource; a fault is logged."""
    match error:
        case NotLoggedIn():
            return 401, "log in to see the cluster"
        case TooManyStreams():
            return 429, "too many pages of the console are open; close another one"
        case BadParameter() | UsageError():
            return 400, str(error)
        case ClientError():
            return 502, str(error)
    logger.error("a request failed", exc_info=error)
    return 500, _FAULT


class StreamedAnswer:
    """An answer in parts, an application of ASGI: each part is made in a thread while nothing else is sent."""

    def __init__(self, visitor: Visitor, kind: AnswerKind, ask: Callable[[Cluster], Any]) -> None:
        self._visitor = visitor
        self._kind = kind
        self._ask = ask
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts until the last one, or until the visitor is gone."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_for_leave, receive, nursery.cancel_scope)
            try:
                with self._visitor.stream() as stream:
                    await self._send_parts(stream, send)
            except Exception as error:  # noqa: BLE001 - a fault is logged there
                await self._send_failure(send, *refusal_of(error))
            nursery.cancel_scope.cancel()

    async def _send_parts(self, stream: VisitorStream, send: Send) -> None:
        answer = await stream.ask(self._ask)
        if self._kind is AnswerKind.EVENTS:
            parts, headers = _events(answer), [(b"content-type", _EVENTS.encode())]
        else:
            parts, headers = answer.parts, _file_headers(answer)
        part = await stream.ask(lambda _: next(parts, None))  # its failure has a status still
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._has_begun = True
        while part is not None:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            part = await stream.ask(lambda _: next(parts, None))
        await send({"type": "http.response.body", "body": _END if self._kind is AnswerKind.EVENTS else b""})

    async def _send_failure(self, send: Send, status: int, sentence: str) -> None:
        body = json_bytes({"error": sentence})
        if not self._has_begun:
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", JSON.encode())]})
            await send({"type": "http.response.body", "body": body})
        elif self._kind is AnswerKind.EVENTS:
            await send({"type": "http.response.body", "body": b"event: failure\ndata: " + body + b"\n\n"})
        else:
            raise ConnectionAbortedError(sentence)  # so that a browser does not take a part of a file for the whole


def _events(events: Iterator[Any]) -> Iterator[bytes]:
    return (b"data: " + json_bytes(event) + b"\n\n" for event in events)


def _file_headers(download: Download) -> list[tuple[bytes, bytes]]:
    name = _UNSAFE.sub("_", download.file_name)[:100]
    return [
        (b"content-type", download.media_type.encode()),
        (b"content-disposition", f'attachment; filename="{name}"'.encode()),
    ]


async def _wait_for_leave(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
