"""Whose login a visitor has."""

from __future__ import annotations

import pytest

from headgate.protocol.security.sasl import jaas
from headgate.tools.client.client import ClientError
from headgate.tools.console.cluster_access import MECHANISMS, MOST_CHARACTERS, ClusterAccess, jaas_line

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="console" password="x";'
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}


@pytest.mark.parametrize(
    "properties, is_loopback, is_lent",
    [
        ({}, True, True),
        ({}, False, False),
        (LOGIN, True, True),
        (LOGIN, False, False),
        ({"security.protocol": "SASL_PLAINTEXT"}, True, False),
    ],
)
def test_a_login_is_lent_on_the_loopback_interface_alone(
    properties: dict[str, str], is_loopback: bool, is_lent: bool
) -> None:
    assert (ClusterAccess("b:1", properties, is_loopback=is_loopback).lent is not None) == is_lent


def test_the_mechanism_of_the_properties_is_the_only_one() -> None:
    assert ClusterAccess("b:1", LOGIN, is_loopback=True).mechanisms == ("PLAIN",)
    assert ClusterAccess("b:1", {}, is_loopback=True).mechanisms == MECHANISMS


@pytest.mark.parametrize("text", ["plain", 'a"b', "a\\", 'x" username="root', "\r\n", "a'b; //", "ключ", "\\n\\101"])
def test_a_password_stays_a_text_of_the_line(text: str) -> None:
    entry = jaas.parse_for("PLAIN", jaas_line("PLAIN", text, text))
    assert entry.options == {"username": text, "password": text}
    assert jaas.parse_for("OAUTHBEARER", jaas_line("OAUTHBEARER", "", text)).options == {"token": text}


def test_no_login_is_tried_that_cannot_be_one() -> None:
    access = ClusterAccess("b:1", {}, is_loopback=True)
    with pytest.raises(ClientError, match="the mechanism is one of SCRAM-SHA-512"):
        access.log_in("GSSAPI", "a", "b")
    with pytest.raises(ClientError, match="at most 16384 characters"):
        access.log_in("PLAIN", "a", "b" * (MOST_CHARACTERS + 1))
    with pytest.raises(ClientError, match="username"):
        access.log_in("PLAIN", "", "b")
