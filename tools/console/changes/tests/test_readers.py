"""Who has committed offsets in a topic, and refusals that take nothing else away."""

from __future__ import annotations

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.console.changes.readers import committed_offsets, readers_of
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, opened


def test_groups_by_topic(model: ModelCluster) -> None:
    model.topics["orders"], model.topics["unread"] = [Log(), Log()], [Log()]
    model.groups = {
        "shop": ModelGroup(offsets={("orders", 1): (3, -1, "")}),
        "audit": ModelGroup(offsets={("orders", 0): (3, -1, ""), ("orders", 1): (4, -1, "")}, coordinator=1),
        "shared": ModelGroup(type="share"),
    }
    with opened() as cluster:
        found = committed_offsets(cluster)
    assert found["audit"][TopicPartition("orders", 1)].offset == 4
    assert readers_of(["unread", "orders"], found) == {"orders": ["audit", "shop"]}


def test_a_broker_that_is_down_takes_its_groups_alone(model: ModelCluster) -> None:
    model.topics["orders"] = [Log()]
    model.groups = {
        "shop": ModelGroup(offsets={("orders", 0): (3, -1, "")}),
        "lost": ModelGroup(offsets={("orders", 0): (3, -1, "")}, coordinator=2),
    }
    model.dead = {2}
    with opened() as cluster:
        assert readers_of(["orders"], committed_offsets(cluster)) == {"orders": ["shop"]}
