"""Names of client properties: Kafka's are known, others are refused with the nearest."""

from __future__ import annotations

import pytest

from headgate.protocol.security.client_properties import BEARER_SETTINGS, TLS_SETTINGS, problems


def test_names_of_other_purposes_are_of_no_interest() -> None:
    assert not list(problems({"bootstrap.servers": "a:1", "group.id": "g", "anything": "x", "sslx": "y"}))


def test_settings_with_an_effect_are_those_of_clients() -> None:
    assert not list(problems(dict.fromkeys((*TLS_SETTINGS, *BEARER_SETTINGS), "x")))
    assert "ssl.client.auth" not in TLS_SETTINGS


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("ssl.truststore.locaton", "the nearest name is ssl.truststore.location"),
        ("sasl.jaas_config", "the nearest name is sasl.jaas.config"),
        ("ssl.ca.location", "in Kafka's words it is ssl.truststore.location"),
        ("sasl.username", "in Kafka's words it is sasl.jaas.config"),
        ("ssl.client.auth", "is no setting of clients"),
        ("security.protokol", "the nearest name is security.protocol"),
        ("sasl." + "x" * 5000, "is no setting of clients; remove it"),
        ("ssl.engine.factory.class", "names a class of Java"),
        ("config.providers", "is not read in client properties; write the values"),
        ("sasl.oauthbearer.assertion.file", "is not supported; use client credentials"),
    ],
)
def test_an_unknown_name_is_refused_with_its_cure(name: str, sentence: str) -> None:
    (problem,) = problems({name: "hush"})
    assert sentence in problem
    assert len(problem) < 300
    assert "hush" not in problem


def test_classes_of_kafka_itself_are_accepted() -> None:
    base = "org.apache.kafka.common.security.oauthbearer"
    assert not list(
        problems(
            {
                "sasl.login.callback.handler.class": f"{base}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.jwt.retriever.class": f"{base}.FileJwtRetriever",
                "ssl.provider": "",
            }
        )
    )
    assert len(list(problems({"sasl.oauthbearer.jwt.retriever.class": f"{base}.JwtBearerJwtRetriever"}))) == 1
