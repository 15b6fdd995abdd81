"""A shard: the groups and offsets of one partition of `__consumer_offsets`, and what all machines share.

Pure: no clock, no log. `Shard.replay` is the only mutator of hard state; it finds the machine by the type of the key:

| key | machine |
|---|---|
| OffsetCommitKey (0, 1) | `shard.offsets.replay(key, value, timestamp_ms)`; makes an empty classic group if need be |
| GroupMetadataKey (2) | `classic.replay(shard, key, value)` |
| ConsumerGroup...Key (3-8, 16) | `consumer.replay(shard, key, value)` |

Machines import this module for its types only (`if TYPE_CHECKING`): it imports them at their first record.

What may happen in `replay`: a tombstone for what is not there, a record that was there before, records of a group that
has become one of the other kind (old members' tombstones come first, in the batch that converts it). It raises for
nothing that a machine of ours wrote; what it cannot take from others raises ValueError, and is counted and skipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from random import Random
from typing import Any, Protocol
from uuid import UUID

from headgate.gateway.coordinator.decision import NEVER, Decision, Records
from headgate.gateway.coordinator.group_settings import GroupSettings
from headgate.gateway.coordinator.offsets import Offsets
from headgate.protocol.internal import offsets as records
from headgate.protocol.schema import Message


class Group(Protocol):
    """What every kind of group has. Times are monotonic, but for those that say timestamp.

    `due_ms` is the earliest moment at which it wants a `tick`, `NEVER` if there is none. It may be too early, never too
    late: whoever lowers it does so while deciding, and the shard looks at it after every decision about the group.
    """

    group_id: str
    due_ms: float

    @property
    def kind(self) -> str:
        """The type that ListGroups has: "classic" or "consumer"."""

    @property
    def protocol_type(self) -> str:
        """That of a group of consumers is "consumer"; empty if it never had members, only offsets."""

    @property
    def state(self) -> str:
        """Its name as Kafka writes it: "Stable", "PreparingRebalance", "Empty", "Assigning" ..."""

    def loaded(self, now_ms: float) -> None:
        """All its records were replayed after a start: sessions begin anew for all members."""

    def tick(self, shard: Shard, now_ms: float) -> Decision:
        """It was due, or it is asked without need: expire members, end rebalances; set `due_ms` anew."""

    def topics_changed(self, shard: Shard, names: Collection[str], now_ms: float) -> Decision:
        """These topics came, went or grew; `shard.topics` has them as they are now. Classic groups do nothing."""

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, now_ms: float
    ) -> None:
        """Whether that member may commit offsets now; a commit also counts as a heartbeat of a classic member.

        `version` is that of OffsetCommit. Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
        """

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether that member may fetch offsets (OffsetFetch v9).

        Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """

    def check_delete(self) -> None:
        """Whether the group may be deleted. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def check_offset_delete(self) -> None:
        """Whether offsets of it may be deleted. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member does; then its offsets are not deleted, and do not expire."""

    def expires_from(self, committed_ms: int) -> int | None:
        """The timestamp from which the retention of an offset that was committed then counts; None while it is kept.

        Kafka's `Group.offsetExpirationCondition` (KIP-211).
        """

    def tombstones(self) -> Records:
        """The records that delete the group with all that is kept of it, but for its offsets."""

    def persistent_state(self) -> object:
        """What its records say, as a value that can be compared: live and rebuilt groups must have the same."""


class TopicsView(Protocol):
    """The topics that exist now. `generation` is another number after every change."""

    @property
    def generation(self) -> int: ...

    def partitions_of(self, name: str) -> int:
        """How many partitions the topic has; 0 if there is none of that name."""

    def id_of(self, name: str) -> bytes | None:
        """Its id, 16 bytes."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The name behind an id."""

    def names(self) -> Collection[str]:
        """All of them, in no order."""


Replay = Callable[["Shard", Any, Any, int], None]


class Shard:
    """The state of one partition of `__consumer_offsets`.

    `random` is the one source of chance. `configs_of` gives a group's own configs, by Kafka's names. `timestamp_ms` is
    the clock on the wall, for records that say when something was: deadlines are never made of it.
    """

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicsView,
        random: Random,
        timestamp_ms: Callable[[], int],
        configs_of: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.random = random
        self.timestamp_ms = timestamp_ms
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._configs_of = configs_of
        self._due: list[tuple[float, str]] = []
        self._noted: dict[str, float] = {}

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings, with those of the group itself (resources of type GROUP)."""
        configs = self._configs_of(group_id)
        return self.settings.with_group(configs) if configs else self.settings

    def new_member_id(self, client_id: str) -> str:
        """`<client id>-<uuid>`, as Kafka makes them for classic members."""
        return f"{client_id}-{self.new_uuid()}"

    def new_uuid(self) -> UUID:
        """A random one (RFC 9562, version 4)."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # Records

    def replay(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        """Change the hard state as one record says. Raises ValueError for a record that no machine takes."""
        replay = _REPLAY.get(type(key))
        if replay is None:
            raise ValueError(f"no machine takes records with a {type(key).__name__}")
        replay(self, key, value, timestamp_ms)

    def loaded(self, now_ms: float) -> None:
        """Everything was replayed: start the clocks of all groups."""
        for _ in self.start_clocks(now_ms):
            pass

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        """`loaded`, one group a step: there may be very many."""
        for group_id, group in self.groups.items():
            group.loaded(now_ms)
            self.note_due(group_id)
            yield

    # Time

    def note_due(self, group_id: str) -> None:
        """A decision about the group was made: remember when it wants its next tick, if that is sooner than known."""
        group = self.groups.get(group_id)
        if group is not None and group.due_ms < self._noted.get(group_id, NEVER):
            self._noted[group_id] = group.due_ms
            heapq.heappush(self._due, (group.due_ms, group_id))

    @property
    def due_ms(self) -> float:
        """When the first group wants a tick."""
        return self._due[0][0] if self._due else NEVER

    def take_due(self, now_ms: float) -> str | None:
        """The id of a group that is due, which has to be ticked and noted; None if there is none."""
        while self._due and self._due[0][0] <= now_ms:
            when_ms, group_id = heapq.heappop(self._due)
            if self._noted.get(group_id) == when_ms:
                del self._noted[group_id]
                if group_id in self.groups:
                    return group_id
        return None


# Machines import what they need of this module's types only; it imports them at their first use, so that neither has to
# be there before the other.


def _replay_offset(shard: Shard, key: Any, value: Any, timestamp_ms: int) -> None:
    """Offsets of a group that never had members make it, as in Kafka (a "simple" group)."""
    if value is not None and key.group not in shard.groups:
        from headgate.gateway.coordinator.groups.classic import ClassicGroup

        shard.groups[key.group] = ClassicGroup(key.group)
    shard.offsets.replay(key, value, timestamp_ms)


def _replay_classic(shard: Shard, key: Any, value: Any, _: int) -> None:
    from headgate.gateway.coordinator.groups import classic

    classic.replay(shard, key, value)


def _replay_consumer(shard: Shard, key: Any, value: Any, _: int) -> None:
    from headgate.gateway.coordinator.groups import consumer

    consumer.replay(shard, key, value)


_REPLAY: dict[type[Message], Replay] = {
    records.OffsetCommitKey: _replay_offset,
    records.GroupMetadataKey: _replay_classic,
    records.ConsumerGroupMetadataKey: _replay_consumer,
    records.ConsumerGroupPartitionMetadataKey: _replay_consumer,
    records.ConsumerGroupMemberMetadataKey: _replay_consumer,
    records.ConsumerGroupTargetAssignmentMetadataKey: _replay_consumer,
    records.ConsumerGroupTargetAssignmentMemberKey: _replay_consumer,
    records.ConsumerGroupCurrentMemberAssignmentKey: _replay_consumer,
    records.ConsumerGroupRegularExpressionKey: _replay_consumer,
}
