"""A shard without a log and without a loop, for pure tests of its machines.

    desk = Desk(topics={"orders": 6})
    ticket = desk.ticket()
    replies = desk.run(classic.join(desk.shard, request, CALLER, ticket, desk.now_ms))
    assert replies == [(ticket, JoinGroupResponse(...))]
    assert desk.records[-1] == (GroupMetadataKey("group"), GroupMetadataValue(...))

`run` does what the runtime does: replays the records into the shard and remembers them. `check_rebuilt` compares with
a fresh shard that is made of the records alone; every test may end with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

from headgate.gateway.coordinator.decision import Decision, Reply, RequestContext, Ticket
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.offsets import GroupOffsets
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.shard_factory import new_shard
from headgate.protocol.internal.offsets import UnknownType, decode, encode_key, encode_value
from headgate.protocol.schema import Message

CALLER = RequestContext("client", "/192.0.2.9", 9)
START_MS = 1_000_000.0
"""Where the monotonic time of a test begins: not at zero, so that who mixes up the clocks is found out."""
WALL_MS = 1_700_000_000_000


class FakeTicket(Ticket):
    """A ticket with a name for failures to show. `hang_up` makes its connection go."""

    __slots__ = ("is_gone", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_gone = False

    def __repr__(self) -> str:
        return f"Ticket({self.name})"

    def hang_up(self) -> None:
        self.is_gone = True


class FakeTopics:
    """Topics by their number of partitions; ids are made of names."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.topics = dict(topics)
        self.generation = 0

    def set(self, name: str, partitions: int) -> None:
        """Make a topic, let it grow, or with 0 delete it."""
        self.generation += 1
        if partitions:
            self.topics[name] = partitions
        else:
            del self.topics[name]

    def partitions_of(self, name: str) -> int:
        return self.topics.get(name, 0)

    def id_of(self, name: str) -> bytes | None:
        return topic_id(name) if name in self.topics else None

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name in self.topics if self.id_of(name) == topic_id), None)

    def names(self) -> Collection[str]:
        return self.topics.keys()


def topic_id(name: str) -> bytes:
    """The id that `FakeTopics` gives to a topic of that name (at most 16 bytes long)."""
    return name.encode().ljust(16, b"\0")


class Desk:
    """A shard, its time, and all that was written and answered."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: GroupSettings | None = None,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        seed: int = 0,
    ) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0)
        self.topics = FakeTopics(topics or {})
        self.configs = {group: dict(own) for group, own in (configs or {}).items()}
        self._seed = seed
        self.shard = self.new_shard()
        self.now_ms = START_MS
        self.batches: list[list[tuple[Message, Message | None]]] = []
        self.replies: list[tuple[Ticket, Reply]] = []
        self._tickets = 0
        self._replica = 0, self.new_shard()

    def new_shard(self) -> GroupShard:
        """An empty one over the same topics and settings."""
        return new_shard(
            self.settings,
            self.topics,
            Random(self._seed),
            lambda: self.timestamp_ms,
            lambda group: self.configs.get(group, {}),
        )

    @property
    def records(self) -> list[tuple[Message, Message | None]]:
        """All that was written."""
        return [record for batch in self.batches for record in batch]

    @property
    def timestamp_ms(self) -> int:
        """The time of the wall."""
        return WALL_MS + int(self.now_ms - START_MS)

    def ticket(self, name: str = "") -> FakeTicket:
        """A new one."""
        self._tickets += 1
        return FakeTicket(name or str(self._tickets))

    def run(self, decision: Decision, group_id: str | None = None) -> list[tuple[Ticket, Reply]]:
        """Write and replay what was decided, and return the replies that go out."""
        if decision.records:
            self.batches.append(list(decision.records))
        for key, value in decision.records:
            self.shard.replay(key, value, self.timestamp_ms)
        for group in [group_id] if group_id else list(self.shard.groups):
            self.shard.note_due(group)
        self.replies += decision.replies
        return decision.replies

    def fail(self, decision: Decision) -> None:
        """What the runtime does when the append fails: nothing is replayed. The replies become errors."""
        if decision.failed is not None:
            decision.failed()

    def advance(self, milliseconds: float) -> list[tuple[Ticket, Reply]]:
        """Let time pass, with every tick at its moment; returns the replies that went out meanwhile."""
        replies: list[tuple[Ticket, Reply]] = []
        end_ms = self.now_ms + milliseconds
        while self.shard.timers.due_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.shard.timers.due_ms)
            group_id = self.shard.take_due(self.now_ms)
            if group_id is not None:
                replies += self.run(self.shard.tick(group_id, self.now_ms), group_id)
        self.now_ms = end_ms
        return replies

    def change_topic(self, name: str, partitions: int) -> list[tuple[Ticket, Reply]]:
        """Make a topic, let it grow, or with 0 delete it; and tell all groups."""
        self.topics.set(name, partitions)
        replies: list[tuple[Ticket, Reply]] = []
        for group in list(self.shard.groups.values()):
            replies += self.run(group.topics_changed(self.shard, [name], self.now_ms))
        return replies

    def rebuilt(self) -> GroupShard:
        """A shard made of the records alone, through their bytes."""
        shard = self.new_shard()
        for key, value in self.records:
            read = decode(encode_key(key), None if value is None else encode_value(value))
            assert not isinstance(read, UnknownType)
            shard.replay(*read, self.timestamp_ms)
        return shard

    @property
    def replica(self) -> GroupShard:
        """The same, only to be looked at: made once more when something was written since."""
        if self._replica[0] != len(self.batches):
            self._replica = len(self.batches), self.rebuilt()
        return self._replica[1]

    def check_rebuilt(self) -> None:
        """The property of every machine: the live hard state is the one rebuilt from the records."""
        assert persistent_state(self.replica) == persistent_state(self.shard)


def persistent_state(shard: GroupShard) -> object:
    """The hard state of a shard, to be compared."""
    return {name: state_of_group(group) for name, group in shard.groups.items()}, state_of_offsets(shard.offsets)


def state_of_group(group: object) -> object:
    """The content of a group's records: a live group and its replay must be equal."""
    if isinstance(group, ClassicGroup):
        return group.recorded
    assert isinstance(group, ConsumerGroup)
    return (
        (group.epoch, group.metadata_hash, group.target_epoch, group.has_partition_metadata),
        dict(group.members),
        dict(group.targets),
        dict(group.resolved),
        {topic: dict(owners) for topic, owners in group.owners.items()},
        dict(group.static),
    )


def state_of_offsets(offsets: GroupOffsets) -> object:
    """All offsets, with decoded values: one value may have several encodings."""
    state: dict[object, object] = {group_id: offsets.of(group_id) for group_id in offsets.groups}
    for group_id, vectors in offsets.pending.items():
        state.update({(group_id, producer_id): vector for producer_id, vector in vectors.items()})
    return state
