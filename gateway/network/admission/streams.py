"""The PROXY header of a connection that is a trio stream."""

from __future__ import annotations

from contextlib import suppress

import trio

from headgate.gateway.api.context import Client
from headgate.gateway.network.admission.proxies import CUT, TIMED_OUT, client_behind
from headgate.gateway.network.admission.proxy_header import MalformedProxyHeader, ProxyHeaderReader


async def read_header(stream: trio.abc.Stream, proxy: Client, timeout_ms: float) -> Client | None:
    """The client that the PROXY header of a stream names; None if the peer has gone before its first byte.

    Raises MalformedProxyHeader, also for a header that takes too long.
    """
    reader = ProxyHeaderReader()
    with trio.move_on_after(timeout_ms / 1000):
        while not reader.is_done:
            data = b""
            with suppress(trio.BrokenResourceError):
                data = bytes(await stream.receive_some(reader.wanted))
            if not data:
                if reader.has_begun:
                    raise MalformedProxyHeader(CUT)
                return None
            reader.feed(data)
        return client_behind(proxy, reader.connection)
    raise MalformedProxyHeader(TIMED_OUT)
