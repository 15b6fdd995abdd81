"""Topics are shown with their records before they are deleted."""

from __future__ import annotations

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import (
    LATEST,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.tools.client.client import ClientError
from headgate.tools.console.changes.delete_topics import delete_topics
from headgate.tools.console.changes.plan import ChangeLine
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, opened


def of(*names: str) -> Parameters:
    return Parameters([("topic", name) for name in names])


def test_a_topic_is_deleted_by_the_controller(model: ModelCluster) -> None:
    model.controller = 2
    model.topics["orders"] = [Log(start=2, end=7), Log(leader=1, end=5)]
    with opened() as cluster:
        plan = delete_topics(cluster, of("orders"))
        assert plan.summary == "Delete the topic orders with 10 records"
        assert plan.lines == [ChangeLine("orders", "2 partitions", None, "10 records")]
        assert (plan.confirmation, plan.command) == ("orders", "headgate topics delete orders")
        assert "orders" in model.topics
        result = plan.apply(cluster)
    assert (result.done, result.failures) == (["The topic orders is deleted"], [])
    assert "orders" not in model.topics


def test_several_topics_may_partly_fail(model: ModelCluster) -> None:
    model.topics["a b"], model.topics["c"] = [Log()], [Log()]
    with opened() as cluster:
        plan = delete_topics(cluster, of("a b", "c"))
        assert plan.command == "headgate topics delete 'a b' c"
        assert plan.confirmation == "2 topics"
        del model.topics["c"]
        result = plan.apply(cluster)
    assert result.done == ["The topic a b is deleted"]
    [failure] = result.failures
    assert failure.startswith("c: ")


def test_records_that_are_not_counted_are_named(model: ModelCluster) -> None:
    model.topics["orders"], model.topics["other"] = [Log(end=3)], [Log(end=5)]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def refuse(_node: int, request: object, _version: int) -> ListOffsetsResponse | None:
        if not isinstance(request, ListOffsetsRequest):
            return None
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        ListOffsetsPartitionResponse(row.partition_index, 0, [], offset=5 * (row.timestamp == LATEST))
                        if topic.name == "other"
                        else ListOffsetsPartitionResponse(row.partition_index, error_code=denied)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    model.disturb = refuse
    with opened() as cluster:
        plan = delete_topics(cluster, of("orders", "other"))
    assert plan.summary == "Delete 2 topics with at least 5 records"
    assert [line.note for line in plan.lines] == ["0 records, others not counted", "5 records"]
    [warning] = plan.warnings
    assert warning.startswith("the records of orders-0 are not counted: ")


def test_groups_with_offsets_are_named(model: ModelCluster) -> None:
    model.topics["orders"], model.topics["other"] = [Log()], [Log()]
    model.groups = {
        "shop": ModelGroup(offsets={("orders", 0): (3, -1, "")}),
        "billing": ModelGroup(offsets={("orders", 0): (3, -1, ""), ("payments", 0): (1, -1, "")}, coordinator=1),
        "shared": ModelGroup(type="share"),
    }
    with opened() as cluster:
        assert delete_topics(cluster, of("orders", "other")).warnings == [
            "groups have offsets in orders, which are deleted too: billing, shop"
        ]


def test_an_unknown_topic_is_named(model: ModelCluster) -> None:
    with opened() as cluster:
        with pytest.raises(ClientError, match="there is no topic orders"):
            delete_topics(cluster, of("orders"))
        with pytest.raises(BadParameter, match="topic is missing"):
            delete_topics(cluster, of())
