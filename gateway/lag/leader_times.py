"""The times of the oldest unread records in partitions of which this broker has no replica: by Fetch, from the leader.

`headgate groups lag` asks in the same way. A request names a partition only once, so several groups at one partition
take several rounds. `ROUNDS` bounds them: times beyond are found by later surveys, as known ones are not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.gateway.lag.partition_ends import CONSUMER_REPLICA_ID
from headgate.gateway.lag.requests_to_leaders import RequestsToLeaders
from headgate.gateway.lag.unread_times import UnreadPosition
from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.tasks import PAUSE, Task, gather
from headgate.protocol.errors import ErrorCode
from headgate.protocol.lag.oldest_unread import PARTITION_MAX_BYTES, UnreadSearch
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headgate.protocol.topic_partition import TopicPartition, by_topic

ROUNDS: Final = 8
"""Requests to one leader in one survey."""
_ANSWERED: Final = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)

Times = dict[UnreadPosition, int | None]
"""None: there is no record before the end."""


def ask_leaders(
    requests: RequestsToLeaders, image: Image, wanted: Mapping[int, Mapping[UnreadPosition, int]]
) -> Task[Times]:
    """The times of positions by leader, each with the end of its partition; those of refused partitions are missing."""
    found: Times = {}
    yield from gather([_ask(requests, image, leader, ends, found) for leader, ends in wanted.items()])
    return found


def _ask(
    requests: RequestsToLeaders, image: Image, leader: int, ends: Mapping[UnreadPosition, int], found: Times
) -> Task[None]:
    left = dict(ends)
    rounds = 0
    while left and rounds < ROUNDS:
        # One position of each partition
        wave = {TopicPartition(position.topic, position.partition): position for position in left}
        search = UnreadSearch({key: (position.offset, ends[position]) for key, position in wave.items()})
        for position in wave.values():
            del left[position]
        while rounds < ROUNDS and (asked := search.next_fetch()):
            rounds += 1
            answer = yield from requests.ask(leader, _request(image, asked))
            if not isinstance(answer, FetchResponse):
                return
            for topic in answer.responses:
                name = topic.topic or image.topic_names.get(topic.topic_id, "")
                for row in topic.partitions:
                    key = TopicPartition(name, row.partition_index)
                    if key in asked and row.error_code in _ANSWERED:
                        result = search.examine(key, row.error_code, row.records)
                        if result is not None:
                            found[wave[key]] = result.timestamp
                        yield PAUSE


def _request(image: Image, asked: Mapping[TopicPartition, int]) -> FetchRequest:
    """A fetch by names and by ids: the version of the leader decides."""
    topics = [
        FetchTopic(
            topic=name,
            topic_id=image.topics[name].topic_id,
            partitions=[
                FetchPartition(partition=key.number, fetch_offset=asked[key], partition_max_bytes=PARTITION_MAX_BYTES)
                for key in keys
            ],
        )
        for name, keys in by_topic(asked).items()
        if name in image.topics
    ]
    return FetchRequest(replica_id=CONSUMER_REPLICA_ID, max_bytes=PARTITION_MAX_BYTES * len(asked), topics=topics)
