"""The metrics listener: HTTP/1.1, one GET for each connection, for metrics collectors.

A peer may send one request head of `HEAD_BYTES` within `HEAD_S`, and has `ANSWER_S` to take the response. `MAX_PEERS`
are served at a time; others wait in the backlog. The text is built metric by metric; other tasks run in between.

With a `MetricsAccess` the listener speaks TLS, and answers users who may read the metrics alone. Handshakes and
passwords are computed in one thread. A peer that is not known ends for a new one once it has kept this broker waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from headgate.gateway.config.listeners import METRICS
from headgate.gateway.network.admission.unauthenticated import UnauthenticatedConnections
from headgate.gateway.network.server import client_of, socket_of
from headgate.gateway.network.tls.tls_socket import TlsError
from headgate.gateway.runtime.log_output import LimitedLog

if TYPE_CHECKING:
    from headgate.gateway.api.context import Client
    from headgate.gateway.network.metrics_access import MetricsAccess
    from headgate.gateway.runtime.clock import Clock

HEAD_BYTES = 8192
HEAD_S = 5.0
ANSWER_S = 10.0
MAX_PEERS = 8
MAX_SECURE_PEERS, MAX_UNKNOWN_PEERS = 64, 32
BACKLOG = 16
PATHS = (b"/metrics", b"/")

logger = logging.getLogger("headgate.metrics")

Exposition = Callable[[], Iterator[bytes]]


TEXT = "text/plain; charset=utf-8"
CHALLENGE = 'WWW-Authenticate: Basic realm="headgate", charset="UTF-8"'


class Security(NamedTuple):
    """What a listener beyond the loopback interface needs."""

    access: MetricsAccess
    clock: Clock


class MetricsListener:
    """Answers each GET with the current metrics."""

    def __init__(self, exposition: Exposition, content_type: str, security: Security | None = None) -> None:
        """`exposition()` yields the lines of one metric after another."""
        self._exposition = exposition
        self._content_type = content_type
        self._security = security
        self._log = None if security is None else LimitedLog(logger, security.clock)
        self._unknown = UnauthenticatedConnections()
        self._threads = trio.CapacityLimiter(1)
        self._peers = trio.CapacityLimiter(MAX_PEERS if security is None else MAX_SECURE_PEERS)

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
                if self._security is None:
                    await self._answer(stream, await _timely_head(stream))
                    await stream.aclose()
                else:
                    await self._serve_securely(stream, self._security)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # the collector disconnected
        except Exception:
            logger.exception("cannot write the metrics for a collector")
        finally:
            self._peers.release_on_behalf_of(peer)
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.abc.Stream, head: bytes) -> None:
        refusal = _refusal(head)
        if refusal is not None:
            await stream.send_all(_response(refusal, TEXT, refusal.encode() + b"\n"))
            return
        parts = []
        for part in self._exposition():
            parts.append(part)
            await trio.lowlevel.checkpoint()
        await stream.send_all(_response("200 OK", self._content_type, b"".join(parts)))

    # Beyond the loopback interface

    async def _serve_securely(self, tcp: trio.abc.Stream, security: Security) -> None:
        from headgate.gateway.network.tls.streams import MemoryTlsStream

        client, access, monotonic_ms = client_of(METRICS, socket_of(tcp)), security.access, security.clock.monotonic_ms
        if self._unknown.make_room(MAX_UNKNOWN_PEERS, monotonic_ms()) is not None:
            return
        with trio.CancelScope() as scope:
            unknown = self._unknown.add(lambda _: scope.cancel(), monotonic_ms())
            try:
                stream = MemoryTlsStream(tcp, access.tls.context, self._threads)
                certificate = await stream.do_handshake()
                head = await _timely_head(stream)
                answer = access.identify(head, certificate)
                if callable(answer):
                    unknown.work_begins(monotonic_ms())
                    answer = await trio.to_thread.run_sync(answer, limiter=self._threads)
                unknown.end()
                client.principal = answer or client.principal
                if answer is None or not access.allows(client):
                    await self._refuse(stream, client, access, is_known=answer is not None)
                else:
                    await self._answer(stream, head)
                await stream.aclose()
            except (TlsError, ValueError) as error:
                self._warn(client, str(error))
            finally:
                unknown.end()

    async def _refuse(self, stream: trio.abc.Stream, client: Client, access: MetricsAccess, *, is_known: bool) -> None:
        status = "403 Forbidden" if is_known else "401 Unauthorized"
        reason = (
            f"{client.principal!r} may not Describe the cluster"
            if is_known
            else "no certificate, and no user with the right password"
        )
        self._warn(client, reason)
        await trio.sleep(access.delay_ms / 1000)
        await stream.send_all(_response(status, TEXT, reason.encode() + b"\n", () if is_known else (CHALLENGE,)))

    def _warn(self, client: Client, reason: str) -> None:
        if self._log is not None:
            self._log.warning(client.remote_host, "refused a collector of metrics from %s: %s", client, reason)


async def _timely_head(stream: trio.abc.Stream) -> bytes:
    with trio.move_on_after(HEAD_S):
        return await _head(stream)
    return b""


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


def _response(status: str, content_type: str, body: bytes, headers: Sequence[str] = ()) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
        "",
        "",
    )
    return "\r\n".join(lines).encode("ascii") + body
