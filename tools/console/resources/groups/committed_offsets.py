"""The committed offsets of all groups by topic, for the lag beside each topic; asked once in a while for each cluster.

A table that is scrolled asks for a few topics at a time. One answer of the coordinators serves all of these questions.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.members import list_groups
from headgate.tools.groups.offsets import CommittedOffsets
from headgate.tools.groups.selection import TYPES_WITH_OFFSETS, group_failures
from headgate.tools.groups.stores import fetch_stored_offsets

KEPT_S: Final = 10.0
"""As long as one interval of Headgate's own survey of lag."""


class GroupOffset(NamedTuple):
    """A committed offset of a group in a partition."""

    group: str
    partition: int
    offset: int


class OffsetsByTopic(NamedTuple):
    """All committed offsets by topic, and a sentence for each failure."""

    topics: Mapping[str, list[GroupOffset]]
    failures: list[str]

    def of_group(self, topic: str) -> dict[str, list[GroupOffset]]:
        """The offsets of a topic by group."""
        groups: defaultdict[str, list[GroupOffset]] = defaultdict(list)
        for row in self.topics.get(topic, ()):
            groups[row.group].append(row)
        return groups


def arrange_by_topic(offsets: Mapping[str, CommittedOffsets]) -> dict[str, list[GroupOffset]]:
    """Offsets by group as offsets by topic."""
    topics: defaultdict[str, list[GroupOffset]] = defaultdict(list)
    for group, rows in sorted(offsets.items()):
        for partition, row in rows.items():
            topics[partition.topic].append(GroupOffset(group, partition.number, row.offset))
    return dict(topics)


def ask_offsets(cluster: Cluster) -> OffsetsByTopic:
    """All committed offsets, as the coordinators know them now. Raises ClientError."""
    listed, failures = list_groups(cluster)
    wanted = {row.name: row for row in listed if row.type.lower() in TYPES_WITH_OFFSETS}
    offsets, failed, unreadable = fetch_stored_offsets(cluster, wanted)
    return OffsetsByTopic(arrange_by_topic(offsets), failures + group_failures(failed) + unreadable)


class RecentOffsets:
    """The last answer for each cluster, asked for again when it is older than `KEPT_S`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: WeakKeyDictionary[Cluster, tuple[float, OffsetsByTopic]] = WeakKeyDictionary()

    def get(self, cluster: Cluster) -> OffsetsByTopic:
        """Raises ClientError."""
        asked_s, answer = self._answers.get(cluster, (0.0, None))
        now_s = self._clock()
        if answer is None or now_s - asked_s >= KEPT_S:
            answer = ask_offsets(cluster)
            self._answers[cluster] = self._clock(), answer
        return answer


def group_lags(offsets: OffsetsByTopic, topic: str, ends: Mapping[TopicPartition, int]) -> list[tuple[str, int | None]]:
    """The lag in records of each group with an offset in a topic, the largest first; None: no end is known.

    An offset in a partition that is gone has no lag, and one beyond the end has read everything.
    """
    lags = []
    for group, rows in offsets.of_group(topic).items():
        known = [
            max(0, ends[partition] - row.offset)
            for row in rows
            if (partition := TopicPartition(topic, row.partition)) in ends
        ]
        lags.append((group, sum(known) if known else None))
    return sorted(lags, key=lambda lag: (-1 if lag[1] is None else lag[1], lag[0]), reverse=True)
