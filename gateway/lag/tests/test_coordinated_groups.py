"""The groups of the coordinator: their offsets, members and owners."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.classic.members import ClassicMember
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.lag.coordinated_groups import AT_ONCE, read_groups
from headgate.gateway.lag.readers import Committed, GroupReading, OwningMember
from headgate.gateway.lag.tests.surveyed import SurveyedBroker
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, encode
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.steps import finish


@pytest.fixture
def shard(tmp_path: Path) -> GroupShard:
    node = SurveyedBroker(tmp_path)
    node.services.metadata.create_topic("t", 2)
    node.time.advance()
    shard = node.services.groups.loaded_shards()[0]
    shard.groups.clear()
    return shard


class Loaded:
    def __init__(self, *shards: GroupShard) -> None:
        self.shards = shards

    def loaded_shards(self) -> tuple[GroupShard, ...]:
        return self.shards


def read(*shards: GroupShard) -> dict[str, GroupReading]:
    return {reading.name: reading for reading in finish(read_groups(Loaded(*shards)))}


def classic(shard: GroupShard, name: str, assignment: bytes, protocol_type: str = "consumer") -> None:
    group: Any = ClassicGroup(name)
    group.protocol_type = protocol_type
    member = ClassicMember("m-1", None, "m", "/192.0.2.1", 1, 1, {"range": b""})
    member.assignment = assignment
    group.members.add(member)
    shard.groups[name] = group


def assignment(*indexes: int) -> bytes:
    return encode(ConsumerProtocolAssignment(assigned_partitions=[TopicPartition("t", list(indexes))]), 0)


def test_offsets_of_a_group_without_members(shard: GroupShard) -> None:
    shard.replay(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", 1_000), 0)
    assert read(shard) == {"g": GroupReading("g", "classic", "Empty", 0, offsets={"t": {1: Committed(5, 1_000)}})}


def test_owners_of_a_classic_group(shard: GroupShard) -> None:
    classic(shard, "g", assignment(0, 1))
    reading = read(shard)["g"]
    owner = OwningMember("m-1", "m", "/192.0.2.1")
    assert (reading.members, reading.owners) == (1, {("t", 0): owner, ("t", 1): owner})


@pytest.mark.parametrize(
    "data, protocol_type", [(b"", "consumer"), (b"\0\0\xff", "consumer"), (assignment(0), "connect")]
)
def test_only_consumers_own_partitions(shard: GroupShard, data: bytes, protocol_type: str) -> None:
    """The assignment of another protocol, or of a client with a form of its own, is no list of partitions."""
    classic(shard, "g", data, protocol_type)
    assert (read(shard)["g"].members, read(shard)["g"].owners) == (1, {})


def test_owners_of_a_consumer_group(shard: GroupShard) -> None:
    group: Any = ConsumerGroup("g")
    topic_id = shard.topics.id_of("t")
    assert topic_id is not None
    group.members["m-1"] = ConsumerMember(
        "m-1", client_id="m", client_host="/h", assigned={topic_id: frozenset((1,)), b"gone" * 4: frozenset((0,))}
    )
    shard.groups["g"] = group
    reading = read(shard)["g"]
    assert (reading.kind, reading.members) == ("consumer", 1)
    assert reading.owners == {("t", 1): OwningMember("m-1", "m", "/h")}


def test_a_large_group_is_read_in_steps(shard: GroupShard) -> None:
    random = Random(1)
    for index in range(3 * AT_ONCE):
        shard.replay(OffsetCommitKey("g", "t", index), OffsetCommitValue(random.randrange(9), -1, "", 1_000), 0)
    assert len(list(read_groups(Loaded(shard)))) >= 3
    assert len(read(shard)["g"].offsets["t"]) == 3 * AT_ONCE
