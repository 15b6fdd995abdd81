"""Topic settings: what is refused, and what they come to."""

from collections.abc import Mapping

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.definition import Value
from headgate.gateway.config.topic_config import check
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig


@pytest.mark.parametrize(
    "configs, sentence",
    [
        ({"retention.mss": "1"}, "Unknown topic config name: retention.mss; the nearest name is retention.ms"),
        ({"log.retention.ms": "1"}, "it is a setting of brokers; for one topic, set retention.ms"),
        (
            {"retention.ms": "long"},
            "Invalid value long for configuration retention.ms: Not a number of type LONG; allowed is a whole number",
        ),
        (
            {"cleanup.policy": "destroy"},
            "Invalid value destroy for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
        (
            {"local.retention.ms": "-3"},
            "Invalid value -3 for configuration local.retention.ms: Value must be at least -2",
        ),
        ({"leader.replication.throttled.replicas": "0"}, "must be the literal '*' or a list of replicas"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
        ),
        ({"follower.replication.throttled.replicas": "\u00e9" * 16_384}, "the value is longer than 32767 bytes"),
        ({"message.timestamp.difference.max.ms": "-1"}, "allowed is a whole number from 0"),
    ],
)
def test_what_is_refused(configs: Mapping[str, str | None], sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check(configs)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in caught.value.message


def test_what_is_accepted() -> None:
    check({"retention.ms": "-1", "cleanup.policy": "compact,delete", "segment.bytes": "14", "compression.type": "zstd"})
    check(
        {
            "message.format.version": "2.8",
            "remote.storage.enable": "false",
            "leader.replication.throttled.replicas": "*",
        }
    )
    check({"message.timestamp.difference.max.ms": "5", "min.compaction.lag.ms": "1", "max.compaction.lag.ms": "1"})


@pytest.mark.parametrize(
    "text, overrides, name, value",
    [
        ("", {}, "retention.ms", 604_800_000),
        ("log.retention.hours=1", {}, "retention.ms", 3_600_000),
        ("log.retention.hours=1\nlog.retention.minutes=2", {}, "retention.ms", 120_000),
        ("log.retention.minutes=2\nlog.retention.ms=3", {}, "retention.ms", 3),
        ("log.retention.hours=-1", {}, "retention.ms", -1),
        ("log.retention.ms=3", {"retention.ms": "4"}, "retention.ms", 4),
        ("log.roll.hours=2", {}, "segment.ms", 7_200_000),
        ("log.flush.scheduler.interval.ms=9", {}, "flush.ms", 9),
        ("log.flush.scheduler.interval.ms=9\nlog.flush.interval.ms=8", {}, "flush.ms", 8),
        ("message.max.bytes=77", {}, "max.message.bytes", 77),
        ("log.cleanup.policy=compact", {}, "cleanup.policy", ("compact",)),
        ("log.message.timestamp.difference.max.ms=5", {}, "message.timestamp.after.max.ms", 5),
        ("", {"message.timestamp.difference.max.ms": "6"}, "message.timestamp.before.max.ms", 6),
        (
            "",
            {"message.timestamp.difference.max.ms": "6", "message.timestamp.before.max.ms": "7"},
            "message.timestamp.before.max.ms",
            7,
        ),
        ("min.insync.replicas=2", {}, "min.insync.replicas", 2),
    ],
)
def test_the_topics_own_or_the_brokers_or_the_default(
    text: str, overrides: Mapping[str, str], name: str, value: Value
) -> None:
    assert BrokerConfig.load(text).topic_value(name, overrides) == value


def test_storage_gets_every_topic_setting_under_its_name() -> None:
    config = BrokerConfig.load("log.retention.hours=1\nlog.cleanup.policy=compact")
    log_config = config.log_config({"segment.bytes": "1000", "message.timestamp.type": "LogAppendTime"})
    assert (log_config.segment_bytes, log_config.retention_ms, log_config.is_compacted) == (1000, 3_600_000, True)
    assert log_config.message_timestamp_type == "LogAppendTime"


def test_storage_has_kafkas_defaults_as_well() -> None:
    assert BrokerConfig.load().log_config({}) == LogConfig()
    config = BrokerConfig.load()
    assert config.log_config({}) is config.log_config({}), "most topics have none of their own: one object for all"
