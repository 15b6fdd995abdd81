"""Configs of topics from brokers of any age."""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)
from headgate.tools.configs import ConfigDescription, ConfigSynonym, describe_topic_configs
from headgate.tools.tests.model_cluster import ModelCluster, opened

RETENTION = DescribeConfigsResourceResult(
    name="retention.ms",
    value="5",
    config_source=1,
    synonyms=[DescribeConfigsSynonym("retention.ms", "5", 1), DescribeConfigsSynonym("log.retention.ms", "9", 5)],
    config_type=5,
    documentation="How long records are kept.",
)
CLEANUP = DescribeConfigsResourceResult(name="cleanup.policy", value="delete", config_source=5, config_type=7)


def test_sources_types_and_documentation(model: ModelCluster) -> None:
    model.topic_configs["a"] = [RETENTION, CLEANUP]
    with opened() as cluster:
        found, failed = describe_topic_configs(cluster, ["a", "b"])
    policy, retention = found["a"]
    assert (policy.name, policy.source, policy.is_default, policy.type) == (
        "cleanup.policy",
        "DEFAULT_CONFIG",
        True,
        "list",
    )
    assert retention == ConfigDescription(
        "retention.ms",
        "5",
        "DYNAMIC_TOPIC_CONFIG",
        False,
        "long",
        False,
        False,
        "How long records are kept.",
        [
            ConfigSynonym("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG"),
            ConfigSynonym("log.retention.ms", "9", "DEFAULT_CONFIG"),
        ],
    )
    assert list(failed) == ["b"]
    assert failed["b"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_old_broker_names_defaults_alone(model: ModelCluster) -> None:
    model.topic_configs["a"] = [
        DescribeConfigsResourceResult(name="x", value="1", is_default=True),
        DescribeConfigsResourceResult(name="y", value="2"),
    ]
    model.served[DescribeConfigsRequest] = (0, 0)
    with opened() as cluster:
        found, _ = describe_topic_configs(cluster, ["a"])
    assert [(one.name, one.is_default, one.source, one.type) for one in found["a"]] == [
        ("x", True, None, None),
        ("y", False, None, None),
    ]


def test_a_broker_without_configs_fails_each_topic(model: ModelCluster) -> None:
    model.unserved = {DescribeConfigsRequest}
    with opened() as cluster:
        found, failed = describe_topic_configs(cluster, ["a", "b"])
    assert not found
    assert list(failed) == ["a", "b"]
