"""The target of a consumer group: computed at once for all members and one epoch of the group (KIP-848).

The group's epoch goes up when members, subscriptions or topics change. The next heartbeat of any member then computes
the target, and writes the difference: the members with a new part, and the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.gateway.coordinator.decision import Records
from headgate.gateway.coordinator.groups.consumer import group_records
from headgate.gateway.coordinator.groups.consumer.assignors import ASSIGNORS, NOTHING, Assignor, Subscriber, TopicId
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.group_shard import TopicsView
from headgate.gateway.coordinator.groups.settings import GroupSettings


def supported(settings: GroupSettings) -> list[str]:
    """The assignors that members may ask for; the first is the default."""
    return [name for name in settings.consumer_assignors if name in ASSIGNORS] or list(ASSIGNORS)


def assignor_of(group: ConsumerGroup, settings: GroupSettings) -> Assignor:
    """The assignor with the votes of most members, unless the settings no longer have it."""
    names = supported(settings)
    preferred = group.preferred_assignor()
    return ASSIGNORS[preferred if preferred in names else names[0]]


def ids_of(names: Iterable[str], topics: TopicsView) -> frozenset[TopicId]:
    """The ids of the existing topics."""
    ids = (topics.id_of(name) for name in names)
    return frozenset(topic for topic in ids if topic is not None)


def compute(group: ConsumerGroup, topics: TopicsView, settings: GroupSettings) -> Records:
    """The records that bring the target to the group's epoch."""
    counts: dict[TopicId, int] = {}
    for name in group.subscribed():
        topic = topics.id_of(name)
        if topic is not None:
            counts[topic] = topics.partitions_of(name)
    # Members with equal subscriptions share one set, so that comparing sets costs nothing
    wanted: dict[frozenset[str], frozenset[TopicId]] = {}
    subscribers: dict[str, Subscriber] = {}
    for member in group.members.values():
        names = group.topics_of(member)
        if names not in wanted:
            wanted[names] = ids_of(names, topics)
        target = group.targets.get(member.member_id, NOTHING)
        subscribers[member.member_id] = Subscriber(wanted[names], target, member.instance_id)
    assigned = assignor_of(group, settings)(subscribers, counts)
    records: Records = [
        group_records.target(group.group_id, member_id, target)
        for member_id, target in assigned.items()
        if member_id not in group.targets or target != group.targets[member_id]
    ]
    records.append(group_records.target_epoch(group.group_id, group.epoch))
    return records
