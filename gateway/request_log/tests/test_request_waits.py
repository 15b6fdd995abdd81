"""What a request concerns, and what it waits for."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.gateway.replication.progress import Progress
from headgate.gateway.request_log.request_waits import MAX_TOPICS, describe, topics_of
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.fetch import FetchRequest, FetchTopic
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.sync_group import SyncGroupRequest
from headgate.protocol.schema import Message


def context_of(**partitions: Any) -> Any:
    """A broker that leads these partitions 0, and knows one topic by its id."""

    def get(topic: str, index: int) -> Any:
        if topic not in partitions or index:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere")
        return partitions[topic]

    image = SimpleNamespace(topic_names={b"1" * 16: "by-id"})
    return SimpleNamespace(
        broker=SimpleNamespace(metadata=SimpleNamespace(image=image), partitions=SimpleNamespace(get=get))
    )


@pytest.mark.parametrize(
    "request_, topics",
    [
        (CreateTopicsRequest([CreatableTopic("a", 1, 1)], 0), ["a"]),
        (FetchRequest(topics=[FetchTopic(topic_id=b"1" * 16), FetchTopic(topic_id=b"2" * 16)]), ["by-id"]),
        (MetadataRequest(topics=None), []),
        (MetadataRequest(topics=[MetadataRequestTopic(name="b"), MetadataRequestTopic(name="b")]), ["b"]),
        (ListGroupsRequest(), []),
    ],
    ids=["names", "ids", "all", "twice", "none"],
)
def test_topics_are_those_of_the_request(request_: Message, topics: list[str]) -> None:
    assert topics_of(request_, context_of()) == topics


def test_topics_are_bounded() -> None:
    many = [MetadataRequestTopic(name=f"t{number}") for number in range(10_000)]
    assert len(topics_of(MetadataRequest(topics=many), context_of())) == MAX_TOPICS + 1


@pytest.mark.parametrize(
    "request_, text, asked_ms",
    [
        (FetchRequest(max_wait_ms=500, min_bytes=7), "7 bytes, for at most 500 ms", 500.0),
        (JoinGroupRequest(group_id="g"), "the members of group g to join", math.inf),
        (SyncGroupRequest(group_id="g"), "the assignment by the leader of group g", math.inf),
        (HeartbeatRequest(group_id="g"), "the coordinator of group g", 0.0),
        (EndTxnRequest(transactional_id="t"), "the coordinator of transactional id t", 0.0),
        (ProduceRequest(acks=1), "the disk, or a conversion", 0.0),
        (ListGroupsRequest(), "its own work", 0.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_each_kind_of_wait_has_its_words(request_: Message, text: str, asked_ms: float) -> None:
    _, wait = describe(request_, context_of())
    assert (wait.text, wait.asked_ms) == (text, asked_ms)


def replica_with(**log_ends: int) -> Any:
    """A replica whose log ends at 10, with followers whose logs end there."""
    progress = Progress()
    nodes = [int(name.removeprefix("node_")) for name in log_ends]
    progress.begin_epoch(0)
    progress.assign(nodes, nodes, 0.0)
    for node_id, end in zip(nodes, log_ends.values(), strict=True):
        progress.check(node_id, 1).note_fetch(end, 0, 10, 1.0)
    return SimpleNamespace(progress=progress, log=SimpleNamespace(start_offset=0, end_offset=10))


def produce_to(*topics: str) -> ProduceRequest:
    rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, None)]) for topic in topics]
    return ProduceRequest(acks=-1, topic_data=rows)


@pytest.mark.parametrize(
    "replicas, text",
    [
        ({"a": replica_with(node_1=10, node_2=7)}, "acks of replica 2 of a-0"),
        (
            {"a": replica_with(node_1=3, node_2=7), "b": replica_with(node_3=9)},
            "acks of replicas 1,2 of a-0, replica 3 of b-0",
        ),
        ({"a": replica_with(node_1=10)}, "the disk, or a conversion"),
        ({"a": SimpleNamespace(progress=None)}, "the disk, or a conversion"),
    ],
)
def test_a_slow_produce_names_the_replicas(replicas: dict[str, Any], text: str) -> None:
    _, wait = describe(produce_to(*replicas), context_of(**replicas))
    assert (wait.text, wait.asked_ms) == ("acks of the in-sync replicas", 0.0)
    assert wait.refresh is not None
    assert wait.refresh() == text


def test_a_lost_lead_is_named() -> None:
    _, wait = describe(produce_to("a"), context_of())
    assert wait.refresh is not None
    assert wait.refresh() == "acks of a-0, which this broker leads no more (NOT_LEADER_OR_FOLLOWER)"
