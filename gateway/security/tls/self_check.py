"""A handshake of a broker with itself, in memory: its own certificate must satisfy its own trust store.

Brokers of a cluster have the same settings, so what fails here fails between all of them. Kafka checks the listener
between brokers in this way, without the name of the host, at the start and at each change (`SslEngineValidator`).
"""

from __future__ import annotations

import ssl

from headgate.protocol.security.tls.settings import TlsProblem

_MAX_ROUNDS = 10


def check_connects(client_context: ssl.SSLContext, server_context: ssl.SSLContext) -> None:
    """Check that a client with one context can connect to a server with the other. Raises TlsProblem.

    The client's context must not check the name of the host.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client_context.wrap_bio(to_client, to_server),
        server_context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_MAX_ROUNDS):
        ends = [end for end in ends if not _is_done(end)]
        if not ends:
            return
    raise TlsProblem("a broker with these settings cannot connect to another one: the handshake does not end")


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLCertVerificationError as error:
        side = "as a client" if end.server_side else "of this broker"
        raise TlsProblem(
            f"other brokers with these settings refuse the certificate {side}: {error.verify_message}; the trust store"
            " needs its authority, and the certificate must be for both servers and clients"
        ) from None
    except ssl.SSLError as error:
        reason = (error.reason or "unknown").lower()
        raise TlsProblem(f"a broker with these settings cannot connect to another one: {reason}") from None
    return True
