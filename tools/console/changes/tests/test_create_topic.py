"""A topic is validated by the controller, and shown with the broker's defaults, before it is created."""

from __future__ import annotations

import pytest

from headgate.tools.console.changes.create_topic import create_topic
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened
from headgate.tools.tests.model_topics import ModelChanges


def test_a_topic_with_numbers_and_configs(model: ModelCluster) -> None:
    ModelChanges(model)
    configs = "cleanup.policy = compact\n\n min.insync.replicas=2"
    given = Parameters(
        [("topic", " new orders "), ("partitions", "6"), ("replication_factor", "3"), ("config", configs)]
    )
    with opened() as cluster:
        plan = create_topic(cluster, given)
        assert plan.summary == "Create the topic new orders"
        assert plan.lines == [
            ChangeLine("partitions", None, "6"),
            ChangeLine("replication factor", None, "3"),
            ChangeLine("cleanup.policy", None, "compact"),
            ChangeLine("min.insync.replicas", None, "2"),
            ChangeLine("retention.ms", None, "604800000", "the broker's default: in the broker's file"),
        ]
        assert (plan.problems, plan.confirmation) == ([], "")
        assert plan.command == (
            "headgate topics create 'new orders' --partitions 6 --replication-factor 3"
            " --config cleanup.policy=compact --config min.insync.replicas=2"
        )
        assert "new orders" not in model.topics
        result = plan.apply(cluster)
    assert result.done == ["The topic new orders is created"]
    assert result.details == {"link": ["/topics", "new orders"]}
    assert len(model.topics["new orders"]) == 6


def test_the_defaults_are_those_of_the_broker(model: ModelCluster) -> None:
    ModelChanges(model)
    with opened() as cluster:
        plan = create_topic(cluster, Parameters([("topic", "orders"), ("partitions", "")]))
    assert plan.lines[:2] == [
        ChangeLine("partitions", None, "4", "the broker's default"),
        ChangeLine("replication factor", None, "3", "the broker's default"),
    ]
    assert plan.command == "headgate topics create orders"


def test_the_broker_names_the_problem(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"] = [Log()]
    with opened() as cluster:
        plan = create_topic(cluster, Parameters([("topic", "orders")]))
        result = plan.apply(cluster)
    assert plan.problems == ["Topic 'orders' already exists. (TOPIC_ALREADY_EXISTS)"]
    assert plan.lines[0] == ChangeLine("partitions", None, "the broker's default")
    assert result.failures == ["orders is not created: Topic 'orders' already exists. (TOPIC_ALREADY_EXISTS)"]


@pytest.mark.parametrize(
    "given, sentence",
    [
        ([("topic", " ")], "name the topic"),
        ([("topic", "a"), ("partitions", "0")], "partitions=0 is no whole number from 1"),
        ([("topic", "a"), ("config", "retention.ms")], "write name=value"),
        ([("topic", "a"), ("config", "x=1\nx=2")], "the config x is there twice"),
    ],
)
def test_wrong_fields_have_sentences(model: ModelCluster, given: list[tuple[str, str]], sentence: str) -> None:
    with opened() as cluster, pytest.raises(BadParameter, match=sentence):
        create_topic(cluster, Parameters(given))
