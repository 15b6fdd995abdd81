"""The HTTP listener: one GET for each connection, for collectors of metrics, probes of health, and tools.

A peer may send one request head of `HEAD_BYTES` within `HEAD_S`, and has `ANSWER_S` to take the response. `MAX_PEERS`
are served at a time; others wait in the backlog. A body is made slice by slice; other tasks run in between. A body of
more than `BLOCK_BYTES` is sent while it is made, so a peer that reads slowly costs no more memory than that.

With an `HttpAccess` the listener speaks TLS, and answers users who may Describe the cluster. Handshakes and passwords
are computed in one thread. A peer that is not known ends for a new one once it has kept this broker waiting.

The modules of an exchange and of a resource are imported by the first peer that needs them, in a thread.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from headgate.gateway.config.http.http_addresses import HTTP
from headgate.gateway.http.resources import JSON, TEXT, HttpAnswer, HttpResources
from headgate.gateway.network.admission.unauthenticated import UnauthenticatedConnections
from headgate.gateway.network.server import client_of, socket_of
from headgate.gateway.runtime.log_output import LimitedLog

if TYPE_CHECKING:
    from headgate.gateway.api.context import Client
    from headgate.gateway.http.access import HttpAccess
    from headgate.gateway.http.exchange import HttpExchange, Refusal, Request
    from headgate.gateway.runtime.clock import Clock

HEAD_S: Final = 5.0
ANSWER_S: Final = 30.0
LINGER_S: Final = 1.0
"""How long a refused peer may go on sending: a close with unread bytes would take the response from it."""
LINGER_BYTES: Final = 1 << 16
RECEIVE_BYTES: Final = 8_192
BLOCK_BYTES: Final = 1 << 16
MAX_PEERS: Final = 32
MAX_SECURE_PEERS, MAX_UNKNOWN_PEERS = 64, 32
BACKLOG: Final = 32
JSON_PATHS: Final = "/v1/"
_MODULES: Final = ("headgate.gateway.http.exchange", "headgate.gateway.http.json_body", "headgate.gateway.http.access")
CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="headgate", charset="UTF-8"')

logger = logging.getLogger("headgate.http")


class Security(NamedTuple):
    """What a listener over TLS needs."""

    access: HttpAccess
    clock: Clock


class HttpListener:
    """Answers each peer from the table of resources."""

    def __init__(self, resources: HttpResources, security: Security | None = None) -> None:
        self._resources = resources
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
                    logger.error("cannot accept an HTTP connection: %s; retrying", error)
                    await trio.sleep(1.0)
                    continue
                nursery.start_soon(self._handle, stream, peer)

    async def _handle(self, stream: trio.abc.Stream, peer: object) -> None:
        try:
            with trio.move_on_after(HEAD_S + ANSWER_S):
                await self._load(_MODULES)
                if self._security is None:
                    await self._serve_openly(stream)
                else:
                    await self._serve_securely(stream, self._security)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass  # the peer disconnected
        except Exception:
            logger.exception("cannot serve an HTTP connection; only this one is closed")
        finally:
            self._peers.release_on_behalf_of(peer)
            await trio.aclose_forcefully(stream)

    async def _load(self, modules: Iterable[str]) -> None:
        """Import modules: in a thread, as an import may take longer than clients of this broker should wait."""
        for module in modules:
            if module not in sys.modules:
                await trio.to_thread.run_sync(import_module, module, limiter=self._threads)

    async def _serve_openly(self, stream: trio.abc.Stream) -> None:
        from headgate.gateway.http import access, exchange
        from headgate.protocol.security.host_header import is_of_this_machine

        with_peer = exchange.HttpExchange()
        request = await _receive(stream, with_peer)
        if isinstance(request, exchange.Request) and not is_of_this_machine(request.header(access.HOST)):
            request = exchange.FOREIGN_HOST
        await self._answer(stream, with_peer, request)
        await stream.aclose()

    async def _answer(self, stream: trio.abc.Stream, exchange: HttpExchange, request: Request | Refusal) -> None:
        from headgate.gateway.http.exchange import FAULT, Refusal, not_found

        if isinstance(request, Refusal):
            await stream.send_all(exchange.refusal(request, TEXT, f"{request.sentence}\n".encode()))
            await _linger(stream)
            return
        resource = self._resources.find(request.path)
        if resource is None:
            await self._refuse(stream, exchange, request, not_found(request.path))
            return
        body = _Body(stream, exchange)
        try:
            await self._load(resource.modules)
            await body.send(resource.answer(), is_head=request.method == "HEAD")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception:
            logger.exception("cannot answer %s %s", request.method, request.path)
            if not body.has_begun:
                await self._refuse(stream, exchange, request, FAULT)

    async def _refuse(
        self, stream: trio.abc.Stream, exchange: HttpExchange, request: Request, refusal: Refusal
    ) -> None:
        """Refuse a request that is one: tools get JSON for JSON."""
        from headgate.gateway.http import json_body

        is_json = request.path.startswith(JSON_PATHS)
        body = json_body.error_text(refusal.sentence) if is_json else f"{refusal.sentence}\n".encode()
        content_type = JSON if is_json else TEXT
        await stream.send_all(exchange.refusal(refusal, content_type, body, is_head=request.method == "HEAD"))

    # Over TLS

    async def _serve_securely(self, tcp: trio.abc.Stream, security: Security) -> None:
        from headgate.gateway.http import access as http_access
        from headgate.gateway.http.exchange import NEEDS_TLS, HttpExchange, Refusal
        from headgate.gateway.network.tls.handshakes import HTTP_REQUEST
        from headgate.gateway.network.tls.streams import MemoryTlsStream
        from headgate.gateway.network.tls.tls_socket import TlsError

        client, access, monotonic_ms = client_of(HTTP, socket_of(tcp)), security.access, security.clock.monotonic_ms
        if self._unknown.make_room(MAX_UNKNOWN_PEERS, monotonic_ms()) is not None:
            return
        with trio.CancelScope() as scope:
            unknown = self._unknown.add(lambda _: scope.cancel(), monotonic_ms())
            try:
                stream = MemoryTlsStream(tcp, access.tls.context, self._threads)
                certificate = await stream.do_handshake()
                exchange = HttpExchange()
                request = await _receive(stream, exchange)
                if isinstance(request, Refusal):
                    await self._answer(stream, exchange, request)
                    return
                identity = access.identify(request.header(http_access.AUTHORIZATION), certificate)
                if callable(identity):
                    unknown.work_begins(monotonic_ms())
                    identity = await trio.to_thread.run_sync(identity, limiter=self._threads)
                unknown.end()
                client.principal = identity or client.principal
                if identity is None or not access.allows(client):
                    refusal = self._refusal_of(client, is_known=identity is not None)
                    await trio.sleep(access.delay_ms / 1000)
                    await self._refuse(stream, exchange, request, refusal)
                else:
                    await self._answer(stream, exchange, request)
                await stream.aclose()
            except (TlsError, ValueError) as error:
                if isinstance(error, TlsError) and error.alert == HTTP_REQUEST:
                    self._warn(client, NEEDS_TLS.sentence)
                    await self._answer(tcp, HttpExchange(), NEEDS_TLS)
                else:
                    self._warn(client, str(error))
            finally:
                unknown.end()

    def _refusal_of(self, client: Client, *, is_known: bool) -> Refusal:
        from headgate.gateway.http.exchange import Refusal

        if is_known:
            refusal = Refusal(403, f"{client.principal!r} may not Describe the cluster")
        else:
            refusal = Refusal(401, "no certificate, and no user with the right password", (CHALLENGE,))
        self._warn(client, refusal.sentence)
        return refusal

    def _warn(self, client: Client, reason: str) -> None:
        if self._log is not None:
            self._log.warning(client.remote_host, "refused an HTTP request of %s: %s", client, reason)


async def _receive(stream: trio.abc.Stream, exchange: HttpExchange) -> Request | Refusal:
    from headgate.gateway.http.exchange import LATE

    with trio.move_on_after(HEAD_S):
        while True:
            received = exchange.receive(await stream.receive_some(RECEIVE_BYTES))
            if received is not None:
                return received
    return LATE


class _Body:
    """The way of an answer to a peer: a small one with its length, a large one while it is made."""

    def __init__(self, stream: trio.abc.Stream, exchange: HttpExchange) -> None:
        self.has_begun = False
        self._stream = stream
        self._exchange = exchange

    async def send(self, answer: HttpAnswer, *, is_head: bool) -> None:
        """Send an answer; its body is not made for HEAD."""
        if is_head:
            await self._stream.send_all(self._head(answer, None))
            return
        parts: list[bytes] = []
        size = 0
        for part in answer.body:
            parts.append(part)
            size += len(part)
            await trio.lowlevel.checkpoint()
            if size >= BLOCK_BYTES:
                await self._stream.send_all(self._head(answer, None) + self._exchange.data(b"".join(parts)))
                parts.clear()
                size = 0
        head = self._head(answer, size)
        await self._stream.send_all(head + self._exchange.data(b"".join(parts)) + self._exchange.end())

    def _head(self, answer: HttpAnswer, length: int | None) -> bytes:
        """The head, before anything else of the answer."""
        if self.has_begun:
            return b""
        self.has_begun = True
        return self._exchange.head(answer.status, [("Content-Type", answer.content_type)], length)


async def _linger(stream: trio.abc.Stream) -> None:
    """Let a refused peer end what it sends, within limits."""
    if not isinstance(stream, trio.abc.HalfCloseableStream):
        return
    await stream.send_eof()
    left = LINGER_BYTES
    with trio.move_on_after(LINGER_S):
        while left > 0 and (data := await stream.receive_some(RECEIVE_BYTES)):
            left -= len(data)
