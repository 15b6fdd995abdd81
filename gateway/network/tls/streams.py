"""The TLS handshake of a connection that is a trio stream."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, cast

import trio

from headgate.gateway.network.tls.handshakes import refusal
from headgate.gateway.network.tls.tls_socket import TIMED_OUT, TlsError

if TYPE_CHECKING:
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
