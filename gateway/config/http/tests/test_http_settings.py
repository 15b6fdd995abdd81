"""The settings of the HTTP listeners, and their older names."""

from __future__ import annotations

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.http.http_addresses import HTTP, OLD_NAMES_NOTE, HttpAddress

LOOPBACK = HttpAddress("http", "127.0.0.1", 9644)
NEW = "headgate.http.listeners"
OLD = "headgate.metrics.listener"
JAAS = "plain.sasl.jaas.config"
METRICS_LISTENER = "listeners=METRICS://:9092\nlistener.security.protocol.map=METRICS:PLAINTEXT"


@pytest.mark.parametrize(
    "text, expected, is_wanted",
    [
        ("", (LOOPBACK,), False),
        (f"{NEW}=", (), True),
        (f"{OLD}=", (), True),
        (f"{NEW}=https://:1", (HttpAddress("https", "", 1),), True),
        (f"{OLD}=9404", (HttpAddress("http", "127.0.0.1", 9404),), True),
        (f"{OLD}=0.0.0.0:9404", (HttpAddress("https", "0.0.0.0", 9404),), True),
    ],
)
def test_http_is_served_where_one_of_the_names_says(
    text: str, expected: tuple[HttpAddress, ...], is_wanted: bool
) -> None:
    config = BrokerConfig.load(text)
    assert config.headgate_http_listeners == expected
    assert config.wants_http == is_wanted
    assert config.secures_http == any(address.has_tls for address in expected)


@pytest.mark.parametrize(
    "text, problem",
    [
        (f"{NEW}=x", f"server.properties line 1: {NEW}=x: 'x' is not http://host:port"),
        (f"{OLD}=x", f"server.properties line 1: {OLD}=x: 'x' is not host:port"),
        (f"{NEW}=\n{OLD}=9404", f"{OLD}=9404: it is the older name of {NEW}, which is set too; remove it"),
        (
            f"{NEW}=https://:1\nlisteners=HTTP://:2\nlistener.security.protocol.map=HTTP:PLAINTEXT",
            "give the listener HTTP another name",
        ),
        (
            f"{NEW}=https://:1\nlistener.name.metrics.ssl.keystore.type=PEM\nlistener.name.http.ssl.keystore.type=PEM",
            "it is the older name of listener.name.http.ssl.keystore.type, which is set too; remove it",
        ),
    ],
)
def test_what_cannot_be_served_is_one_problem(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(text)
    (only,) = refused.value.problems
    assert problem in only


def test_older_names_work_for_one_release_with_one_note() -> None:
    config = BrokerConfig.load(
        "",
        {
            OLD: "0.0.0.0:9404",
            "listener.name.metrics.ssl.keystore.type": "PEM",
            "listener.name.metrics.ssl.keystore.location": "/a.pem",
        },
    )
    assert config.listener_value(HTTP, "ssl.keystore.location") == "/a.pem"
    (note,) = config.notes()
    assert note.is_warning
    assert str(note) == f"override: {OLD}: {OLD_NAMES_NOTE}"
    assert [str(answer).endswith(OLD_NAMES_NOTE) for answer in config.answers] == [True] * 3


def test_the_present_name_wins_over_one_that_was_set_at_run_time() -> None:
    config = BrokerConfig.load(f"{NEW}=https://:1\nlistener.name.http.ssl.keystore.location=/new.pem")
    old = {"listener.name.metrics.ssl.keystore.location": "/old.pem"}
    assert config.with_dynamic({}, old).listener_value(HTTP, "ssl.keystore.location") == "/new.pem"
    config = BrokerConfig.load(f"{NEW}=https://:1")
    assert config.with_dynamic({}, old).listener_value(HTTP, "ssl.keystore.location") == "/old.pem"


def test_a_listener_of_clients_keeps_its_own_settings() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
    config = BrokerConfig.load(METRICS_LISTENER, {NEW: "https://:1", f"listener.name.metrics.{JAAS}": line})
    assert config.listener_value(HTTP, JAAS) is None
    assert config.listener_value("METRICS", JAAS).text == line
    assert not config.notes()
    assert BrokerConfig.load(METRICS_LISTENER, {OLD: "9404"}).notes()
