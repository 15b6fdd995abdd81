"""The metrics listener: HTTP/1.1, one GET for each connection, for metrics collectors.

A peer may send one request head of `HEAD_BYTES` within `HEAD_S`, and has `ANSWER_S` to take the response. `MAX_PEERS`
are served at a time; others wait in the backlog. The text is built metric by metric; other tasks run in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import trio

HEAD_BYTES = 8192
HEAD_S = 5.0
ANSWER_S = 10.0
MAX_PEERS = 8
BACKLOG = 16
PATHS = (b"/metrics", b"/")

logger = logging.getLogger("headgate.metrics")

Exposition = Callable[[], Iterator[bytes]]


class MetricsListener:
    """Answers each GET with the current metrics."""

    def __init__(self, exposition: Exposition, content_type: str) -> None:
        """`exposition()` yields the lines of one metric after another."""
        self._exposition = exposition
        self._content_type = content_type
        self._peers = trio.CapacityLimiter(MAX_PEERS)

    async def serve(self, listeners: Sequence[trio.abc.Listener[trio.abc.Stream]]) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(self._accept, listener, nursery)

    async def _accept(self, listener: trio.abc.Listener[trio.abc.Stream], nursery: trio.Nursery) -> None:
        async with listener:
            while True:
                peer = object()
                await self._peers.acquire_on_behalf_of(peer)
                try:
                    stream = await listener.accept()
                except OSError as error:
                    self._peers.release_on_behalf_of(peer)
                    logger.error("cannot accept a metrics connection: %s; retrying", error)
                    await trio.sleep(1.0)
                    continue
                nursery.start_soon(self._handle, stream, peer)

    async def _handle(self, stream: trio.abc.Stream, peer: object) -> None:
        try:
            with trio.move_on_after(HEAD_S + ANSWER_S):
                await self._answer(stream)
                await stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # the collector disconnected
        except Exception:
            logger.exception("cannot write the metrics for a collector")
        finally:
            self._peers.release_on_behalf_of(peer)
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.abc.Stream) -> None:
        head = b""
        with trio.move_on_after(HEAD_S):
            head = await _head(stream)
        refusal = _refusal(head)
        if refusal is not None:
            await stream.send_all(_response(refusal, "text/plain; charset=utf-8", refusal.encode() + b"\n"))
            return
        parts = []
        for part in self._exposition():
            parts.append(part)
            await trio.lowlevel.checkpoint()
        await stream.send_all(_response("200 OK", self._content_type, b"".join(parts)))


async def _head(stream: trio.abc.Stream) -> bytes:
    """Read the head of a request, without its empty line; b"" if the head does not end or is too long."""
    received = bytearray()
    while len(received) <= HEAD_BYTES:
        data = await stream.receive_some(HEAD_BYTES)
        if not data:
            return b""
        received += data
        head, end, _ = bytes(received).partition(b"\r\n\r\n")
        if end:
            return head
    return b""


def _refusal(head: bytes) -> str | None:
    """The HTTP status of a refusal; None if the request is for the metrics."""
    method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
    path, _, version = rest.partition(b" ")
    if not version.startswith(b"HTTP/1."):
        return "400 Bad Request"
    if method != b"GET":
        return "405 Method Not Allowed"
    return None if path.split(b"?", 1)[0] in PATHS else "404 Not Found"


def _response(status: str, content_type: str, body: bytes) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode("ascii") + body
