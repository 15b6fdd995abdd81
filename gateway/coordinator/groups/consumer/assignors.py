"""The server's assignors of KIP-848: pure functions that assign partitions to the members of a group.

    uniform   equal numbers of partitions, and as few moves as possible (Kafka's `UniformAssignor`)
    range     a run of neighbouring partitions of each topic, the same runs in topics of one size (`RangeAssignor`)

An assignor gets each member's topics and present target, and the number of partitions of each topic. The result has a
target for each member; each partition of a subscribed topic is in exactly one target. The order of the input has no
influence. Missing partitions, and partitions that two members claim, count as not assigned.

Cost of `uniform`: members + partitions where all members subscribe to the same topics, as nearly always; otherwise
subscriptions x log(members), at most 16 times. Cost of `range`: members x topics + partitions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

TopicId: TypeAlias = bytes
PartitionSet: TypeAlias = frozenset[int]
Assignment: TypeAlias = Mapping[TopicId, PartitionSet]
"""Partitions by topic, without empty sets."""

NOTHING: Final[Assignment] = {}

ROUNDS: Final = 16
"""The limit of balancing rounds where subscriptions differ, as in Kafka: each about halves the imbalance."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it: its subscribed topics that exist, and its present target."""

    topics: frozenset[TopicId]
    target: Assignment
    instance_id: str | None = None


Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[TopicId, int]], dict[str, Assignment]]
"""(members by id, partition counts of all subscribed topics) -> a target for each member."""


def uniform(members: Mapping[str, Subscriber], counts: Mapping[TopicId, int]) -> dict[str, Assignment]:
    """Balance the members, with as few moves as possible."""
    if not members:
        return {}
    if len({subscriber.topics for subscriber in members.values()}) == 1:
        return _uniform_same_topics(members, counts)
    return _Balance(members, counts).assign()


def ranges(members: Mapping[str, Subscriber], counts: Mapping[TopicId, int]) -> dict[str, Assignment]:
    """Assign runs of partitions, static members first: so a static member with a new id gets its own run again."""
    targets: dict[str, dict[TopicId, PartitionSet]] = {member_id: {} for member_id in members}
    order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    subscribers: dict[TopicId, list[str]] = {}
    for member_id in order:
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    for topic, member_ids in subscribers.items():
        least, extra = divmod(counts[topic], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + least + (index < extra)
            if end > start:
                targets[member_id][topic] = frozenset(range(start, end))
            start = end
    return {member_id: _unchanged(target, members[member_id].target) for member_id, target in targets.items()}


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform, "range": ranges}


def _range_order(member_id: str, subscriber: Subscriber) -> tuple[bool, str, str]:
    return (subscriber.instance_id is None, subscriber.instance_id or "", member_id)


def _claims(subscriber: Subscriber, counts: Mapping[TopicId, int]) -> Iterator[tuple[TopicId, int]]:
    """The member's present partitions that it may keep: existing ones of subscribed topics."""
    for topic in sorted(subscriber.target):
        if topic in subscriber.topics:
            count = counts[topic]
            for partition in sorted(subscriber.target[topic]):
                if 0 <= partition < count:
                    yield topic, partition


def _uniform_same_topics(members: Mapping[str, Subscriber], counts: Mapping[TopicId, int]) -> dict[str, Assignment]:
    """Each member keeps its partitions up to its quota; the others are dealt in turn to members below their quota.

    Where the quotas differ by one, the members with most partitions get the larger ones: no fewer moves are possible. A
    target that stays is handled as a whole: in a large group nearly all targets stay.
    """
    topics = next(iter(members.values())).topics
    left = {topic: set(range(counts[topic])) for topic in topics}
    kept = {member_id: _take(members[member_id].target, left) for member_id in sorted(members)}
    sizes = {member_id: sum(map(len, target.values())) for member_id, target in kept.items()}
    least, extra = divmod(sum(counts[topic] for topic in topics), len(members))
    room: list[tuple[str, int]] = []
    for index, member_id in enumerate(sorted(kept, key=lambda member_id: (-sizes[member_id], member_id))):
        quota = least + (index < extra)
        if sizes[member_id] > quota:
            kept[member_id] = _cut(kept[member_id], quota, left)
        elif sizes[member_id] < quota:
            room.append((member_id, quota - sizes[member_id]))
    unassigned = [(topic, partition) for topic in sorted(left) for partition in sorted(left[topic])]
    gained: dict[str, list[tuple[TopicId, int]]] = {member_id: [] for member_id, _ in room}
    dealt = iter(unassigned)
    while room:
        for member_id, _ in room:
            gained[member_id].append(next(dealt))
        room = [(member_id, more) for member_id, more in room if len(gained[member_id]) < more]
    for member_id, partitions in gained.items():
        partitions += [(topic, partition) for topic, numbers in kept[member_id].items() for partition in numbers]
        kept[member_id] = _grouped(partitions, members[member_id].target)
    return kept


def _take(target: Assignment, left: Mapping[TopicId, set[int]]) -> Assignment:
    """Retain the valid part of the target, and take it from the available set; the same object if all is valid."""
    if all(topic in left and left[topic].issuperset(numbers) for topic, numbers in target.items()):
        kept = target
    else:
        found = {topic: numbers & left[topic] for topic, numbers in target.items() if topic in left}
        kept = {topic: numbers for topic, numbers in found.items() if numbers}
    for topic, numbers in kept.items():
        left[topic].difference_update(numbers)
    return kept


def _cut(target: Assignment, quota: int, left: Mapping[TopicId, set[int]]) -> Assignment:
    """Keep the first `quota` partitions of a target; make the others available again."""
    partitions = [(topic, partition) for topic in sorted(target) for partition in sorted(target[topic])]
    for topic, partition in partitions[quota:]:
        left[topic].add(partition)
    return _grouped(partitions[:quota], target)


def _grouped(partitions: Collection[tuple[TopicId, int]], before: Assignment) -> Assignment:
    by_topic: dict[TopicId, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return _unchanged({topic: frozenset(numbers) for topic, numbers in by_topic.items()}, before)


def _unchanged(target: Assignment, before: Assignment) -> Assignment:
    """The earlier object if both are equal, which makes later comparisons fast."""
    return before if target == before else target


class _Balance:
    """The uniform assignment of members that subscribe to different topics.

    Each member keeps its partitions of subscribed topics. Topic by topic, the remaining partitions go to the subscriber
    with least. Then partitions of a topic move from its subscriber with most to the one with least while these differ
    by two or more, topic after topic, until a whole round moves nothing.
    """

    def __init__(self, members: Mapping[str, Subscriber], counts: Mapping[TopicId, int]) -> None:
        self._members = members
        self._counts = counts
        self._ids = sorted(members)
        self._loads = [0] * len(self._ids)
        self._owners: dict[TopicId, list[int]] = {}  # topic -> for each partition the index of the member, or -1
        self._subscribers: dict[TopicId, list[int]] = {}
        for index, member_id in enumerate(self._ids):
            for topic in members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(index)
        for topic in self._subscribers:
            self._owners[topic] = [-1] * counts[topic]

    def assign(self) -> dict[str, Assignment]:
        for index, member_id in enumerate(self._ids):
            for topic, partition in _claims(self._members[member_id], self._counts):
                if self._owners[topic][partition] < 0:
                    self._owners[topic][partition] = index
                    self._loads[index] += 1
        topics = sorted(self._subscribers, key=self._order)
        for topic in topics:
            self._deal(topic)
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        partitions: list[list[tuple[TopicId, int]]] = [[] for _ in self._ids]
        for topic, owners in self._owners.items():
            for partition, index in enumerate(owners):
                partitions[index].append((topic, partition))
        return {
            member_id: _grouped(partitions[index], self._members[member_id].target)
            for index, member_id in enumerate(self._ids)
        }

    def _order(self, topic: TopicId) -> tuple[float, int, TopicId]:
        """Sort topics with many partitions per subscriber first: those with few then even out the rest."""
        return (-self._counts[topic] / len(self._subscribers[topic]), len(self._subscribers[topic]), topic)

    def _deal(self, topic: TopicId) -> None:
        owners = self._owners[topic]
        if -1 not in owners:
            return
        least = [(self._loads[index], index) for index in self._subscribers[topic]]
        heapq.heapify(least)
        for partition, owner in enumerate(owners):
            if owner < 0:
                load, index = least[0]
                owners[partition] = index
                self._loads[index] = load + 1
                heapq.heapreplace(least, (load + 1, index))

    def _balance(self, topics: list[TopicId]) -> None:
        """Move partitions until every topic in turn is balanced, or `ROUNDS` are over."""
        balanced = 0
        for _ in range(ROUNDS):
            for topic in topics:
                balanced = 0 if self._move(topic) else balanced + 1
                if balanced >= len(topics):
                    return

    def _move(self, topic: TopicId) -> bool:
        """Even out the loads of the topic's subscribers with the topic's partitions; true if a partition moved."""
        loads = self._loads
        subscribers = self._subscribers[topic]
        if max(loads[index] for index in subscribers) - min(loads[index] for index in subscribers) < 2:
            return False
        owned: dict[int, list[int]] = {}
        for partition, index in enumerate(self._owners[topic]):
            owned.setdefault(index, []).append(partition)
        most = [(-loads[index], index) for index in owned]
        least = [(loads[index], index) for index in subscribers]
        heapq.heapify(most)
        heapq.heapify(least)
        moved = False
        while most:
            index = most[0][1]
            if not owned.get(index):
                heapq.heappop(most)
            elif -most[0][0] != loads[index]:
                heapq.heapreplace(most, (-loads[index], index))
            elif least[0][0] != loads[least[0][1]]:
                heapq.heapreplace(least, (loads[least[0][1]], least[0][1]))
            elif loads[index] - least[0][0] < 2:
                break
            else:
                receiver = least[0][1]
                partition = owned[index].pop()
                self._owners[topic][partition] = receiver
                owned.setdefault(receiver, []).append(partition)
                loads[index] -= 1
                loads[receiver] += 1
                moved = True
        return moved
