"""Quotas in the configs of users, clients and addresses, as Kafka writes them. The nodes: `test_recordings`."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.layout.configs import ConfigEntity
from headgate.gateway.zookeeper.layout.quotas import (
    config_entity,
    format_quota,
    invalid_quotas,
    quota_entity,
    quotas_in,
    with_quotas,
)
from headgate.protocol.security.quotas import QuotaEntity

USER, ADDRESS = ConfigEntity("users", "ann"), ConfigEntity("ips", "192.0.2.1")


@pytest.mark.parametrize(
    "names, path",
    [
        ({"user": "CN=ä,O=*"}, "users/CN%3D%C3%A4%2CO%3D%2A"),
        ({"user": None}, "users/<default>"),
        ({"client-id": "an app/1"}, "clients/an%20app%2F1"),
        ({"client-id": None}, "clients/<default>"),
        ({"user": "ann", "client-id": "app"}, "users/ann/clients/app"),
        ({"user": None, "client-id": None}, "users/<default>/clients/<default>"),
        ({"user": "<default>", "client-id": "a~b"}, "users/%3Cdefault%3E/clients/a%7Eb"),
        ({"ip": "2001:db8::1"}, "ips/2001:db8::1"),
        ({"ip": None}, "ips/<default>"),
    ],
)
def test_each_owner_has_kafkas_path(names: dict[str, str | None], path: str) -> None:
    owner = QuotaEntity.of(names)
    assert config_entity(owner).entity_path == path
    assert quota_entity(ConfigEntity.of(path)) == owner


def test_an_owner_that_kafka_does_not_have_has_no_node() -> None:
    with pytest.raises(ValueError, match="no node"):
        config_entity(QuotaEntity.of({"ip": None, "user": "ann"}))


def test_only_valid_quotas_of_the_type_are_read() -> None:
    configs = {"producer_byte_rate": "5", "request_percentage": "0.5", "consumer_byte_rate": "-1", "SCRAM-SHA-256": "x"}
    assert quotas_in(USER, configs) == {"producer_byte_rate": 5.0, "request_percentage": 0.5}
    assert list(invalid_quotas(USER, configs)) == ["consumer_byte_rate"]
    assert quotas_in(ADDRESS, configs | {"connection_creation_rate": "7"}) == {"connection_creation_rate": 7.0}
    assert quotas_in(USER, {"producer_byte_rate": "nan", "consumer_byte_rate": "1e999"}) == {}


def test_other_configs_of_a_node_stay() -> None:
    configs = {"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "5.0", "consumer_byte_rate": "6"}
    old = {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    assert with_quotas(configs, old, {"producer_byte_rate": 5.0, "request_percentage": 2.0}) == {
        "SCRAM-SHA-256": "salt=x",
        "producer_byte_rate": "5.0",
        "request_percentage": "2.0",
    }
    assert with_quotas(configs, old, {}) == {"SCRAM-SHA-256": "salt=x"}


@pytest.mark.parametrize(
    "key, value, text",
    [
        ("producer_byte_rate", 1000.0, "1000"),
        ("producer_byte_rate", 2.9999999, "3"),
        ("producer_byte_rate", 2.0**63, "9223372036854775807"),
        ("connection_creation_rate", 10.0, "10"),
        ("request_percentage", 5.0, "5.0"),
        ("request_percentage", 12.5, "12.5"),
        ("request_percentage", 9999999.5, "9999999.5"),
        ("request_percentage", 12345678.5, "1.23456785E7"),
        ("request_percentage", 1e7, "1.0E7"),
        ("controller_mutation_rate", 0.0005, "5.0E-4"),
        ("controller_mutation_rate", 1e300, "1.0E300"),
    ],
)
def test_a_number_is_written_as_by_java(key: str, value: float, text: str) -> None:
    assert format_quota(key, value) == text
    assert float(text) == pytest.approx(value)
