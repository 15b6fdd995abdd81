"""TLS over streams: the server where there is no engine."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from headgate.gateway.network.tls.streams import shake_hands
from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, listener_tls
from headgate.gateway.network.tls.tls_socket import TlsError


def run(client_sends: bytes | None, timeout_ms: float = 1_000) -> str:
    """The principal of a client; `client_sends` in place of a handshake."""

    async def main() -> str:
        client, server = trio.testing.memory_stream_pair()
        secure = trio.SSLStream(server, listener_tls().context, server_side=True, https_compatible=True)
        async with trio.open_nursery() as nursery:
            if client_sends is None:
                nursery.start_soon(trio.SSLStream(client, client_context(), server_hostname=HOST).do_handshake)
            else:
                nursery.start_soon(partial(client.send_all, client_sends))
            return await shake_hands(secure, listener_tls(), timeout_ms)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_client_is_known_after_its_handshake() -> None:
    assert run(None) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    "sent, sentence", [(b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"), (b"\x16\x03", "took longer than")]
)
def test_a_client_without_a_handshake_is_refused(sent: bytes, sentence: str) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(TlsError, match=sentence)):
        run(sent)
