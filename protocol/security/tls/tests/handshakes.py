"""Handshakes in memory: a server's and a client's context, without a socket."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls import contexts, stores
from headgate.protocol.security.tls.settings import TlsSettings
from headgate.protocol.security.tls.store_files import StoreFiles
from headgate.protocol.security.tls.tests.certificates import NOW, Authority, Issued

FILES = StoreFiles()


def nothing(path: str) -> bytes:
    raise AssertionError("these stores are in settings")


def settings_of(issued: Issued | None, trusted: Authority | str | None, **fields: object) -> TlsSettings:
    """Settings with the keys and certificates themselves."""
    values: dict[str, object] = dict(fields)
    if issued is not None:
        key, chain = Secret(issued.key_pem()), Secret(issued.chain_pem())
        values |= {"keystore_type": "PEM", "keystore_key": key, "keystore_certificate_chain": chain}
    if trusted is not None:
        text = trusted if isinstance(trusted, str) else trusted.pem()
        values |= {"truststore_type": "PEM", "truststore_certificates": Secret(text)}
    return TlsSettings(**values)  # type: ignore[arg-type]


def server(issued: Issued | None, trusted: Authority | str | None = None, **fields: object) -> ssl.SSLContext:
    settings = settings_of(issued, trusted, **fields)
    key_store = stores.read_key_store(settings, nothing, NOW)
    return contexts.server_context(settings, key_store, stores.read_trust_store(settings, nothing, NOW), FILES)


def client(issued: Issued | None, trusted: Authority | str | None, **fields: object) -> ssl.SSLContext:
    settings = settings_of(issued, trusted, **fields)
    key_store = stores.read_key_store(settings, nothing, NOW)
    return contexts.client_context(settings, key_store, stores.read_trust_store(settings, nothing, NOW), FILES)


@dataclass
class Connection:
    """Both ends of a connection over TLS."""

    server: ssl.SSLObject
    client: ssl.SSLObject
    to_server: ssl.MemoryBIO
    to_client: ssl.MemoryBIO

    @property
    def certificate(self) -> bytes | None:
        """The client's, as the server has it."""
        return self.server.getpeercert(binary_form=True)


def connect(
    server_context: ssl.SSLContext,
    client_context: ssl.SSLContext,
    host: str = "localhost",
    session: ssl.SSLSession | None = None,
) -> Connection:
    """Shake hands, and let the client read what follows (tickets). Raises ssl.SSLError as either end does."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server_context.wrap_bio(to_server, to_client, server_side=True)
    client_end = client_context.wrap_bio(to_client, to_server, server_hostname=host, session=session)
    waiting = [client_end, server_end]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            break
    server_end.write(b"x")
    assert client_end.read() == b"x"
    return Connection(server_end, client_end, to_server, to_client)
