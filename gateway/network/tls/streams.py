"""TLS over trio streams: the handshake of a connection, and a stream whose handshakes compute in threads."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import trio

from headgate.gateway.network.tls import link_failures
from headgate.gateway.network.tls.handshakes import refusal
from headgate.gateway.network.tls.tls_socket import TIMED_OUT, TlsError, reason_of

if TYPE_CHECKING:
    from headgate.gateway.network.links import Link
    from headgate.gateway.security.tls.listener_tls import ListenerTls


async def shake_hands(stream: trio.SSLStream[Any], tls: ListenerTls, timeout_ms: float) -> str:
    """Do the handshake, on the loop, and return the client's principal. Raises TlsError, trio.BrokenResourceError."""
    with trio.move_on_after(timeout_ms / 1000):
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            if isinstance(error.__cause__, ssl.SSLError):
                raise refusal(error.__cause__) from None
            raise
        return tls.principal_of(cast("bytes | None", stream.getpeercert(binary_form=True)))
    raise TlsError(TIMED_OUT)


RECORD_BYTES: Final = 1 << 14
T = TypeVar("T")


class MemoryTlsStream(trio.abc.Stream):
    """TLS of a server over a stream. A handshake's steps run in a thread: a signature of RSA takes a millisecond."""

    def __init__(self, stream: trio.abc.Stream, context: ssl.SSLContext, limiter: trio.CapacityLimiter) -> None:
        """`limiter`: of the threads."""
        self._stream = stream
        self._limiter = limiter
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def do_handshake(self) -> bytes | None:
        """Do the handshake, and return the client's certificate in DER. Raises TlsError, trio.BrokenResourceError."""
        try:
            await self._finish(lambda: trio.to_thread.run_sync(self._tls.do_handshake, limiter=self._limiter))
        except ssl.SSLError as error:
            await self._flush()
            raise refusal(error) from None
        return self._tls.getpeercert(binary_form=True)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at most one record; b"" is the end."""
        try:
            return await self._finish(
                lambda: _at_once(lambda: self._tls.read(min(max_bytes or RECORD_BYTES, RECORD_BYTES)))
            )
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(reason_of(error)) from None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, record by record."""
        rest = memoryview(data)
        while rest:
            part, rest = rest[:RECORD_BYTES], rest[RECORD_BYTES:]
            await self._finish(partial(_at_once, partial(self._tls.write, part)))

    async def wait_send_all_might_not_block(self) -> None:
        """As of the stream below."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """End TLS and close the stream below."""
        with suppress(ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError):
            with suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
            await self._flush()
        await self._stream.aclose()

    async def _finish(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do a step as often as it needs more bytes of the peer. Raises ssl.SSLError."""
        while True:
            try:
                result = await step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._stream.receive_some(RECORD_BYTES)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            await self._stream.send_all(data)


async def _at_once(step: Callable[[], T]) -> T:
    await trio.lowlevel.checkpoint_if_cancelled()
    return step()


async def connect(stream: trio.abc.Stream, context: ssl.SSLContext, link: Link) -> trio.SSLStream[Any] | str:
    """Do the handshake of a link, on the loop. Returns the reason of a failure; the stream is closed then."""
    name = link.host if context.check_hostname else None
    secure = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
    reason = link_failures.TIMED_OUT
    try:
        with trio.move_on_after(link_failures.HANDSHAKE_TIMEOUT_MS / 1000):
            await secure.do_handshake()
            return secure
    except trio.BrokenResourceError as error:
        reason = f"the connection failed: {error.__cause__ or error}"
        if isinstance(error.__cause__, ssl.SSLError):
            reason = link_failures.report(link, link_failures.explain(error.__cause__))
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    await trio.aclose_forcefully(stream)
    return reason
