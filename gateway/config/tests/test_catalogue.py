"""The tables: complete, consistent, and found by name."""

from typing import get_type_hints

import pytest

from headgate.gateway.config import broker_table, catalogue, group_config, topic_table, unsupported_table
from headgate.gateway.config.definition import Effect, Type
from headgate.protocol.security.secret import Secret


def test_every_default_is_allowed() -> None:
    for definition in [*catalogue.BROKER.values(), *catalogue.TOPIC.values()]:
        if definition.default is not None:
            definition.parse(definition.default)


def test_every_setting_has_a_meaning_and_stands_once() -> None:
    names = [row[0] for row in broker_table.ROWS]
    assert len(set(names)) == len(names)
    assert all(row[4].endswith(".") for row in broker_table.ROWS)
    foreign = [
        start + catalogue.parse_row(row, "")[0].name
        for _, start, rest in unsupported_table.GROUPS
        for row in rest.split()
    ]
    assert len(set(foreign)) == len(foreign)
    assert not set(foreign) & set(names)
    refused = [catalogue.parse_row(row, "")[0].name for row in unsupported_table.REFUSED]
    assert not set(refused) & {*names, *foreign}


def test_every_default_without_effect_is_allowed() -> None:
    for definition in [
        *catalogue.known().values(),
        *catalogue.UNSUPPORTED_TOPIC.values(),
        *group_config.UNSUPPORTED.values(),
    ]:
        if definition.default is not None and definition.effect is not Effect.REFUSED:
            definition.parse(definition.default)


def test_what_is_changed_at_run_time_is_a_setting() -> None:
    assert set(catalogue.BROKER) >= broker_table.CLUSTER_WIDE
    assert set(catalogue.known()) - set(catalogue.BROKER) >= unsupported_table.CLUSTER_WIDE
    assert catalogue.is_dynamic("message.max.bytes")
    assert catalogue.is_dynamic("num.io.threads")
    assert not catalogue.is_dynamic("num.partitions")
    assert not catalogue.is_dynamic("listeners")


def test_attributes_are_declared_with_the_types_of_the_table() -> None:
    declared = get_type_hints(broker_table.Settings)
    assert list(declared) == [name.replace(".", "_") for name in catalogue.BROKER]
    plain = {
        Type.BOOLEAN: bool,
        Type.STRING: str,
        Type.DOUBLE: float,
        Type.LIST: tuple[str, ...],
        Type.PASSWORD: Secret,
    }
    parsed = {
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "headgate.offsets.store",
        "headgate.http.listeners",
        "headgate.console.listeners",
        "headgate.console.write",
        "headgate.metrics.listener",
        "node.id",
        "super.users",
    }
    for name, definition in catalogue.BROKER.items():
        if name not in parsed:
            expected = plain.get(definition.type, int)
            assert declared[name.replace(".", "_")] == (
                expected if definition.default is not None else expected | None
            ), name


def test_topic_settings_default_to_their_synonyms_in_their_own_unit() -> None:
    assert catalogue.TOPIC["retention.ms"].default == "604800000"
    assert catalogue.TOPIC["segment.ms"].default == "604800000"
    assert catalogue.TOPIC["segment.jitter.ms"].default == "0"
    assert catalogue.TOPIC["flush.ms"].default == "9223372036854775807"
    assert catalogue.TOPIC["max.message.bytes"].default == "1048588"
    assert not set(catalogue.UNSUPPORTED_TOPIC) & set(catalogue.TOPIC)
    assert set(catalogue.UNSUPPORTED_TOPIC) >= {*topic_table.REFUSED, *topic_table.REPLICA_LISTS}


@pytest.mark.parametrize(
    "name, effect",
    [
        ("num.partitions", Effect.FULL),
        ("replica.high.watermark.checkpoint.interval.ms", Effect.FULL),
        ("group.max.size", Effect.FULL),
        ("transaction.max.timeout.ms", Effect.FULL),
        ("transactional.id.expiration.ms", Effect.FULL),
        ("transaction.two.phase.commit.enable", Effect.PENDING),
        ("replica.fetch.max.bytes", Effect.FULL),
        ("replica.socket.timeout.ms", Effect.FULL),
        ("replica.socket.receive.buffer.bytes", Effect.PENDING),
        ("num.io.threads", Effect.NONE),
        ("ssl.keystore.password", Effect.FULL),
        ("rsm.config.bucket", Effect.NONE),
        ("listener.name.internal.ssl.keystore.location", Effect.FULL),
        ("listener.name.internal.headgate.ssl.optional", Effect.FULL),
        ("listener.name.internal.plain.ssl.keystore.location", Effect.NONE),
        ("ssl.provider", Effect.NONE),
        ("ssl.engine.factory.class", Effect.REFUSED),
        ("listener.name.internal.headgate.fetch.isolation.default", Effect.FULL),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", Effect.FULL),
        ("listener.name.internal.SCRAM-SHA-256.sasl.jaas.config", Effect.NONE),
        ("listener.name.internal.digest-md5.sasl.jaas.config", Effect.NONE),
        ("listener.name.internal.sasl.jaas.config", Effect.NONE),
        ("sasl.jaas.config", Effect.NONE),
        ("listener.name.internal.plain.connections.max.reauth.ms", Effect.FULL),
        ("listener.name.internal.plain.sasl.oauthbearer.expected.issuer", Effect.NONE),
        ("listener.name.internal.oauthbearer.sasl.oauthbearer.expected.issuer", Effect.FULL),
        ("listener.name.internal.oauthbearer.sasl.server.callback.handler.class", Effect.REFUSED),
        ("authorizer.class.name", Effect.FULL),
        ("principal.builder.class", Effect.REFUSED),
    ],
)
def test_effects(name: str, effect: Effect) -> None:
    definition = catalogue.find(name)
    assert definition is not None
    assert definition.effect is effect
    assert bool(definition.reason) is (effect is not Effect.FULL)


@pytest.mark.parametrize(
    "name", ["num.partition", "listener.name.internal.ssl.keystore.locaton", "listener.name.internal", "ssl.", ""]
)
def test_unknown_names(name: str) -> None:
    assert catalogue.find(name) is None


def test_secrets_are_known_as_such() -> None:
    secret = {name for name, definition in catalogue.known().items() if definition.is_sensitive}
    assert {
        "ssl.keystore.password",
        "sasl.jaas.config",
        "zookeeper.ssl.truststore.password",
        "delegation.token.secret.key",
    } <= secret
    assert not [name for name in catalogue.known() if name.endswith("password") and name not in secret]


def test_the_nearest_name() -> None:
    assert catalogue.nearest_broker_setting("num.partiton") == "the nearest name is num.partitions"
    assert catalogue.nearest_broker_setting("log_dirs") == "the nearest name is log.dirs"
    assert "for all topics of a broker, set log.retention.ms" in catalogue.nearest_broker_setting("retention.ms")
    assert "no plug-in known here has it" in catalogue.nearest_broker_setting("bootstrap.servers.of.mine")
    assert catalogue.nearest_topic_setting("retention.mss") == "the nearest name is retention.ms"
    assert "for one topic, set max.message.bytes" in catalogue.nearest_topic_setting("message.max.bytes")


def test_long_names_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("difflib.get_close_matches")
    assert catalogue.nearest_topic_setting("x" * 101) == "topics have no such setting"
    with pytest.raises(ImportError):
        catalogue.nearest_topic_setting("x" * 100)
