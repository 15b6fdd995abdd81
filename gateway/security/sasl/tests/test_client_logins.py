"""The client's side of SASL logs in at the broker's side: each mechanism, refusals and renewals, without a socket."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.security.sasl.tests import sasl_scenario as scenario
from headgate.gateway.security.sasl.tests.exchanges import Connected, FakeClock, listener
from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.schema import Versions
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.security.sasl.client_seams import system
from headgate.protocol.security.sasl.client_tokens import LoginFailed
from headgate.protocol.security.sasl.login import LoginSession

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES = "org.apache.kafka.common.security"


def security_of(mechanism: str, clock: FakeClock, user: str = "alice", password: str = "") -> ClientSecurity:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    options = f'username="{user}" password="{password or scenario.PLAIN_USERS["alice"]}"'
    if mechanism == "OAUTHBEARER":
        module, options = "oauthbearer.OAuthBearerLoginModule", f'unsecuredLoginStringClaim_sub="{user}"'
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_MODULES}.{module} required {options};",
    }
    return ClientSecurity.of_properties(properties, system()._replace(now_ms=clock.now_ms))


class LoginClient:
    """A client over a connection to a listener of the scenario."""

    def __init__(self, clock: FakeClock, name: str = scenario.SASL) -> None:
        self.server = Connected(listener(clock, name), clock)
        self.peer = ClientConnection()
        self.peer.served_versions = {17: Versions(0, 1), 36: Versions(0, 2)}

    def run(self, exchange: Exchange[LoginSession]) -> LoginSession:
        answer: Any = None
        try:
            while True:
                request, version = exchange.send(answer)
                reply = self.server.send(self.peer.request(request, version)).reply
                assert reply is not None, "the broker closes the connection"
                ((_, answer),) = self.peer.receive(reply)
        except StopIteration as end:
            session: LoginSession = end.value
            return session


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_logs_in_by_each_mechanism(mechanism: str) -> None:
    clock = FakeClock()
    client = LoginClient(clock)
    client.run(security_of(mechanism, clock).log_in(client.peer, "host"))
    (login,) = client.server.logins
    assert login.principal == "User:alice"


def test_a_name_with_signs_of_scram_logs_in() -> None:
    clock = FakeClock()
    client = LoginClient(clock)
    client.run(security_of("SCRAM-SHA-256", clock, "a,b=c", "secret").log_in(client.peer, "host"))
    assert client.server.logins[0].principal == "User:a,b=c"


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_a_wrong_password_gets_the_brokers_sentence(mechanism: str) -> None:
    clock = FakeClock()
    client = LoginClient(clock)
    with pytest.raises(LoginFailed, match=f"the broker refuses the login by {mechanism}: ") as refused:
        client.run(security_of(mechanism, clock, password="no such word").log_in(client.peer, "host"))
    assert "no such word" not in str(refused.value)


def test_a_mechanism_that_is_not_offered_is_named() -> None:
    clock = FakeClock()
    client, whole = LoginClient(clock), listener(clock)
    offered = {name: begin for name, begin in whole.mechanisms.items() if name != "PLAIN"}
    client.server = Connected(whole._replace(mechanisms=offered), clock)
    with pytest.raises(LoginFailed, match="the broker offers OAUTHBEARER, SCRAM-SHA-256, SCRAM-SHA-512, not PLAIN"):
        client.run(security_of("PLAIN", clock).log_in(client.peer, "host"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_session_is_renewed_before_its_end(mechanism: str) -> None:
    clock = FakeClock()
    client = LoginClient(clock, scenario.RENEWED)
    security = security_of(mechanism, clock)
    for _ in range(3):
        session = client.run(security.log_in(client.peer, "host"))
        assert session.lifetime_ms == scenario.RENEWED_MS
        assert session.renew_after_ms is not None
        client.server.wait(session.renew_after_ms)
    assert {login.principal for login in client.server.logins} == {"User:alice"}
