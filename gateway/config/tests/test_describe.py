"""What DescribeConfigs tells."""

from gateway.config import BrokerConfig
from gateway.config.definition import Type
from gateway.config.describe import ConfigEntry, Source, Synonym, describe_broker, describe_topic


def broker_entry(text: str, name: str) -> ConfigEntry:
    (entry,) = describe_broker(BrokerConfig.load(text), [name])
    return entry


def topic_entry(text: str, overrides: dict[str, str], name: str) -> ConfigEntry:
    (entry,) = describe_topic(BrokerConfig.load(text), overrides, [name])
    return entry


def test_a_default_of_the_broker() -> None:
    entry = broker_entry("", "num.partitions")
    assert (entry.value, entry.source, entry.type, entry.is_default) == ("1", Source.DEFAULT_CONFIG, Type.INT, True)
    assert entry.synonyms == (Synonym("num.partitions", "1", Source.DEFAULT_CONFIG),)
    assert entry.documentation == "Partitions of a topic that is created without saying how many."


def test_a_value_from_the_file() -> None:
    entry = broker_entry("num.partitions=4", "num.partitions")
    assert (entry.value, entry.source, entry.is_default, entry.read_only) == (
        "4",
        Source.STATIC_BROKER_CONFIG,
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
    assert "num.network.threads" not in entries
    assert "no effect yet, because transactions" in entries["transaction.max.timeout.ms"].documentation


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
    assert (entry.value, entry.source, entry.read_only) == ("5", Source.DYNAMIC_TOPIC_CONFIG, False)
    assert entry.synonyms == (
        Synonym("retention.ms", "5", Source.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.retention.hours", "2", Source.STATIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "168", Source.DEFAULT_CONFIG),
    )


def test_a_topic_falls_back_to_the_broker_in_its_own_unit() -> None:
    entry = topic_entry("log.retention.hours=2", {}, "retention.ms")
    assert (entry.value, entry.source) == ("7200000", Source.STATIC_BROKER_CONFIG)


def test_the_older_setting_for_both_bounds_of_time() -> None:
    entry = topic_entry("", {"message.timestamp.difference.max.ms": "5"}, "message.timestamp.after.max.ms")
    assert (entry.value, entry.source) == ("5", Source.DYNAMIC_TOPIC_CONFIG)


def test_values_are_written_as_kafka_writes_them() -> None:
    entries = {
        entry.name: entry.value for entry in describe_topic(BrokerConfig.load("log.cleanup.policy=compact, delete"), {})
    }
    assert entries["preallocate"] == "false"
    assert entries["cleanup.policy"] == "compact,delete"
    assert entries["min.cleanable.dirty.ratio"] == "0.5"
