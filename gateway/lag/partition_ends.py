"""Starts and ends of partitions: of those led here from their replicas, of the others by ListOffsets to their leaders.

An end is the high watermark, as in `headgate groups lag` and in Kafka's own tool without another isolation level. The
stable end is the last stable offset: a consumer under read_committed reads no further while a transaction is open. A
broker cannot know how a group reads, as fetches name no group; so both ends are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from headgate.gateway.lag.requests_to_leaders import RequestsToLeaders
from headgate.gateway.metadata.image import Image
from headgate.gateway.replication.replica import READ_COMMITTED, READ_UNCOMMITTED, Replica
from headgate.gateway.runtime.tasks import PAUSE, Task, gather
from headgate.protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic

CONSUMER_REPLICA_ID: Final = -1
PARTITIONS_AT_ONCE: Final = 400
"""The partitions of one request: its answer is read in a millisecond."""


class Ends(NamedTuple):
    """The start and the ends of a partition, and its leader."""

    start: int
    end: int
    stable_end: int
    leader: int


class LedPartitions(Protocol):
    """The replicas of this broker, as the survey needs them."""

    @property
    def online(self) -> Mapping[tuple[str, int], Replica]:
        """The replicas of the partitions that this broker leads."""


class SurveyedEnds:
    """The ends of one survey."""

    def __init__(self, image: Image, node_id: int, partitions: LedPartitions) -> None:
        self._image = image
        self._node_id = node_id
        self._online = partitions.online
        self._found: dict[tuple[str, int], Ends | None] = {}
        self.led_elsewhere: dict[int, list[TopicPartition]] = {}
        """Leader -> the partitions whose ends it is asked for."""

    def exists(self, topic: str, index: int) -> bool:
        """Whether the cluster has the partition."""
        known = self._image.topics.get(topic)
        return known is not None and 0 <= index < len(known.partitions)

    def find(self, topic: str, index: int) -> Ends | None:
        """The ends, if they are known. A partition led elsewhere is noted for `ask_leaders`."""
        key = topic, index
        if key in self._found:
            return self._found[key]
        ends = None
        if self.exists(topic, index):
            leader = self._image.topics[topic].partitions[index].leader
            replica = self._online.get(key)
            if replica is not None and not replica.is_catching_up:
                ends = Ends(replica.log.start_offset, replica.high_watermark, replica.last_stable_offset, self._node_id)
            elif leader >= 0 and leader != self._node_id:
                self.led_elsewhere.setdefault(leader, []).append(TopicPartition(topic, index))
        self._found[key] = ends
        return ends

    def ask_leaders(self, requests: RequestsToLeaders) -> Task[None]:
        """Ask for the ends that `find` has missed. Those of a leader without an answer stay unknown."""
        asked, self.led_elsewhere = self.led_elsewhere, {}
        yield from gather([self._ask(requests, leader, wanted) for leader, wanted in asked.items()])

    def _ask(self, requests: RequestsToLeaders, leader: int, wanted: Sequence[TopicPartition]) -> Task[None]:
        rest = iter(wanted)
        while part := list(islice(rest, PARTITIONS_AT_ONCE)):
            # In this order: a stable end, or a start that moves meanwhile, is never behind the end
            stable_ends = yield from self._list(requests, leader, part, LATEST, READ_COMMITTED)
            ends = yield from self._list(requests, leader, stable_ends or (), LATEST)
            starts = yield from self._list(requests, leader, ends or (), EARLIEST)
            if stable_ends is None or ends is None or starts is None:
                return
            for key, start in starts.items():
                end = max(ends[key], start)
                self._found[key] = Ends(start, end, min(max(stable_ends[key], start), end), leader)
            yield PAUSE

    @staticmethod
    def _list(
        requests: RequestsToLeaders,
        leader: int,
        wanted: Iterable[TopicPartition],
        timestamp: int,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> Task[dict[TopicPartition, int] | None]:
        """The offsets at one end of partitions, without those that the leader refuses; None without an answer."""
        topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=row.number, timestamp=timestamp) for row in rows],
            )
            for name, rows in by_topic(wanted).items()
        ]
        answer: Any = yield from requests.ask(leader, ListOffsetsRequest(CONSUMER_REPLICA_ID, isolation_level, topics))
        if answer is None:
            return None
        return {
            TopicPartition(topic.name, row.partition_index): row.offset
            for topic in answer.topics
            for row in topic.partitions
            if not row.error_code and row.offset >= 0
        }
