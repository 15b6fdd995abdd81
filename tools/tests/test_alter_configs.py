"""Configs of topics and brokers are altered one by one, or all at once where the broker is old."""

from __future__ import annotations

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_configs import AlterConfigsRequest
from headgate.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headgate.tools.alter_configs import ConfigResource, alter_configs, replaces_all
from headgate.tools.client.cluster import Cluster
from headgate.tools.configs import ConfigDescription, ConfigSynonym, describe_broker_configs, describe_topic_configs
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened
from headgate.tools.tests.model_topics import ModelChanges

TOPIC, BROKER = 2, 4
ORDERS = ConfigResource.of_topic("orders")


def of_topic(cluster: Cluster) -> list[ConfigDescription]:
    return describe_topic_configs(cluster, ["orders"])[0]["orders"]


def test_single_configs_are_set_and_removed(model: ModelCluster) -> None:
    changes = ModelChanges(model)
    model.topics["orders"] = [Log()]
    changes.set[TOPIC, "orders"] = {"retention.ms": "5", "min.insync.replicas": "2"}
    wanted = {"retention.ms": None, "cleanup.policy": "compact"}
    with opened() as cluster:
        described = of_topic(cluster)
        assert alter_configs(cluster, ORDERS, wanted, described, validate_only=True) is None
        assert changes.set[TOPIC, "orders"] == {"retention.ms": "5", "min.insync.replicas": "2"}
        assert alter_configs(cluster, ORDERS, wanted, described) is None
        assert not replaces_all(cluster, ORDERS)
    assert changes.set[TOPIC, "orders"] == {"min.insync.replicas": "2", "cleanup.policy": "compact"}


def test_an_old_broker_gets_all_values_again(model: ModelCluster) -> None:
    changes = ModelChanges(model)
    model.topics["orders"] = [Log()]
    changes.set[TOPIC, "orders"] = {"retention.ms": "5", "min.insync.replicas": "2"}
    model.unserved = {IncrementalAlterConfigsRequest}
    with opened() as cluster:
        assert replaces_all(cluster, ORDERS)
        assert alter_configs(cluster, ORDERS, {"retention.ms": None, "cleanup.policy": "x"}, of_topic(cluster)) is None
    assert changes.set[TOPIC, "orders"] == {"min.insync.replicas": "2", "cleanup.policy": "x"}


def test_a_refusal_and_a_broker_that_is_too_old(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"] = [Log()]
    with opened() as cluster:
        refused = alter_configs(cluster, ORDERS, {"retention.ms": "bad"}, of_topic(cluster))
    assert refused == Failure.of(ErrorCode.INVALID_CONFIG, "Invalid value bad for configuration retention.ms")
    model.unserved = {IncrementalAlterConfigsRequest, AlterConfigsRequest}
    with opened() as cluster:
        refused = alter_configs(cluster, ORDERS, {"retention.ms": "5"}, [])
    assert refused is not None
    assert "neither IncrementalAlterConfigs nor AlterConfigs" in refused.text


def test_a_broker_changes_its_own_configs(model: ModelCluster) -> None:
    changes = ModelChanges(model)
    with opened() as cluster:
        assert alter_configs(cluster, ConfigResource.of_broker(2), {"log.retention.ms": "5"}, []) is None
        assert alter_configs(cluster, ConfigResource.of_all_brokers(), {"log.retention.ms": "6"}, []) is None
        [retention] = [row for row in describe_broker_configs(cluster, 2)[0]["2"] if row.name == "log.retention.ms"]
    assert changes.set[BROKER, "2"] == {"log.retention.ms": "5"}
    assert {node for node, request, _ in model.asked if isinstance(request, IncrementalAlterConfigsRequest)} == {0, 2}
    own, shared, static = retention.synonyms
    assert ConfigResource.of_broker(2).own_synonym(retention) == own
    assert ConfigResource.of_broker(2).inherited_synonym(retention) == shared
    assert ConfigResource.of_all_brokers().own_synonym(retention) == shared
    assert ConfigResource.of_all_brokers().inherited_synonym(retention) == static


def test_kafka_1_0_tells_only_which_values_are_defaults() -> None:
    config = ConfigDescription("retention.ms", "5", None, False, None, False, False, None, [])
    assert ORDERS.own_synonym(config) == ConfigSynonym("retention.ms", "5", None)
    assert ORDERS.own_synonym(config._replace(is_default=True)) is None
    assert ORDERS.inherited_synonym(config) is None
