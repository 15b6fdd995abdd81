"""What DescribeConfigs tells."""

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.definition import Type
from headgate.gateway.config.describe import (
    ConfigEntry,
    ConfigSource,
    Synonym,
    TopicRows,
    describe_all_brokers,
    describe_broker,
    describe_topic,
)


def broker_entry(text: str, name: str) -> ConfigEntry:
    (entry,) = describe_broker(BrokerConfig.load(text), [name])
    return entry


def topic_entry(text: str, overrides: dict[str, str], name: str) -> ConfigEntry:
    (entry,) = describe_topic(BrokerConfig.load(text), overrides, [name])
    return entry


def test_a_default_of_the_broker() -> None:
    entry = broker_entry("", "num.partitions")
    assert (entry.value, entry.source, entry.type, entry.is_default) == (
        "1",
        ConfigSource.DEFAULT_CONFIG,
        Type.INT,
        True,
    )
    assert entry.synonyms == (Synonym("num.partitions", "1", ConfigSource.DEFAULT_CONFIG),)
    assert entry.documentation == "Partitions of a topic that is created without a number of partitions."


def test_a_value_from_the_file() -> None:
    entry = broker_entry("num.partitions=4", "num.partitions")
    assert (entry.value, entry.source, entry.is_default, entry.read_only) == (
        "4",
        ConfigSource.STATIC_BROKER_CONFIG,
        False,
        True,
    )
    assert [synonym.value for synonym in entry.synonyms] == ["4", "1"]


def test_all_settings_of_a_broker() -> None:
    entries = {entry.name: entry for entry in describe_broker(BrokerConfig.load("num.io.threads=8\nbroker.id=4"))}
    assert entries["node.id"].value == "4"
    assert entries["listeners"].value == "PLAINTEXT://127.0.0.1:9092"
    assert entries["advertised.listeners"].value is None
    assert "no effect here, because one loop" in entries["num.io.threads"].documentation
    assert (entries["num.network.threads"].value, entries["num.network.threads"].is_default) == ("3", True)
    assert "zookeeper.sync.time.ms" not in entries
    assert "no effect yet, because a client" in entries["transaction.two.phase.commit.enable"].documentation


def test_unknown_names_are_left_out() -> None:
    assert describe_broker(BrokerConfig.load(), ["num.partition"]) == []
    assert describe_topic(BrokerConfig.load(), {}, ["num.partitions"]) == []


def test_secrets_are_not_told() -> None:
    entry = broker_entry("ssl.keystore.password=hush", "ssl.keystore.password")
    assert entry.is_sensitive
    assert entry.value is None
    assert "hush" not in repr(entry)


def test_a_topics_own_value_stands_before_the_brokers() -> None:
    entry = topic_entry("log.retention.hours=2", {"retention.ms": "5"}, "retention.ms")
    assert (entry.value, entry.source, entry.read_only) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG, False)
    assert entry.synonyms == (
        Synonym("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )


def test_a_topic_falls_back_to_the_broker_in_its_own_unit() -> None:
    entry = topic_entry("log.retention.hours=2", {}, "retention.ms")
    assert (entry.value, entry.source) == ("7200000", ConfigSource.STATIC_BROKER_CONFIG)


def test_the_older_setting_for_both_bounds_of_time() -> None:
    entry = topic_entry("", {"message.timestamp.difference.max.ms": "5"}, "message.timestamp.after.max.ms")
    assert (entry.value, entry.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)


def test_values_are_written_as_kafka_writes_them() -> None:
    entries = {
        entry.name: entry.value for entry in describe_topic(BrokerConfig.load("log.cleanup.policy=compact, delete"), {})
    }
    assert entries["preallocate"] == "false"
    assert entries["cleanup.policy"] == "compact,delete"
    assert entries["min.cleanable.dirty.ratio"] == "0.5"


def test_what_a_topic_has_without_effect_is_told_where_it_was_set() -> None:
    own = {"follower.replication.throttled.replicas": "*", "message.timestamp.difference.max.ms": "5"}
    entries = {entry.name: entry for entry in describe_topic(BrokerConfig.load(), own)}
    throttled, difference = (entries[name] for name in own)
    assert (throttled.value, throttled.source, throttled.read_only) == ("*", ConfigSource.DYNAMIC_TOPIC_CONFIG, False)
    assert throttled.documentation == "Accepted, no effect here, because replication is not throttled."
    assert (difference.value, difference.documentation) == (
        "5",
        "Both bounds of a record's time (Kafka to 3.9).",
    )
    assert describe_topic(BrokerConfig.load(), own, ["no.such"]) == []
    assert topic_entry("", own, throttled.name) == throttled


def test_what_was_set_at_run_time_is_told_before_what_was_given() -> None:
    config = BrokerConfig.load("message.max.bytes=1")
    config.change({"message.max.bytes": "2", "num.io.threads": "3"}, {"message.max.bytes": " 4"})
    (entry,) = describe_broker(config, ["message.max.bytes"])
    assert (entry.value, entry.source, entry.read_only) == ("4", ConfigSource.DYNAMIC_BROKER_CONFIG, False)
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("4", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("1", ConfigSource.STATIC_BROKER_CONFIG),
        ("1048588", ConfigSource.DEFAULT_CONFIG),
    ]
    assert "num.io.threads" in [entry.name for entry in describe_broker(config)]
    told = [(entry.name, entry.value, entry.source) for entry in describe_all_brokers(config)]
    all_brokers = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert told == [("message.max.bytes", "2", all_brokers), ("num.io.threads", "3", all_brokers)]
    assert [entry.name for entry in describe_all_brokers(config, ["num.io.threads"])] == ["num.io.threads"]


def test_other_units_stand_behind_a_time_that_was_set() -> None:
    entry = broker_entry("log.retention.ms=5\nlog.retention.hours=1", "log.retention.ms")
    assert [synonym.name for synonym in entry.synonyms] == ["log.retention.ms", *["log.retention.hours"] * 2]
    assert broker_entry("log.retention.hours=1", "log.retention.ms").synonyms == ()


@pytest.mark.parametrize("names", [None, ["retention.ms", "segment.bytes", "message.timestamp.after.max.ms"]])
def test_many_topics_are_described_as_each_by_itself(names: list[str] | None) -> None:
    config = BrokerConfig.load("log.retention.hours=2")
    made: list[str] = []
    rows = TopicRows(config, lambda entry: made.append(entry.name) or entry)  # type: ignore[func-returns-value]
    for overrides in (
        {},
        {"retention.ms": "5"},
        {"cleanup.policy": "compact", "follower.replication.throttled.replicas": "*"},
        {"message.timestamp.difference.max.ms": "7"},
        {},
    ):
        assert rows.of(overrides, names) == describe_topic(config, overrides, names)
    once = len(describe_topic(config, {}, names))
    assert len(made) == once + (6 if names is None else 2)
