"""The SASL exchange of one connection, sans-IO: frames in, events out. Kafka's class is `SaslServerAuthenticator`.

    INITIAL     ApiVersions, SaslHandshake, or the first GSSAPI token of a client of Kafka 0.9
    VERSIONS    a request of Kafka was read: ApiVersions or SaslHandshake
    HANDSHAKE   ApiVersions was answered: SaslHandshake
    TOKENS      the mechanism is chosen: SaslAuthenticate (after SaslHandshake 1), or frames of raw tokens (after 0)
    COMPUTING   a thread makes the next step: no frame may come until `resume`
    COMPLETE    the principal is known: other APIs are served
    FAILED      the connection closes

    client                              server
    ApiVersions                   ->
                                  <-    ApiVersions
    SaslHandshake(mechanism)      ->
                                  <-    SaslHandshake(mechanisms)
    SaslAuthenticate(token)       ->                                    as often as the mechanism needs
                                  <-    SaslAuthenticate(token)

No other request is parsed before the end of a login. Kafka answers a failed login late (its delay slows down guesses):
`Close` has the last reply and the delay. A fault that no client of Kafka makes closes the connection at once.

Re-authentication (KIP-368): a session with an end accepts SaslHandshake again, once a second, and the login must have
the same mechanism and principal. A request after the end of the session closes the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.security.sasl.exchange import (
    Authenticated,
    AuthenticationFailed,
    Challenge,
    SaslComputation,
    SaslExchange,
    SaslStep,
)
from headgate.protocol import compiler, registry
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.header import RequestHeader, read_request_header, write_response_header
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headgate.protocol.schema import Message

M = TypeVar("M", bound=Message)
GSSAPI: Final = "GSSAPI"
MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000
_SIZE_BYTES: Final = 4


class SaslState(Enum):
    """The states of an exchange; see the head of this module."""

    INITIAL = auto()
    VERSIONS = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    COMPUTING = auto()
    COMPLETE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class SendReply:
    """Send these bytes, which begin with their size."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunComputation:
    """Call `run` in a thread, then `SaslServerExchange.resume` with its result or its exception."""

    run: Callable[[], SaslStep] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The principal of the connection is known, or was confirmed: `is_renewal` is set for a re-authentication.

    `session_expires_ms`: monotonic time from which on a request closes the connection; None without an end.
    """

    principal: str
    mechanism: str
    session_expires_ms: float | None = None
    is_by_delegation_token: bool = False
    is_renewal: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Read nothing more; after `delay_ms` send `last_reply`, then close. `reason` is for the log."""

    reason: str
    last_reply: bytes = field(default=b"", repr=False)
    delay_ms: int = 0
    user: str = ""
    """The name that the client claims, if the login has come so far."""


SaslEvent: TypeAlias = SendReply | RunComputation | LoggedIn | Close
ApiVersionsAnswer: TypeAlias = Callable[[ApiVersionsRequest | None, int], Message]
"""Answers ApiVersions of a version; without a request, the version is unknown and the answer has version 0.

Raises KafkaError for an invalid name of the client's software, or a client that expects another broker.
"""


class SaslListener(NamedTuple):
    """The SASL settings of one listener.

    `mechanisms`: by name, the function that begins a login. `max_reauth_ms`: by mechanism, 0 without a limit.
    `failure_delay_ms`: `connection.failed.authentication.delay.ms`. `max_receive_bytes`:
    `sasl.server.max.receive.size`.
    """

    mechanisms: Mapping[str, Callable[[], SaslExchange]]
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int = 100
    max_receive_bytes: int = 524288

    @property
    def names(self) -> list[str]:
        """The names of the mechanisms, as answers have them."""
        return list(self.mechanisms)


class SaslSession(NamedTuple):
    """A login that has ended well."""

    principal: str
    mechanism: str


class _Failure(Exception):
    """An exchange ends. `is_late`: as a refused login, after the delay; otherwise at once and without a reply."""

    def __init__(self, reason: str, last_reply: bytes = b"", *, is_late: bool = True, user: str = "") -> None:
        super().__init__(reason)
        self.user = user
        self.last_reply = last_reply
        self.is_late = is_late


class SaslServerExchange:
    """The logins of one connection. After `LoggedIn`, `takes` says which frames still belong here."""

    __slots__ = (
        "_answer_api_versions",
        "_begun_ms",
        "_clock",
        "_exchange",
        "_fault",
        "_has_headers",
        "_listener",
        "_mechanism",
        "_request",
        "_session",
        "session_expires_ms",
        "state",
    )

    def __init__(self, listener: SaslListener, answer_api_versions: ApiVersionsAnswer, clock: Clock) -> None:
        self.state = SaslState.INITIAL
        self.session_expires_ms: float | None = None
        """Monotonic time from which on a request closes the connection; None without an end."""
        self._listener = listener
        self._answer_api_versions = answer_api_versions
        self._clock = clock
        self._session: SaslSession | None = None
        self._has_headers = False
        self._mechanism = ""
        self._exchange: SaslExchange | None = None
        self._request: RequestHeader | None = None  # the SaslAuthenticate request in progress; None for a raw token
        self._fault = ""  # the reason that a re-authentication fails for at its first token
        self._begun_ms: float | None = None  # when the last re-authentication began

    @property
    def is_delayed(self) -> bool:
        """Whether the events end with a `RunComputation` or a `Close`, and no frame is due."""
        return self.state is SaslState.COMPUTING or self.state is SaslState.FAILED

    @property
    def max_frame_bytes(self) -> int | None:
        """The limit on a frame until the end of a login; None if the limit of other requests applies."""
        return None if self.state is SaslState.COMPLETE else self._listener.max_receive_bytes

    def refuse_size(self, size: int) -> list[SaslEvent]:
        """A frame claims a size that is negative or above the limit."""
        limit = self._listener.max_receive_bytes
        return self._failed(_Failure(f"a frame of {size} bytes came before authentication; the limit is {limit}"))

    def takes(self, frame: memoryview) -> bool:
        """Whether `receive` has to get a frame of an authenticated connection: the others are for dispatch.

        Without `session_expires_ms` no frame is: the caller need not ask.
        """
        if self.state is not SaslState.COMPLETE:
            return True
        if self.session_expires_ms is None:
            return False
        return self._begins_renewal(frame) or self._clock.monotonic_ms() > self.session_expires_ms

    def receive(self, frame: memoryview) -> list[SaslEvent]:
        """Take a frame, without its size prefix. The frame's buffer may be reused after the call.

        No call may follow a `Close`, nor a `RunComputation` before `resume`.
        """
        assert not self.is_delayed, f"no frame is due in {self.state}"
        try:
            if self.state is SaslState.COMPLETE:
                return self._receive_on_session(frame)
            if self.state is SaslState.TOKENS:
                return self._receive_token(frame)
            return self._receive_request(frame)
        except _Failure as failure:
            return self._failed(failure)

    def resume(self, result: object) -> list[SaslEvent]:
        """Take the result of a computation: a step, or the exception that `run` has raised."""
        assert self.state is SaslState.COMPUTING, f"no computation runs in {self.state}"
        self.state = SaslState.TOKENS
        try:
            return self._go_on(self._checked(result))
        except _Failure as failure:
            return self._failed(failure)

    def _checked(self, result: object) -> SaslStep:
        if isinstance(result, AuthenticationFailed):
            self._refuse(result)
        if isinstance(result, Exception):
            raise _Failure(f"authentication by {self._mechanism} met a fault: {result!r}", is_late=False)
        return cast("SaslStep", result)

    # Requests before the choice of a mechanism

    def _receive_request(self, frame: memoryview) -> list[SaslEvent]:
        try:
            header, position = _read_header(frame)
        except MalformedRequest as error:
            if self.state is SaslState.INITIAL:
                return self._receive_first_token(frame)
            raise _Failure(f"a frame before authentication is no request: {error}", is_late=False) from error
        if self.state is SaslState.INITIAL:
            self.state = SaslState.VERSIONS
        if header.api_key == ApiVersionsRequest.api_key:
            return self._receive_api_versions(frame, header, position)
        if header.api_key == SaslHandshakeRequest.api_key:
            return self._receive_handshake(frame, header, position)
        raise _Failure(
            f"Unexpected Kafka request of type {_name(header.api_key)} during SASL handshake.", is_late=False
        )

    def _receive_first_token(self, frame: memoryview) -> list[SaslEvent]:
        """Take the first frame of a client of Kafka 0.9, which begins with a GSSAPI token."""
        if GSSAPI not in self._listener.mechanisms:
            reason = "the first frame is no request of Kafka, and the mechanism GSSAPI is not enabled"
            raise _Failure(reason, is_late=False)
        self._choose(GSSAPI, has_headers=False)
        return self._receive_token(frame)

    def _receive_api_versions(self, frame: memoryview, header: RequestHeader, position: int) -> list[SaslEvent]:
        if self.state is not SaslState.VERSIONS:
            raise _Failure("a second ApiVersions request came before authentication", is_late=False)
        version = header.api_version
        if version not in ApiVersionsRequest.versions:
            return [SendReply(_reply(header._replace(api_version=0), self._answer_api_versions(None, version)))]
        request = _read(ApiVersionsRequest, frame, header, position)
        try:
            response = self._answer_api_versions(request, version)
        except KafkaError as error:
            response = request.error_response(version, error.code, error.message)
        else:
            self.state = SaslState.HANDSHAKE
        return [SendReply(_reply(header, response))]

    def _receive_handshake(self, frame: memoryview, header: RequestHeader, position: int) -> list[SaslEvent]:
        mechanism = _read(SaslHandshakeRequest, frame, header, position).mechanism
        names = self._listener.names
        if mechanism not in self._listener.mechanisms:
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            raise _Failure(f"Unsupported SASL mechanism {mechanism[:80]!r}", _reply(header, response))
        if self._session is not None and self._session.mechanism != mechanism:
            self._fault = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._session.mechanism}'"
            )
            self.state = SaslState.TOKENS
        else:
            self._choose(mechanism, has_headers=self._has_headers or header.api_version >= 1)
        return [SendReply(_reply(header, SaslHandshakeResponse(mechanisms=names)))]

    def _choose(self, mechanism: str, *, has_headers: bool) -> None:
        self._mechanism, self._has_headers, self._fault = mechanism, has_headers, ""
        self._exchange = self._listener.mechanisms[mechanism]()
        self.state = SaslState.TOKENS

    # Tokens

    def _receive_token(self, frame: memoryview) -> list[SaslEvent]:
        if self._fault:
            raise _Failure(self._fault)
        token = self._read_authenticate(frame) if self._has_headers else frame.tobytes()
        assert self._exchange is not None, "chosen before the first token"
        try:
            step = self._exchange.step(token)
        except AuthenticationFailed as failure:
            self._refuse(failure)
        return self._go_on(step)

    def _read_authenticate(self, frame: memoryview) -> bytes:
        """Return the token of a SaslAuthenticate request, and keep the header for the answer."""
        try:
            header, position = _read_header(frame)
        except MalformedRequest as error:
            raise _Failure(f"a frame during authentication is no request: {error}", is_late=False) from error
        if header.api_key != SaslAuthenticateRequest.api_key:
            raise _Failure(
                f"Unexpected Kafka request of type {_name(header.api_key)} during SASL authentication.",
                _unexpected(frame, header, position),
            )
        self._request = header
        return bytes(_read(SaslAuthenticateRequest, frame, header, position).auth_bytes)

    def _go_on(self, step: SaslStep) -> list[SaslEvent]:
        if isinstance(step, SaslComputation):
            self.state = SaslState.COMPUTING
            return [RunComputation(step.run)]
        if isinstance(step, Challenge):
            return [SendReply(self._token_reply(step.token, 0))]
        return self._complete(step)

    def _complete(self, login: Authenticated) -> list[SaslEvent]:
        principal, before = f"User:{login.name}", self._session
        if before is not None and before.principal != principal:
            message = "Cannot change principals during re-authentication from "
            message += f"{before.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            self._refuse(AuthenticationFailed(message, client_message=message))
        lifetime_ms = self._lifetime_ms(login.expires_at_ms)
        self.session_expires_ms = None if lifetime_ms is None else self._clock.monotonic_ms() + lifetime_ms
        has_reply = self._request is not None or login.token or self._mechanism != GSSAPI
        reply = [SendReply(self._token_reply(login.token, lifetime_ms or 0))] if has_reply else []
        self._session, self._exchange, self.state = SaslSession(principal, self._mechanism), None, SaslState.COMPLETE
        by_token = login.is_by_delegation_token
        event = LoggedIn(principal, self._mechanism, self.session_expires_ms, by_token, before is not None)
        return [*reply, event]

    def _lifetime_ms(self, expires_at_ms: int | None) -> int | None:
        """How long the session may last: the shorter of the setting and of the rest of the credential's life."""
        limits = [] if expires_at_ms is None else [expires_at_ms - self._clock.now_ms()]
        max_reauth_ms = self._listener.max_reauth_ms.get(self._mechanism, 0)
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        return max(0, min(limits)) if limits else None

    def _token_reply(self, token: bytes, lifetime_ms: int) -> bytes:
        header, self._request = self._request, None
        if header is None:
            return len(token).to_bytes(_SIZE_BYTES, "big") + token
        return _reply(header, SaslAuthenticateResponse(0, "", token, lifetime_ms))

    def _refuse(self, failure: AuthenticationFailed) -> NoReturn:
        """Raise the end of a login. Only a client with SaslAuthenticate learns the reason, if it may."""
        header, self._request = self._request, None
        if failure.is_retriable or (header is None and failure.client_message is None):
            raise _Failure(str(failure), is_late=False) from failure
        reply = b""
        if header is not None:
            attempt = "authentication" if self._session is None else "re-authentication"
            general = f"Authentication failed during {attempt} due to invalid credentials with SASL mechanism "
            message = failure.client_message or general + self._mechanism
            response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"", 0)
            reply = _reply(header, response)
        raise _Failure(f"{self._mechanism}: {failure}", reply, user=failure.user) from failure

    def _failed(self, failure: _Failure) -> list[SaslEvent]:
        self.state, self._exchange = SaslState.FAILED, None
        delay_ms = self._listener.failure_delay_ms if failure.is_late else 0
        return [Close(str(failure), failure.last_reply if failure.is_late else b"", delay_ms, failure.user)]

    # Sessions

    def _begins_renewal(self, frame: memoryview) -> bool:
        if not _is_handshake(frame):
            return False
        began_ms = self._begun_ms
        return began_ms is None or self._clock.monotonic_ms() - began_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    def _receive_on_session(self, frame: memoryview) -> list[SaslEvent]:
        assert self._session is not None, "set at the end of the login"
        if not self._begins_renewal(frame):
            raise _Failure(f"the session of {self._session.principal} has expired", is_late=False)
        self._begun_ms = self._clock.monotonic_ms()
        self._has_headers = False
        self.state = SaslState.HANDSHAKE
        return self._receive_request(frame)


def _read_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Read the header of a request that Kafka knows. Raises MalformedRequest."""
    api_key, version, correlation_id, client_id, position = read_request_header(frame)
    if api_key not in registry.APIS:
        raise MalformedRequest(f"Unknown API key {api_key}")
    return RequestHeader(api_key, version, correlation_id, client_id), position


def _read(message: type[M], frame: memoryview, header: RequestHeader, position: int) -> M:
    if header.api_version not in message.versions:
        wanted = f"{_name(header.api_key)} version {header.api_version}"
        raise _Failure(f"{wanted} is not supported", is_late=False)
    try:
        request, _ = compiler.read(message, header.api_version, frame, position)
    except MalformedRequest as error:
        raise _Failure(f"a {_name(header.api_key)} request cannot be read: {error}", is_late=False) from error
    return request


def _reply(header: RequestHeader, response: Message) -> bytes:
    """The bytes of a response, with their size."""
    out = bytearray(_SIZE_BYTES)
    write_response_header(out, header.correlation_id, header.api_key, header.api_version)
    compiler.write(response, header.api_version, out, [])
    out[:_SIZE_BYTES] = (len(out) - _SIZE_BYTES).to_bytes(_SIZE_BYTES, "big")
    return bytes(out)


def _unexpected(frame: memoryview, header: RequestHeader, position: int) -> bytes:
    """The reply to a request in place of SaslAuthenticate: only ApiVersions and SaslHandshake are parsed for one."""
    for message in (ApiVersionsRequest, SaslHandshakeRequest):
        if header.api_key == message.api_key:
            request = _read(message, frame, header, position)
            return _reply(header, request.error_response(header.api_version, ErrorCode.ILLEGAL_SASL_STATE))
    return b""


def _is_handshake(frame: memoryview) -> bool:
    return len(frame) >= 2 and int.from_bytes(frame[:2], "big") == SaslHandshakeRequest.api_key


def _name(api_key: int) -> str:
    api = registry.APIS.get(api_key)
    return str(api_key) if api is None else api.name


__all__: Sequence[str] = (
    "ApiVersionsAnswer",
    "Close",
    "LoggedIn",
    "RunComputation",
    "SaslEvent",
    "SaslListener",
    "SaslServerExchange",
    "SaslState",
    "SendReply",
)
