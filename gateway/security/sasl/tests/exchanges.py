"""A listener with every mechanism, and connections to it without a socket: the users are those of `sasl_scenario`."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.security.sasl.bearer_tokens import UnsecuredRules, UnsecuredTokens
from headgate.gateway.security.sasl.exchange import AuthenticationFailed, SaslExchange
from headgate.gateway.security.sasl.oauthbearer import OAuthBearerExchange
from headgate.gateway.security.sasl.plain import JaasUsers, PasswordStore, PlainExchange
from headgate.gateway.security.sasl.scram import ScramExchange
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials, UserCredentials
from headgate.gateway.security.sasl.server_exchange import (
    Close,
    LoggedIn,
    RunComputation,
    SaslEvent,
    SaslListener,
    SaslServerExchange,
    SaslState,
    SendReply,
)
from headgate.gateway.security.sasl.tests import sasl_scenario as scenario
from headgate.gateway.security.sasl.tests.sasl_scenario import Answer
from headgate.protocol import compiler
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.header import read_request_header, write_response_header
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeResponse
from headgate.protocol.schema import Message
from headgate.protocol.security.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential, ScramMechanism, credential_of

NOW_S = 1_700_000_000


class FakeClock:
    """Both readings, in milliseconds; a test moves them."""

    def __init__(self) -> None:
        self.time_ms = NOW_S * 1000

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> float:
        return float(self.time_ms - NOW_S * 1000)


SALT = b"a salt of the tests"


def made_credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), SALT, iterations)
    return credential_of(mechanism, salted, SALT, iterations)


SCRAM_USERS: UserCredentials = {
    name: {
        mechanism: made_credential(mechanism, password)
        for mechanism in ScramMechanism
        if name == "alice" or mechanism is ScramMechanism.SCRAM_SHA_256
    }
    for name, password in scenario.SCRAM_USERS.items()
}
CREDENTIALS = ScramCredentials(lambda: SCRAM_USERS, b"decoys")


class GuessedDecoys(ScramCredentials):
    """Credentials whose decoys have the password `guessed`: an unknown user must not log in even so."""

    def decoy(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        return made_credential(mechanism, "guessed")


GUESSED = GuessedDecoys(lambda: SCRAM_USERS, b"")
NOTHING_MORE: Mapping[str, Callable[[], SaslExchange]] = {}


def listener(
    clock: Clock,
    name: str = scenario.SASL,
    passwords: PasswordStore | None = None,
    more: Mapping[str, Callable[[], SaslExchange]] = NOTHING_MORE,
) -> SaslListener:
    """A listener of the scenario, with more mechanisms by name."""
    nonces = count()
    max_reauth_ms = {scenario.RENEWED: scenario.RENEWED_MS, scenario.SHORT: scenario.SHORT_MS}.get(name, 0)
    mechanisms: dict[str, Callable[[], SaslExchange]] = {
        "PLAIN": lambda: PlainExchange(passwords or JaasUsers(scenario.PLAIN_USERS)),
        "OAUTHBEARER": lambda: OAuthBearerExchange(UnsecuredTokens(UnsecuredRules(), clock.now_ms)),
        **{
            name: partial(ScramExchange, mechanism, CREDENTIALS, lambda: f"nonce{next(nonces)}")
            for name, mechanism in SCRAM_MECHANISMS.items()
        },
        **more,
    }
    return SaslListener(mechanisms, dict.fromkeys(mechanisms, max_reauth_ms), scenario.DELAY_MS)


def api_versions(request: ApiVersionsRequest | None, version: int) -> Message:
    apis = [ApiVersion(18, 0, 5)]
    if request is None:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=apis)
    if version >= 3 and request.client_software_name == "-":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=apis)


class Connected:
    """A connection to a listener: a `Peer`. Threads' work ends at once."""

    def __init__(self, listener: SaslListener, clock: FakeClock) -> None:
        self.clock = clock
        self.exchange = SaslServerExchange(listener, api_versions, clock)
        self.logins: list[LoggedIn] = []
        self.closes: list[Close] = []

    def wait(self, wait_ms: int) -> None:
        self.clock.time_ms += wait_ms

    def send(self, data: bytes) -> Answer:
        """Take a frame with its size, or a size alone that is too large."""
        if self.closes:
            return Answer(None, True, False)
        (size,) = struct.unpack_from(">i", data)
        limit = self.exchange.max_frame_bytes
        if limit is not None and not 0 <= size <= limit:
            return self.answer(self.exchange.refuse_size(size))
        frame = memoryview(bytearray(data[4:]))
        if not self.exchange.takes(frame):
            try:
                return Answer(dispatched(frame), False, False)
            except MalformedRequest:
                return Answer(None, True, False)
        answer = self.answer(self.exchange.receive(frame))
        frame[:] = bytes(len(frame))  # the driver uses the buffer again
        return answer

    def answer(self, events: list[SaslEvent]) -> Answer:
        replies = b""
        while events:
            event = events.pop(0)
            if isinstance(event, SendReply):
                replies += event.data
            elif isinstance(event, LoggedIn):
                self.logins.append(event)
            elif isinstance(event, RunComputation):
                assert not events
                events = self.exchange.resume(_result(event))
            else:
                assert not events
                assert not replies
                self.closes.append(event)
                return Answer(event.last_reply or None, True, event.delay_ms > 0)
        assert self.exchange.state is not SaslState.FAILED
        return Answer(replies or None, False, False)


def _result(event: RunComputation) -> object:
    try:
        return event.run()
    except AuthenticationFailed as error:
        return error


def dispatched(frame: memoryview) -> bytes:
    """The reply of the dispatcher, which serves authenticated connections."""
    key, version, number, _, _ = read_request_header(frame)
    out = bytearray(4)
    write_response_header(out, number, key, version)
    responses: dict[int, Message] = {
        17: SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE),
        18: ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 5)]),
        36: SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        ),
    }
    if key in responses:
        compiler.write(responses[key], version, out, [])
    return struct.pack(">i", len(out) - 4) + out[4:]
