"""The shard of the group coordinator: the groups and offsets of one partition of `__consumer_offsets`.

Pure: no clock, no log. `GroupShard.replay` and `replay_marker` are the only mutators of hard state. The class of the
key selects the function that replays a record:

| key | replayed by |
|---|---|
| OffsetCommitKey (0, 1) | `shard.offsets`; creates an empty classic group if there is none |
| GroupMetadataKey (2) | `classic` |
| ConsumerGroup...Key (3-8, 16) | `consumer` |

`shard_factory.new_shard` makes a shard with both protocols. Both protocols import this module for its types
only; the shard has their functions as `GroupFunctions`.

`replay` must accept a tombstone for a missing key, a repeated record, and records of a group that changed its type (the
old members' tombstones come first, in the batch of the conversion). `replay` raises for nothing that this program
wrote; it raises ValueError for a record of another program that it cannot apply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from headgate.gateway.coordinator.decision import NEVER, Decision, ProducerIdAndEpoch, Records, RequestContext, Ticket
from headgate.gateway.coordinator.groups.offsets import GroupOffsets
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.shard import RecordLoader
from headgate.gateway.coordinator.timers import Timers
from headgate.protocol.internal.offsets import OffsetCommitKey, UnknownType, check_offset, decode
from headgate.protocol.schema import Message

MAX_CACHED_KEYS = 10_000


class Group(Protocol):
    """The interface of every kind of group. Times are monotonic ms, except where the name says timestamp.

    `due_ms` is the earliest time at which the group wants a `tick`, or `NEVER`. `due_ms` may be too early, never too
    late: `GroupShard.note_due` follows each decision that lowers it.
    """

    group_id: str
    due_ms: float

    @property
    def kind(self) -> str:
        """The type in ListGroups: "classic" or "consumer"."""

    @property
    def protocol_type(self) -> str:
        """The type of protocol: "consumer" for consumers; empty for a group that never had members, only offsets."""

    @property
    def state(self) -> str:
        """The state by Kafka's name: "Stable", "PreparingRebalance", "Empty", "Assigning" ..."""

    def loaded(self, now_ms: float) -> None:
        """Restart the sessions of all members, after the replay of all records at a start."""

    def topics_changed(self, shard: GroupShard, names: Collection[str], now_ms: float) -> Decision:
        """React to topics that were created, deleted or grew; `shard.topics` has the present ones.

        Classic groups do nothing.
        """

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, now_ms: float
    ) -> None:
        """Check that the member may commit offsets now; a commit also counts as a heartbeat of a classic member.

        `version`: the version of OffsetCommit.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
        """

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Check that the member, if the request names one, may commit offsets within a transaction now (KIP-447).

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH.
        """

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that the member may fetch offsets (OffsetFetch v9).

        Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """

    def check_delete(self) -> None:
        """Check that the group may be deleted. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def check_offset_delete(self) -> None:
        """Check that offsets may be deleted. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; then the group's offsets of the topic stay."""

    def expires_from(self, committed_ms: int) -> int | None:
        """The timestamp at which the retention of an offset committed then begins; None while the offset is kept.

        Source: Kafka's `Group.offsetExpirationCondition` (KIP-211).
        """

    def tombstones(self) -> Records:
        """The records that delete the group, except its offsets."""


class TopicsView(Protocol):
    """The topics that exist now. `generation` changes with every change of the topics."""

    @property
    def generation(self) -> int: ...

    def partitions_of(self, name: str) -> int:
        """The number of partitions of a topic; 0 if no topic has that name."""

    def id_of(self, name: str) -> bytes | None:
        """The id of a topic, 16 bytes."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with an id."""

    def names(self) -> Collection[str]:
        """All names, in any order."""


RecordReplay: TypeAlias = Callable[["GroupShard", Any, Any], None]
Tick: TypeAlias = Callable[["GroupShard", Any, float], Decision]
ClassicRequest: TypeAlias = Callable[["GroupShard", Any, Any, RequestContext, Ticket, float], Decision]


class GroupFunctions(NamedTuple):
    """The functions of both group protocols, whose modules import this one.

    replays           class of a key -> the function that replays its records
    empty_group       returns an empty classic group with an id
    ticks             class of a group -> the function that expires members, ends rebalances, and sets `due_ms` again
    classic_requests  class of a request -> its handler for a consumer group with classic members (KIP-848)
    """

    replays: Mapping[type[Message], RecordReplay]
    empty_group: Callable[[str], Group]
    ticks: Mapping[type, Tick]
    classic_requests: Mapping[type[Message], ClassicRequest]


class GroupShard:
    """The state of one partition of `__consumer_offsets`, as a `CoordinatorShard`.

    random        the only source of chance
    timestamp_ms  the wall clock, for timestamps in records; never used for deadlines
    configs_of    a group's own configs, by Kafka's names
    """

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicsView,
        random: Random,
        timestamp_ms: Callable[[], int],
        configs_of: Callable[[str], Mapping[str, str]],
        functions: GroupFunctions,
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.random = random
        self.timestamp_ms = timestamp_ms
        self.groups: dict[str, Group] = {}
        self.offsets = GroupOffsets()
        self.timers = Timers()
        self._times = self.timers.times
        self._configs_of = configs_of
        self.functions = functions

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings of a group: the broker's, with the group's own configs (resources of type GROUP)."""
        configs = self._configs_of(group_id)
        return self.settings.with_group(configs) if configs else self.settings

    def new_member_id(self, client_id: str) -> str:
        """`<client id>-<uuid>`: Kafka's form of a classic member's id."""
        return f"{client_id}-{self.new_uuid()}"

    def new_uuid(self) -> UUID:
        """A random UUID (RFC 9562, version 4)."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # Records

    def replay(
        self, key: Message, value: Message | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Apply one record to the hard state. Raises ValueError for a key that belongs to no group.

        Only offsets are part of a transaction, as in Kafka; other records apply at once.
        """
        if type(key) is OffsetCommitKey:
            if value is not None and key.group not in self.groups:
                self.groups[key.group] = self.functions.empty_group(key.group)
            self.offsets.replay(key, value, producer)  # type: ignore[arg-type]
            return
        replay = self.functions.replays.get(type(key))
        if replay is None:
            raise ValueError(f"no group has records with a {type(key).__name__}")
        replay(self, key, value)

    def replay_marker(self, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        """End the producer's transaction: commit its offsets, or drop them."""
        self.offsets.end_transaction(producer.producer_id, is_commit)

    def record_loader(self) -> RecordLoader:
        """A function that replays encoded records, for one load.

        Most records of a log are offsets of few groups. So the function caches the group and topic of a key, and keeps
        the value encoded.
        """
        # The key without its partition, the last 4 bytes -> (group, topic)
        places: dict[bytes, tuple[str, str]] = {}
        groups, put = self.groups, self.offsets.put

        def load(key: bytes, value: bytes | None, timestamp_ms: int, producer: ProducerIdAndEpoch | None) -> bool:
            place = places.get(key[:-4])
            if place is not None and value and producer is None and place[0] in groups:
                check_offset(value)
                put(*place, int.from_bytes(key[-4:], "big"), value)
                return True
            decoded = decode(key, value)
            if isinstance(decoded, UnknownType):
                return False
            self.replay(*decoded, timestamp_ms, producer)
            if isinstance(decoded[0], OffsetCommitKey):
                if len(places) == MAX_CACHED_KEYS:
                    places.clear()
                places[key[:-4]] = decoded[0].group, decoded[0].topic
            return True

        return load

    # Time

    def start_clocks(self, now_ms: float) -> Iterator[None]:
        """Start the clocks of the groups after the replay, one group a step: there may be very many."""
        for group_id, group in self.groups.items():
            group.loaded(now_ms)
            self.note_due(group_id)
            yield

    def note_due(self, group_id: str) -> None:
        """Set the group's timer after a decision about the group."""
        group = self.groups.get(group_id)
        if group is not None and group.due_ms < self._times.get(group_id, NEVER):
            self.timers.set(group_id, group.due_ms)

    def take_due(self, now_ms: float) -> str | None:
        """Remove and return the id of a due group; the caller ticks and notes the group. None if no group is due."""
        while (group_id := self.timers.take(now_ms)) is not None:
            if group_id in self.groups:
                return group_id
        return None

    def tick(self, group_id: str, now_ms: float) -> Decision:
        """Tick the group, if it still exists. An unnecessary tick is allowed."""
        group = self.groups.get(group_id)
        return Decision() if group is None else self.functions.ticks[type(group)](self, group, now_ms)
