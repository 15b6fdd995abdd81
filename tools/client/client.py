"""A small blocking client for tools: one connection, one request at a time, over `protocol.client.connection`."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.schema import Message

DEFAULT_PORT = 9092
DEFAULT_TIMEOUT_S = 30.0
_RECEIVE_BYTES = 1 << 16
_API_VERSIONS = 3  # Kafka 2.4 and later know this version


class ClientError(Exception):
    """A broker cannot be reached, or breaks the protocol; the text names the broker and what to do."""


class Client:
    """A connection to one broker. Close it, or use `with`."""

    def __init__(self, bootstrap: str, client_id: str = "headgate-tools", timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Connect to the first broker of `host:port,...` that accepts, and ask for its versions. Raises ClientError."""
        self._timeout_s = timeout_s
        self._peer = ClientConnection(client_id)
        self._received: deque[Any] = deque()
        failures = []
        for address in parse_addresses(bootstrap):
            try:
                self._socket = socket.create_connection(address, timeout_s)
            except OSError as error:
                failures.append(f"{address[0]}:{address[1]} ({error.strerror or error})")
                continue
            self.address = f"{address[0]}:{address[1]}"
            self._negotiate()
            return
        raise ClientError(
            f"no broker answers at {', '.join(failures)}; start one, or name another: --bootstrap-server host:port"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _negotiate(self) -> None:
        software = ApiVersionsRequest(client_software_name="headgate-tools", client_software_version="1")
        try:
            answer = self.ask(software, _API_VERSIONS)
            if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
                answer = self.ask(ApiVersionsRequest(), 0)  # the error lists no API, or ApiVersions alone (KIP-511)
        except ClientError:
            self.close()
            raise
        if answer.error_code != ErrorCode.NONE:
            self.close()
            raise ClientError(f"{self.address} refuses ApiVersions: {ErrorCode(answer.error_code).name}")

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return the response. Default: the newest version of both sides. Raises ClientError."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None) -> None:
        """Send a request; `receive` returns the response, after those of earlier requests. Raises ClientError."""
        with self._explained():
            self._socket.sendall(self._peer.request(request, version))

    def receive(self) -> Any:
        """Return the response of the oldest request that has none. Raises ClientError."""
        if self._received:
            return self._received.popleft()
        name = type(self._peer.in_flight[0].request).__name__
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
        except OSError as error:
            raise ClientError(f"the connection to {self.address} failed: {error.strerror or error}") from None

    def serves(self, cls: type[Message]) -> bool:
        """True if the broker serves any version of this API."""
        return cls.api_key in self._peer.served_versions

    def version(self, cls: type[Message], newest: int, oldest: int = 0) -> int:
        """The newest version between `oldest` and `newest` that both sides have. Raises ClientError."""
        try:
            version = min(newest, self._peer.latest_usable_version(cls))
        except KafkaError as error:
            raise ClientError(f"{self.address} is too old or too new for this: {error.message}") from None
        served = self._peer.served_versions[cls.api_key]
        if version < max(oldest, served.first):
            name = cls.__name__.removesuffix("Request")
            raise ClientError(
                f"{self.address} is too old or too new for this: it has {name} {served}, this needs {oldest}-{newest}"
            )
        return version

    def _receive(self, name: str) -> Any:
        while True:
            try:
                answers = self._receive_part()
            except TimeoutError:
                raise ClientError(f"{self.address} did not answer {name} within {self._timeout_s:g} s") from None
            if answers is None:
                raise ClientError(f"{self.address} hung up at {name}; its log says why")
            self._received += (response for _, response in answers)
            if self._received:
                return self._received.popleft()

    def _receive_part(self) -> list[tuple[Message, Any]] | None:
        """Receive some bytes; the responses that they complete. None: the broker has closed the connection."""
        if self._peer.incomplete_size:
            count = self._socket.recv_into(self._peer.get_buffer())
            return self._peer.buffer_updated(count) if count else None
        data = self._socket.recv(_RECEIVE_BYTES)
        return self._peer.receive(data) if data else None


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
