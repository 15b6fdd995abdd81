"""The migration of groups between ZooKeeper and the coordinator: decisions about steps, and differences. Pure.

    separate --start--> dual --finish--> kafka
    separate <--finish --in zookeeper-- dual <--back-- kafka

Every step may be repeated: a group that has made it stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import shorten_list
from headgate.tools.groups.members import ZOOKEEPER, MemberDescription
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata
from headgate.tools.groups.stores import DUAL, KAFKA, SEPARATE, StoreSettings, ZooKeeperOffsets

_NAMES: Final = {ZOOKEEPER: "ZooKeeper", KAFKA: "the coordinator"}


_REMAINS: Final = {
    KAFKA: "ZooKeeper keeps a killed member until its session ends: zookeeper.session.timeout.ms of that client, 6 s "
    "by default, and the broker shows members for 3 s more",
    SEPARATE: "the coordinator keeps a killed member for session.timeout.ms of that client, 45 s by default",
}
"""Store after a step -> how long a dead member stays listed. No protocol reports the remaining session time."""


class MigrationStep(Enum):
    """A step of the migration; the value is what a user types."""

    START = "start"
    FINISH = "finish"
    FINISH_IN_ZOOKEEPER = "finish --in zookeeper"
    BACK = "back"


class GroupStores(NamedTuple):
    """A group in both stores. Members of ZooKeeper may commit to either store, members of Kafka only to Kafka's."""

    name: str
    settings: StoreSettings
    zookeeper: ZooKeeperOffsets
    kafka: CommittedOffsets
    zookeeper_members: Sequence[MemberDescription] = ()
    kafka_members: Sequence[MemberDescription] = ()

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions with an offset in either store."""
        return self.zookeeper.offsets.keys() | self.kafka.keys()


class StepDecision(NamedTuple):
    """The decision about a step of a group: new settings, or a `refusal`; neither if the group has made the step."""

    settings: StoreSettings | None = None
    refusal: str = ""


class Difference(NamedTuple):
    """A partition in which the stores differ. `cause` is a sentence for people."""

    partition: TopicPartition
    zookeeper: int | None
    kafka: int | None
    cause: str

    @property
    def records(self) -> int:
        """The distance; 0 where one side has no offset."""
        return 0 if self.zookeeper is None or self.kafka is None else abs(self.zookeeper - self.kafka)


class StepEffect(NamedTuple):
    """The effect of entering DUAL on one partition. `after`: the offset in both stores; None if neither has one."""

    partition: TopicPartition
    zookeeper: int | None
    kafka: int | None
    after: int | None
    change: str


def decide(
    group: GroupStores,
    step: MigrationStep,
    source: str = ZOOKEEPER,
    differences: Sequence[Difference] = (),
    *,
    is_forced: bool = False,
) -> StepDecision:
    """Decide about a step of a group. `source`: the leading side of a start. `is_forced`: ignore live members.

    Lasting `differences` in DUAL refuse a finish.
    """
    match step:
        case MigrationStep.START:
            return _start(group, source, is_forced=is_forced)
        case MigrationStep.FINISH:
            return _finish(group, KAFKA, differences, is_forced=is_forced)
        case MigrationStep.FINISH_IN_ZOOKEEPER:
            return _finish(group, SEPARATE, differences, is_forced=is_forced)
        case MigrationStep.BACK:
            return _back(group)


def _start(group: GroupStores, source: str, *, is_forced: bool) -> StepDecision:
    store, leads, _ = group.settings
    if store == KAFKA:
        return StepDecision(refusal="its offsets are the coordinator's alone already; `back` returns it to both stores")
    if store == DUAL:
        if not group.settings.is_carrying or leads in (source, ""):
            return StepDecision()
        return StepDecision(refusal=f"its offsets are carried over from {_NAMES[leads]} at this moment; wait for that")
    if "/" in group.name:
        return StepDecision(refusal="it cannot be in ZooKeeper, as its name has a slash")
    if source == ZOOKEEPER and group.kafka_members and not is_forced:
        members = _named(group.kafka_members)
        return StepDecision(
            refusal=f"ZooKeeper's offsets would replace those that its members commit to the coordinator: {members}; "
            "stop them, name --source kafka, or --force"
        )
    return StepDecision(StoreSettings(DUAL, source))


def _finish(group: GroupStores, store: str, differences: Sequence[Difference], *, is_forced: bool) -> StepDecision:
    if group.settings.store == store:
        return StepDecision()
    if group.settings.store != DUAL:
        step = MigrationStep.START if store == KAFKA else MigrationStep.BACK
        return StepDecision(refusal=f"it is {group.settings.store}, not {DUAL}; `{step.value}` comes first")
    if group.settings.is_carrying:
        return StepDecision(refusal=f"its offsets are not in both stores yet: {group.settings.status}")
    if differences:
        shown = shorten_list([str(difference.partition) for difference in differences])
        return StepDecision(refusal=f"the stores differ in {shown}; `verify` says why")
    members = group.zookeeper_members if store == KAFKA else group.kafka_members
    if members and not is_forced:
        what = (
            "may commit to ZooKeeper, and only you know their offsets.storage" if store == KAFKA else "commit to Kafka"
        )
        return StepDecision(
            refusal=f"its members {what}: {_named(members)}; stop them, or --force if they do not; {_REMAINS[store]}"
        )
    return StepDecision(StoreSettings(store))


def _back(group: GroupStores) -> StepDecision:
    if group.settings.store == KAFKA:
        return StepDecision(StoreSettings(DUAL, KAFKA))
    if group.settings.store == DUAL:
        return StepDecision()
    return StepDecision(refusal="its stores are separate; `start --source kafka` carries its offsets to ZooKeeper")


def _named(members: Sequence[MemberDescription]) -> str:
    return shorten_list([str(member) for member in members])


def effects(group: GroupStores, source: str, problems: Mapping[TopicPartition, Failure] = {}) -> Iterator[StepEffect]:
    """The effects of entering DUAL on the partitions in which the stores differ, sorted.

    The offset of the leading side wins; without one, the offset of the other side counts. Unreadable nodes, and
    `problems` of the partitions themselves, are reported.
    """
    (zookeeper, unreadable), kafka = group.zookeeper, group.kafka
    for partition in sorted(zookeeper.keys() | kafka.keys() | unreadable.keys()):
        ours, theirs = _offset(zookeeper, partition), _offset(kafka, partition)
        if ours is None or (theirs is not None and source == KAFKA):
            name, before, after = ZOOKEEPER, ours, theirs
        else:
            name, before, after = KAFKA, theirs, ours
        changes = []
        if before != after and after is not None:
            changes.append(f"{name} gets it" if before is None else f"{name} moves by {after - before:+d}")
        if partition in unreadable:
            changes.append(_unreadable(unreadable[partition]))
        if changes:
            changes += [problems[partition].text] if partition in problems else []
            yield StepEffect(partition, ours, theirs, after, "; ".join(changes))


def compare(group: GroupStores, problems: Mapping[TopicPartition, Failure] = {}) -> Iterator[Difference]:
    """The partitions in which the stores differ, sorted. `problems` of the partitions themselves are causes too."""
    zookeeper, unreadable = group.zookeeper
    for partition in sorted(zookeeper.keys() | group.kafka.keys() | unreadable.keys()):
        ours, theirs = _offset(zookeeper, partition), _offset(group.kafka, partition)
        if ours == theirs and partition not in unreadable:
            continue
        if partition in unreadable:
            what = _unreadable(unreadable[partition])
        elif ours is None or theirs is None:
            what = f"only {_NAMES[KAFKA if ours is None else ZOOKEEPER]} has an offset"
        else:
            what = f"{_NAMES[ZOOKEEPER if ours > theirs else KAFKA]} is {abs(ours - theirs)} ahead"
        why = problems[partition].text if partition in problems else _state_as_cause(group.settings)
        yield Difference(partition, ours, theirs, f"{what}; {why}")


def _unreadable(why: Failure) -> str:
    return f"the node in ZooKeeper cannot be read: {why.text}"


def _state_as_cause(settings: StoreSettings) -> str:
    if settings.store == SEPARATE:
        return "the stores are separate"
    if settings.store == KAFKA:
        return "ZooKeeper is not kept any more"
    return settings.status if settings.is_carrying else "see the broker's log"


def have_moved(before: GroupStores, after: GroupStores, partition: TopicPartition) -> bool:
    """True if both stores have a new offset since an earlier read: the group commits, and a read takes time."""
    return all(
        _offset(old, partition) != _offset(new, partition)
        for old, new in ((before.zookeeper.offsets, after.zookeeper.offsets), (before.kafka, after.kafka))
    )


def _offset(offsets: Mapping[TopicPartition, OffsetAndMetadata], partition: TopicPartition) -> int | None:
    row = offsets.get(partition)
    return None if row is None else row.offset
