"""A member of a consumer group, and its steps from its assignment to its target (KIP-848, "Reconciliation").

    STABLE ----a newer target, and partitions to give up----> UNREVOKED_PARTITIONS
      |  ^                                                        | the member reports that it has given them up
      |  +----all of its target is free and assigned--------------+
      |  |                                                        v
      +--+--> UNRELEASED_PARTITIONS <----others still own some of its target

A member reaches the epoch of the target when all its partitions are in its target. A member gets a partition only when
no member owns it. A member owns the partitions assigned to it, and those that it has yet to give up: so no two members
ever own the same partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headgate.gateway.coordinator.groups.consumer.assignors import NOTHING, Assignment, TopicId
from headgate.protocol.internal.offsets import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ClassicMemberMetadata,
)
from headgate.protocol.messages.consumer_group_heartbeat import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, TopicPartitions

Owned = Mapping[TopicId, Collection[int]]
"""The partitions that a member reports to read."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """The state in a member's records; immutable.

    topics      the names it subscribes to        expression  the expression it subscribes to; empty for none
    epoch       of the target that it has reached; 0 before the first, LEAVE_STATIC_EPOCH while a static one is away
    state       STABLE, UNREVOKED_PARTITIONS or UNRELEASED_PARTITIONS
    assigned    partitions that it may read       revoking    partitions to give up first, and still owned
    classic     session timeout and protocols of a member with the classic protocol; else None
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    expression: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)

    @property
    def owns(self) -> Iterable[tuple[TopicId, Collection[int]]]:
        """All partitions that no other member may get, by topic."""
        yield from self.assigned.items()
        yield from self.revoking.items()

    def is_at(self, epoch: int) -> bool:
        """Whether the member has all of the target of that epoch."""
        return self.epoch == epoch and self.state == STABLE

    def moved_to(self, epoch: int, state: int, assigned: Assignment, revoking: Assignment = NOTHING) -> ConsumerMember:
        """The member after a step."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)

    def away(self) -> ConsumerMember:
        """A static member that will return: it keeps its assignment until its session ends (KIP-345)."""
        return replace(self, epoch=LEAVE_STATIC_EPOCH, revoking=NOTHING)

    def gone(self) -> ConsumerMember:
        """A member whose current assignment was deleted, before its own deletion."""
        return replace(self, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING, revoking=NOTHING)

    def successor(self, member_id: str) -> ConsumerMember:
        """The same static member after a restart of its process, with its new id."""
        return replace(self, member_id=member_id, epoch=0, previous_epoch=0)


def owned(reported: Collection[TopicPartitions] | None) -> Owned | None:
    """The partitions that a heartbeat reports to read; None without a report."""
    if reported is None:
        return None
    by_topic: dict[TopicId, set[int]] = {}
    for topic in reported:
        by_topic.setdefault(topic.topic_id, set()).update(topic.partitions)
    return by_topic


def is_within(reported: Owned | None, assigned: Assignment) -> bool:
    """True if the reported partitions are a subset of the assignment; a missing report is false."""
    if reported is None:
        return False
    return all(assigned.get(topic, frozenset()).issuperset(numbers) for topic, numbers in reported.items())


def holds(reported: Owned | None, partitions: Assignment) -> bool:
    """Whether a member may still read one of these partitions; true for a missing report."""
    if reported is None:
        return True
    return any(not partitions.get(topic, frozenset()).isdisjoint(numbers) for topic, numbers in reported.items())


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    wanted: Collection[TopicId],
    is_free: Callable[[TopicId, int], bool],
    reported: Owned | None,
    has_resubscribed: bool = False,
) -> ConsumerMember:
    """The member after the next step towards its target; the same object if no step is possible now.

    `wanted`: the existing topics that the member subscribes to; it gives up partitions of all others, whatever the
    target says. `is_free`: whether no member owns a partition.
    """
    if member.is_at(target_epoch) or (member.state == UNREVOKED_PARTITIONS and holds(reported, member.revoking)):
        return _give_up_unwanted(member, wanted, reported) if has_resubscribed else member
    kept: dict[TopicId, frozenset[int]] = {}
    revoking: dict[TopicId, frozenset[int]] = {}
    gained: dict[TopicId, frozenset[int]] = {}
    is_waiting = False
    for topic in {**target, **member.assigned}:
        now = member.assigned.get(topic, frozenset())
        then = target.get(topic, frozenset()) if topic in wanted else frozenset()
        own = member.revoking.get(topic, frozenset())
        missing = then - now
        free = frozenset(number for number in missing if number in own or is_free(topic, number))
        is_waiting |= len(free) < len(missing)
        for parts, numbers in ((kept, now & then), (revoking, now - then), (gained, free)):
            if numbers:
                parts[topic] = numbers
    if revoking and holds(reported, revoking):
        return member.moved_to(member.epoch, UNREVOKED_PARTITIONS, kept, revoking)
    assigned = {topic: kept.get(topic, frozenset()) | gained.get(topic, frozenset()) for topic in {**kept, **gained}}
    state = UNRELEASED_PARTITIONS if is_waiting else STABLE
    if (member.epoch, member.state, member.assigned, member.revoking) == (target_epoch, state, assigned, NOTHING):
        return member
    return member.moved_to(target_epoch, state, assigned)


def _give_up_unwanted(member: ConsumerMember, wanted: Collection[TopicId], reported: Owned | None) -> ConsumerMember:
    """Give up unsubscribed partitions at once, after a new subscription whose target is still missing."""
    unwanted = {topic: numbers for topic, numbers in member.assigned.items() if topic not in wanted}
    if not unwanted:
        return member
    kept = {topic: numbers for topic, numbers in member.assigned.items() if topic in wanted}
    revoking = {
        topic: member.revoking.get(topic, frozenset()) | unwanted.get(topic, frozenset())
        for topic in {**member.revoking, **unwanted}
    }
    if holds(reported, revoking):
        return member.moved_to(member.epoch, UNREVOKED_PARTITIONS, kept, revoking)
    return member.moved_to(member.epoch, member.state, kept)
