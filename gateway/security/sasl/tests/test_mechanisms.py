"""The mechanisms of a listener: what a start refuses, and the logins that settings allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from headgate.gateway.config.broker_table import MECHANISMS
from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, Challenge, SaslComputation
from headgate.gateway.security.sasl.gssapi import GssContext
from headgate.gateway.security.sasl.jwks import FetchFailed
from headgate.gateway.security.sasl.mechanisms import InvalidSaslSettings, SaslParts, check, make_listener
from headgate.gateway.security.sasl.settings import BearerSettings, SaslSettings
from headgate.gateway.security.sasl.tests.exchanges import CREDENTIALS, NOW_S, FakeClock
from headgate.gateway.security.sasl.tests.sasl_scenario import ScramClient, bearer, plain
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig
from headgate.protocol.security.secret import Secret

_KAFKA = "org.apache.kafka.common.security"
PLAIN = f'{_KAFKA}.plain.PlainLoginModule required user_ann="secret";'
BEARER = f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule required"
KERBEROS = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="kafka/h@R";'


def settings(*mechanisms: str, store: str = "jaas", unsecured: bool = False, url: str | None = None,
             rules: tuple[str, ...] = ("DEFAULT",), **lines: str) -> SaslSettings:  # fmt: skip
    """Settings of the listener OUT; `lines` by mechanism, with underscores."""
    jaas = {mechanism.replace("_", "-"): Secret(line) for mechanism, line in lines.items()}
    return SaslSettings("OUT", mechanisms, jaas, dict.fromkeys(mechanisms, 5), 1000, 7, store,
                        BearerSettings(url), unsecured, rules)  # fmt: skip


def unfetched(url: str) -> Callable[[], bytes]:
    def fetch() -> bytes:
        raise FetchFailed(url)

    return fetch


def no_kerberos(options: Mapping[str, str]) -> Callable[[], GssContext]:
    raise InvalidJaasConfig(f"no library for {options['principal']}")


PARTS = SaslParts(CREDENTIALS, lambda: "nonce", FakeClock(), unfetched, no_kerberos, lambda: "R")


@pytest.mark.parametrize(
    "wrong, problem",
    [
        (settings(), r"listener\.name\.out\.sasl\.enabled\.mechanisms: name a mechanism: PLAIN, SCRAM"),
        (settings("DIGEST-MD5"), "there is no mechanism 'DIGEST-MD5'; use PLAIN"),
        (settings("plain"), "there is no mechanism 'plain'"),
        (settings("PLAIN"), r"listener\.name\.out\.plain\.sasl\.jaas\.config is missing"),
        (settings("PLAIN", PLAIN=f"{_KAFKA}.plain.PlainLoginModule required;"), "no user can log in; add user_NAME"),
        (settings("PLAIN", PLAIN="com.example.Own required;"), r"com\.example\.Own is not supported"),
        (settings("GSSAPI"), r"listener\.name\.out\.gssapi\.sasl\.jaas\.config is missing"),
        (settings("GSSAPI", GSSAPI=KERBEROS, rules=("RULE:[1:$1",)), r"local\.rules: Invalid rule: RULE:\[1:\$1"),
        (settings("OAUTHBEARER"), r"sasl\.oauthbearer\.jwks\.endpoint\.url is missing: OAUTHBEARER needs the keys"),
        (settings("OAUTHBEARER", url="http://x/keys"), r"url=http://x/keys: write https://\.\.\."),
        (
            settings(
                "OAUTHBEARER", unsecured=True, OAUTHBEARER=f'{BEARER} unsecuredValidatorAllowableClockSkewMs="-1";'
            ),
            "unsecuredValidatorAllowableClockSkewMs is no whole number",
        ),
    ],
)
def test_settings_that_no_start_accepts(wrong: SaslSettings, problem: str) -> None:
    with pytest.raises(InvalidSaslSettings, match=problem):
        check(wrong)


def test_scram_and_a_store_of_scram_need_no_jaas_line() -> None:
    check(settings("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", store="scram"))


def test_a_listener_has_the_limits_of_its_settings() -> None:
    listener = make_listener(settings("SCRAM-SHA-256"), PARTS)
    assert (listener.max_reauth_ms, listener.failure_delay_ms, listener.max_receive_bytes) == (
        {"SCRAM-SHA-256": 5},
        7,
        1000,
    )
    assert listener.names == ["SCRAM-SHA-256"]


def test_users_of_the_jaas_line_log_in() -> None:
    listener = make_listener(settings("PLAIN", PLAIN=PLAIN), PARTS)
    assert listener.mechanisms["PLAIN"]().step(plain("ann", "secret")) == Authenticated("ann")


def test_users_with_scram_credentials_log_in_by_plain() -> None:
    listener = make_listener(settings("PLAIN", store="scram", PLAIN=PLAIN), PARTS)
    step = listener.mechanisms["PLAIN"]().step(plain("alice", "secret of alice"))
    assert isinstance(step, SaslComputation)
    assert step.run() == Authenticated("alice")
    with pytest.raises(AuthenticationFailed):
        listener.mechanisms["PLAIN"]().step(plain("ann", "secret")).run()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_login_is_an_exchange_of_its_own(name: str) -> None:
    new = make_listener(settings(name), PARTS).mechanisms[name]
    first, second = new(), new()
    assert isinstance(first.step(ScramClient("x").first()), Challenge)
    assert isinstance(second.step(ScramClient("x").first()), Challenge)


def test_unsecured_tokens_follow_the_options_of_the_jaas_line() -> None:
    line = f'{BEARER} unsecuredValidatorRequiredScope="a b" unsecuredValidatorPrincipalClaimName="who";'
    new = make_listener(settings("OAUTHBEARER", unsecured=True, OAUTHBEARER=line), PARTS).mechanisms["OAUTHBEARER"]
    claims: dict[str, object] = {"who": "ann", "exp": NOW_S + 9, "scope": ["a", "b"]}
    assert new().step(bearer(claims)) == Authenticated("ann", expires_at_ms=(NOW_S + 9) * 1000)
    refusal = new().step(bearer({**claims, "scope": ["a"]}))
    assert refusal == Challenge(b'{"status":"insufficient_scope", "scope":"a b"}')


def test_a_token_is_refused_while_there_are_no_keys() -> None:
    new = make_listener(settings("OAUTHBEARER", url="https://x/keys"), PARTS).mechanisms["OAUTHBEARER"]
    step = new().step(bearer({"sub": "ann", "exp": NOW_S + 9}, {"alg": "RS256"}))
    assert isinstance(step, SaslComputation)
    assert step.run() == Challenge(b'{"status":"invalid_token"}')


def test_a_missing_library_of_kerberos_stops_a_start() -> None:
    with pytest.raises(InvalidSaslSettings, match=r"gssapi\.sasl\.jaas\.config: no library for kafka/h@R"):
        make_listener(settings("GSSAPI", GSSAPI=KERBEROS), PARTS)


def test_every_mechanism_is_known_to_the_settings() -> None:
    check(settings(*MECHANISMS, unsecured=True, PLAIN=PLAIN, GSSAPI=KERBEROS))
