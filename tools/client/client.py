"""A small blocking client for tools: one connection, one request at a time, over `protocol.client.connection`."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.schema import Message
from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.protocol.security.sasl.client_tokens import LoginFailed

DEFAULT_PORT = 9092
DEFAULT_CLIENT_ID = "headgate-tools"
DEFAULT_TIMEOUT_S = 30.0
_RECEIVE_BYTES = 1 << 16
PLAINTEXT = ClientSecurity()
"""Neither TLS nor a login."""
_TLS_ALERT = b"\x15\x03"
"""The first bytes of the answer to a plain client at a port with TLS."""

T = TypeVar("T")


class ClientError(Exception):
    """A broker cannot be reached, or breaks the protocol; the text names the broker and what to do."""


class NoBrokerAnswers(ClientError):
    """Nothing accepts a connection at an address."""


class SecurityError(ClientError):
    """TLS or the login fails; a repetition with the same settings fails too."""


class Client:
    """A connection to one broker. Close it, or use `with`."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = DEFAULT_CLIENT_ID,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Connect to the first broker of `host:port,...` that accepts, learn its versions, and log in.

        Raises ClientError.
        """
        self._timeout_s = timeout_s
        self._security = security
        self._renew_at_s: float | None = None  # the login
        self._is_answered = False  # beyond ApiVersions
        self.peer = ClientConnection(client_id)
        self._received: deque[Any] = deque()
        failures = []
        for address in parse_addresses(bootstrap):
            try:
                self._socket = socket.create_connection(address, timeout_s)
            except OSError as error:
                failures.append(f"{address[0]}:{address[1]} ({error.strerror or error})")
                continue
            self.address, self._host = f"{address[0]}:{address[1]}", address[0]
            try:
                self._secure()
                self._negotiate()
                self._log_in()
            except ClientError:
                self.close()
                raise
            return
        raise NoBrokerAnswers(
            f"no broker answers at {', '.join(failures)}; start one, or name another: --bootstrap-server host:port"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def has_ended(self) -> bool:
        """True if the broker has closed the connection while no request was in flight: it closes idle ones."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return not self.peer.in_flight and bool(waiting.poll(0))

    def _secure(self) -> None:
        """Begin TLS, if the client's security has it."""
        if not self._security.has_tls:
            return
        try:
            context = self._security.ssl_context()
        except InvalidClientSecurity as error:
            raise SecurityError(str(error)) from None
        plain = self._socket
        try:
            self._socket = context.wrap_socket(plain, server_hostname=self._host)
        except TimeoutError:
            raise ClientError(f"{self.address} did not end the TLS handshake within {self._timeout_s:g} s") from None
        except OSError as error:
            raise self._explain(error) from None
        except ValueError as error:  # a name that no certificate can have
            raise SecurityError(f"{self.address} is no address for TLS: {error}") from None

    def _log_in(self) -> None:
        """Log in, or renew the session, if the client's security has a login."""
        if self._security.has_login:
            session = self.run(self._security.log_in(self.peer, self._host))
            after_ms = session.renew_after_ms
            self._renew_at_s = None if after_ms is None else time.monotonic() + after_ms / 1000

    def _negotiate(self) -> None:
        code = self.run(self.peer.negotiate("headgate-tools"))
        if code != ErrorCode.NONE:
            raise ClientError(f"{self.address} refuses ApiVersions: {ErrorCode(code).name}")

    def run(self, exchange: Exchange[T]) -> T:
        """Send the requests of an exchange, to its end. Raises ClientError."""
        with self._explained():
            try:
                step = next(exchange)
                while True:
                    step = exchange.send(self.ask(*step))
            except StopIteration as end:
                result: T = end.value
                return result

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return the response. Default: the newest version of both sides. Raises ClientError."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None) -> None:
        """Send a request; `receive` returns the response, after those of earlier requests. Raises ClientError."""
        if self._renew_at_s is not None and time.monotonic() >= self._renew_at_s and not self.peer.in_flight:
            self._renew_at_s = None
            self._log_in()
        with self._explained():
            try:
                frame = self.peer.request(request, version)
            except (struct.error, UnicodeEncodeError) as error:  # texts of old versions have at most 32,767 bytes
                sentence = f"{type(request).__name__} cannot be written, as a value does not fit: {error}"
                raise ClientError(f"{self.address}: {sentence}") from None
            self._socket.sendall(frame)

    def receive(self) -> Any:
        """Return the response of the oldest request that has none. Raises ClientError."""
        if self._received:
            return self._received.popleft()
        name = type(self.peer.in_flight[0].request).__name__
        with self._explained():
            return self._receive(name)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the errors of the connection and the protocol into ClientError."""
        try:
            yield
        except KafkaError as error:
            raise ClientError(f"{self.address} is too old or too new for this: {error.message}") from None
        except MalformedRequest as error:
            raise ClientError(f"{self.address} does not answer as a Kafka broker does: {error}") from None
        except LoginFailed as error:
            raise SecurityError(f"{self.address}: {error}") from None
        except OSError as error:
            raise self._explain(error) from None

    def _explain(self, error: OSError) -> ClientError:
        """The error for a failure of the socket."""
        # With TLS 1.3 a client reads its refusal after the handshake
        if self._security.has_tls and not self.peer.served_versions:
            from headgate.tools.client import tls_errors

            sentence = tls_errors.explain(error, self.address, shows_certificate=self._security.shows_certificate)
            if sentence is not None:
                return SecurityError(sentence) if tls_errors.is_refusal(error) else ClientError(sentence)
        return ClientError(f"the connection to {self.address} failed: {error.strerror or error}")

    def serves(self, cls: type[Message]) -> bool:
        """True if the broker serves any version of this API."""
        return cls.api_key in self.peer.served_versions

    def version(self, cls: type[Message], newest: int, oldest: int = 0) -> int:
        """The newest version between `oldest` and `newest` that both sides have. Raises ClientError."""
        with self._explained():
            return self.peer.usable_version(cls, newest, oldest)

    def _receive(self, name: str) -> Any:
        while True:
            try:
                answers = self._receive_part()
            except TimeoutError:
                raise ClientError(f"{self.address} did not answer {name} within {self._timeout_s:g} s") from None
            if answers is None:
                raise ClientError(f"{self.address} hung up at {name}; its log says why{self._advice()}")
            self._received += (response for _, response in answers)
            if self._received:
                self._is_answered = bool(self.peer.served_versions) and name != ApiVersionsRequest.__name__
                return self._received.popleft()

    def _receive_part(self) -> list[tuple[Message, Any]] | None:
        """Receive some bytes; the responses that they complete. None: the broker has closed the connection."""
        if self.peer.incomplete_size:
            count = self._socket.recv_into(self.peer.get_buffer())
            return self.peer.buffer_updated(count) if count else None
        data = self._socket.recv(_RECEIVE_BYTES)
        if not self.peer.served_versions and not self._security.has_tls and data[:2] == _TLS_ALERT:
            raise SecurityError(f"{self.address} speaks TLS; set security.protocol=SSL or SASL_SSL")
        return self.peer.receive(data) if data else None

    def _advice(self) -> str:
        """The likely reason why a broker hangs up on a client that has not seen an answer so far."""
        if not self.peer.served_versions:
            return "" if self._security.has_tls else "; a port with TLS needs security.protocol=SSL or SASL_SSL"
        if self._is_answered or self._security.has_login:
            return ""
        return "; a port with SASL needs a login: security.protocol=SASL_SSL"


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """Addresses of `host:port,[::1]:9092,host`; the default port is 9092. Raises ClientError."""
    return [_parse_address(part.strip()) for part in text.split(",") if part.strip()] or _refuse(text)


def _parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not host or (":" in host and not host.startswith("[")) or not port.isdecimal() or int(port) > 65535:
        return _refuse(text)[0]
    return host.strip("[]"), int(port)


def _refuse(text: str) -> list[tuple[str, int]]:
    raise ClientError(f"{text!r} is no address of a broker; write host:port, as in 127.0.0.1:9092 or [::1]:9092")
