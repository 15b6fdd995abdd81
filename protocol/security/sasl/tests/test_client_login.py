"""Logins from JAAS lines: the options of each mechanism, and a sentence for each that is missing."""

from __future__ import annotations

import pytest

from headgate.protocol.security.sasl.client_login import InvalidLogin, make_login
from headgate.protocol.security.sasl.client_seams import ClientSeams, system
from headgate.protocol.security.secret import Secret

SECURITY = "org.apache.kafka.common.security"
USER = 'username="alice" password="hush"'
SEAMS = system()._replace(new_nonce=lambda: "abc")


def first(mechanism: str, line: str, settings: dict[str, str] | None = None, seams: ClientSeams = SEAMS) -> bytes:
    return next(make_login(mechanism, Secret(line), settings or {}, seams).begin("host"))


def test_each_mechanism_reads_its_options() -> None:
    assert first("PLAIN", f"{SECURITY}.plain.PlainLoginModule required {USER};") == b"\0alice\0hush"
    scram = f"{SECURITY}.scram.ScramLoginModule required {USER}"
    assert first("SCRAM-SHA-256", f"{scram};") == b"n,,n=alice,r=abc"
    assert first("SCRAM-SHA-512", f'{scram} tokenauth="true";') == b"n,,n=alice,r=abc,tokenauth=true"
    bearer = f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required token="a.b." extension_tenant="x y";'
    assert first("OAUTHBEARER", bearer) == b"n,,\x01auth=Bearer a.b.\x01tenant=x y\x01\x01"


@pytest.mark.parametrize(
    "mechanism, line, sentence",
    [
        ("plain", "", "sasl.mechanism=plain does not exist; use one of PLAIN, SCRAM-SHA-256"),
        ("PLAIN", " ", 'sasl.jaas.config is missing; write .*PlainLoginModule required username="NAME" password='),
        ("GSSAPI", "", r"write com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"),
        ("OAUTHBEARER", "", r"OAuthBearerLoginModule required;"),
        ("PLAIN", f"{SECURITY}.plain.PlainLoginModule required {USER}", "sasl.jaas.config: .*semi-colon"),
        ("PLAIN", f"{SECURITY}.scram.ScramLoginModule required {USER};", "is not for PLAIN; use "),
        ("PLAIN", f'{SECURITY}.plain.PlainLoginModule required username="a";', "the option password is missing"),
        ("PLAIN", f'{SECURITY}.plain.PlainLoginModule required username="a" password="\\0";', "has a zero character"),
        ("OAUTHBEARER", f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;", "OAUTHBEARER has no token"),
        (
            "OAUTHBEARER",
            f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required token="hush" extension_auth="x";',
            "the option extension_auth needs letters",
        ),
        (
            "OAUTHBEARER",
            f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required token="hush" extension_a="\\001";',
            "the option extension_a has characters other than printable ASCII",
        ),
        ("GSSAPI", "com.sun.security.auth.module.Krb5LoginModule required;", "sasl.kerberos.service.name is missing"),
    ],
)
def test_what_is_missing_is_named_without_a_secret(mechanism: str, line: str, sentence: str) -> None:
    with pytest.raises(InvalidLogin, match=sentence) as refused:
        make_login(mechanism, Secret(line), {}, SEAMS)
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_names_of_the_service_must_agree() -> None:
    line = Secret('com.sun.security.auth.module.Krb5LoginModule required serviceName="a";')
    with pytest.raises(InvalidLogin, match=r"sasl\.kerberos\.service\.name and serviceName of sasl.jaas.config differ"):
        make_login("GSSAPI", line, {"sasl.kerberos.service.name": "b"}, SEAMS)
