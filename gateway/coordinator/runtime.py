"""All coordinators of groups that this broker has, one for each partition of `__consumer_offsets` that it leads.

A group belongs to the partition that Java's hash of its id names, as in Kafka: so a data directory of Kafka is
understood here, and the other way round. The topic is made when a client first asks for a coordinator.
"""

from __future__ import annotations

import functools
import logging
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.resources import ResourceType
from headgate.gateway.coordinator import offset_expiration
from headgate.gateway.coordinator.coordinator import Coordinator, Decide, Lost, Tools
from headgate.gateway.coordinator.decision import NEVER, Decision, Ticket
from headgate.gateway.coordinator.group_settings import GroupSettings
from headgate.gateway.coordinator.groups.shard import Shard
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, Image
from headgate.gateway.metadata.store import Change, MetadataStore
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.purgatory import Purgatory, Waiting, WaitList
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.time_slices import TimeSlices
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import FEW, Steps

logger = logging.getLogger("headgate.groups")

MAX_GROUP_ID_BYTES = 0x7FFF
"""What fits into the key of a record."""
_KEPT_HASHES = 4096
_LONGEST_KEPT = 256
_CLASSIC = "classic"

GatherDecide = Callable[[Shard, str, Ticket], Decision]


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over the units of UTF-16, in 32 bits with a sign."""
    value = 0
    for unit in array("H", text.encode("utf-16", "surrogatepass")[2:]):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def partition_of(group_id: str, partitions: int) -> int:
    """Where a group belongs. Source: GroupCoordinator.partitionFor, Utils.abs."""
    if len(group_id) > _LONGEST_KEPT:
        return _partition_of.__wrapped__(group_id, partitions)
    return _partition_of(group_id, partitions)


@functools.lru_cache(_KEPT_HASHES)
def _partition_of(group_id: str, partitions: int) -> int:
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


class ImageTopics:
    """The topics of the image of the moment, as machines see them."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self.generation = 0

    def partitions_of(self, name: str) -> int:
        """How many partitions the topic has; 0 if there is none of that name."""
        topic = self._metadata.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def id_of(self, name: str) -> bytes | None:
        """Its id."""
        topic = self._metadata.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        """The name behind an id."""
        return self._metadata.image.topic_names.get(topic_id)

    def names(self) -> Collection[str]:
        """All of them."""
        return self._metadata.image.topics.keys()


class _Gathering:
    """The replies of many groups, of which some are still to come; each wait list knows whose it is."""

    def __init__(self, replies: list[Any], assemble: Callable[[list[Any]], Any]) -> None:
        self.replies = replies
        self.open = 0
        self._assemble = assemble
        self._owners: dict[WaitList, list[int]] = {}
        for number, reply in enumerate(replies):
            if isinstance(reply, Waiting):
                self.open += 1
                for wait_list in reply.lists:
                    self._owners.setdefault(wait_list, []).append(number)

    def look(self) -> None:
        """Take those that came while others were asked, when nobody waited yet."""
        for number, waiting in enumerate(self.replies):
            if isinstance(waiting, Waiting):
                touched = next(iter(waiting.lists))
                self._take(number, _value(lambda: waiting.attempt(touched)))  # noqa: B023 - called at once

    def waiting(self) -> Waiting:
        """What the request waits for: the last of them."""
        return Waiting(list(self._owners), NEVER, self._attempt, self._expire)

    def _attempt(self, touched: WaitList) -> Any:
        for number in self._owners[touched]:
            waiting = self.replies[number]
            if isinstance(waiting, Waiting):
                self._take(number, _value(lambda: waiting.attempt(touched)))  # noqa: B023 - called at once
        return None if self.open else self._assemble(self.replies)

    def _expire(self) -> Any:
        for number, waiting in enumerate(self.replies):
            if isinstance(waiting, Waiting):
                self._take(number, _value(waiting.expire))
        return self._assemble(self.replies)

    def _take(self, number: int, reply: Any) -> None:
        if reply is not None:
            self.replies[number] = reply
            self.open -= 1


class Coordinators:
    """Groups, wherever on this broker they are."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        random: Random,
        scheduler: Scheduler,
        purgatory: Purgatory,
        metadata: MetadataStore,
        partitions: ReplicaManager,
        appends: WriteBatcher,
    ) -> None:
        self._config = config
        self._clock = clock
        self._random = random
        self._scheduler = scheduler
        self._metadata = metadata
        self._partitions = partitions
        self._settings = GroupSettings.of(config)
        self._topics = ImageTopics(metadata)
        self._coordinators: dict[int, Coordinator] = {}
        self._count = 0
        self._missed: dict[int, set[str]] = {}
        self.slices = TimeSlices(clock, scheduler)
        """The long works of the broker, those of groups and all others: they share one millisecond of a turn."""
        self._tools = Tools(
            clock,
            scheduler,
            purgatory,
            appends,
            self.slices,
            config.offsets_commit_timeout_ms,
            config.offsets_load_buffer_size,
            config.offsets_topic_compression_codec,
        )
        partitions.on_open(self._came_online)

    # Requests

    def submit(self, group_id: str, decide: Decide, lost: Lost | None = None) -> Any:
        """Have the group's shard decide: the reply that was decided, or a `Waiting` for it.

        With `lost`, which makes the response that tells of a failure, a small write may be left to the end of the turn;
        the handler is then registered with `stages=True`.

        Raises KafkaError: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        and what was decided. An empty id is a group like any other: where Kafka refuses it, the handler does.
        """
        return self._coordinator(group_id).submit(group_id, decide, lost)

    def gather(self, group_ids: Sequence[str], decide: GatherDecide, assemble: Callable[[list[Any]], Any]) -> Any:
        """Have the shards of many groups decide; `assemble` makes one response of their replies, in order.

        An error of one group is among them as a KafkaError, and stops no other. Many groups are asked in steps.
        """
        if len(group_ids) > FEW:
            return self._gather(group_ids, decide, assemble)
        gathering = _Gathering([self._attempt(group_id, decide) for group_id in group_ids], assemble)
        return gathering.waiting() if gathering.open else assemble(gathering.replies)

    def _gather(
        self, group_ids: Sequence[str], decide: GatherDecide, assemble: Callable[[list[Any]], Any]
    ) -> Steps[Any]:
        replies: list[Any] = []
        for group_id in group_ids:
            replies.append(self._attempt(group_id, decide))
            yield
        gathering = _Gathering(replies, assemble)
        gathering.look()
        return gathering.waiting() if gathering.open else assemble(gathering.replies)

    def _attempt(self, group_id: str, decide: GatherDecide) -> Any:
        return _value(lambda: self.submit(group_id, lambda shard, ticket: decide(shard, group_id, ticket)))

    def leader_of(self, group_id: str) -> int:
        """The broker that coordinates a group.

        Raises KafkaError: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE.
        """
        index = self._index_of(group_id)
        topic = self._metadata.image.topics[CONSUMER_OFFSETS]
        return topic.partitions[index].leader

    def shards(self) -> Iterator[Shard]:
        """Those of this broker. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) if one is not loaded."""
        for topic, index in self._partitions.opening:
            if topic == CONSUMER_OFFSETS and self._count:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the log of {topic}-{index} is being opened")
        for coordinator in self._coordinators.values():
            if coordinator.shard is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{coordinator.partition!r} is being loaded")
            yield coordinator.shard

    def _index_of(self, group_id: str) -> int:
        if len(group_id) * 4 > MAX_GROUP_ID_BYTES and len(group_id.encode()) > MAX_GROUP_ID_BYTES:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"the id of a group has at most {MAX_GROUP_ID_BYTES} bytes")
        if not self._count:
            self._make_topic()
        return partition_of(group_id, self._count)

    def _coordinator(self, group_id: str) -> Coordinator:
        index = self._index_of(group_id)
        return self._coordinators.get(index) or self._open_late(index)

    def _open_late(self, index: int) -> Coordinator:
        """The coordinator of a partition that was damaged, or out of reach for a moment, and may be there by now."""
        if self._metadata.image.topics[CONSUMER_OFFSETS].partitions[index].leader != self._config.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "this broker does not lead the partition of the group")
        try:
            return self._open(index)
        except KafkaError as error:
            is_opening = (CONSUMER_OFFSETS, index) in self._partitions.opening
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_opening else ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise KafkaError(code, error.message) from error

    # The topic

    def _make_topic(self) -> None:
        """Raises KafkaError(COORDINATOR_NOT_AVAILABLE): clients come again, also where it is being written."""
        if CONSUMER_OFFSETS not in self._metadata.planned.topics:
            self._create_topic()
        if not self._count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{CONSUMER_OFFSETS} is being made")

    def prepare(self) -> Change | None:
        """Have the topic made if there is none; what its making is awaited by. Raises as `leader_of` does."""
        if self._count:
            return None
        with suppress(KafkaError):
            self._make_topic()
        return self._metadata.submit(()) if not self._count else None

    def _create_topic(self) -> None:
        config = self._config
        try:
            self._metadata.create_topic(
                CONSUMER_OFFSETS,
                config.offsets_topic_num_partitions,
                min(config.offsets_topic_replication_factor, len(self._metadata.image.brokers)),
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
        except (KafkaError, OSError) as error:
            logger.error("%s cannot be made: %s", CONSUMER_OFFSETS, error)
            message = f"{CONSUMER_OFFSETS} cannot be made; see the log of the broker"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message) from error

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Follow a change of the metadata, behind `partitions`."""
        if CONSUMER_OFFSETS in names:
            self._follow(new)
        if names:
            self._topics.generation += 1
            self._scheduler.call_soon(lambda: self._tell(list(names), new))

    def _follow(self, image: Image) -> None:
        """Have a coordinator for every partition that is led here, and for no other."""
        topic = image.topics.get(CONSUMER_OFFSETS)
        states = () if topic is None else topic.partitions
        self._count = len(states)
        for index in list(self._coordinators):
            if index >= len(states) or not self._is_same(index):
                self._coordinators.pop(index).close()
        for index, state in enumerate(states):
            if state.leader == self._config.node_id and index not in self._coordinators:
                with suppress(KafkaError):  # it is offline, which was logged
                    self._open(index)

    def _came_online(self, topic: str, index: int) -> None:
        """The log of a partition is open at last."""
        if topic == CONSUMER_OFFSETS and index not in self._coordinators:
            self._open(index)

    def _is_same(self, index: int) -> bool:
        try:
            return self._partitions.get(CONSUMER_OFFSETS, index) is self._coordinators[index].partition
        except KafkaError:
            return False

    def _open(self, index: int) -> Coordinator:
        partition = self._partitions.get(CONSUMER_OFFSETS, index)
        coordinator = Coordinator(partition, self._tools, self._make_shard, self._loaded)
        self._coordinators[index] = coordinator
        return coordinator

    def _make_shard(self) -> Shard:
        return Shard(self._settings, self._topics, self._random, self._clock.now_ms, self._configs_of)

    def _configs_of(self, group_id: str) -> Mapping[str, str]:
        configs = self._metadata.image.configs
        return configs.get((ResourceType.GROUP, group_id), {}) if configs else {}

    # What recurs

    def start(self) -> None:
        """Load the groups, and look for expired offsets every `offsets.retention.check.interval.ms`.

        The scheduler has to be running: what the page cache does not have is read in threads.
        """
        self._follow(self._metadata.image)
        self._sweep_later()

    def _sweep_later(self) -> None:
        self._scheduler.call_after(self._config.offsets_retention_check_interval_ms, self._sweep)

    def _sweep(self) -> None:
        self._sweep_later()
        for coordinator in self._coordinators.values():
            shard = coordinator.shard
            if shard is not None:
                self._walk(coordinator, shard, offset_expiration.expire(shard, self._clock.now_ms()))

    def _tell(self, names: Sequence[str], new: Image) -> None:
        """Topics have changed: tell the groups that care, and forget the offsets of those that are gone."""
        deleted = [name for name in names if name not in new.topics]
        for topic, index in self._partitions.opening if deleted else ():
            if topic == CONSUMER_OFFSETS and index not in self._coordinators:
                self._missed.setdefault(index, set()).update(deleted)
        for index, coordinator in self._coordinators.items():
            shard = coordinator.shard
            if shard is None:
                self._missed.setdefault(index, set()).update(deleted)
                continue
            if deleted:
                self._walk(coordinator, shard, offset_expiration.forget_topics(shard, deleted))
            if any(group.kind != _CLASSIC for group in shard.groups.values()):
                self._walk(coordinator, shard, self._changed_groups(shard, names))

    def _changed_groups(self, shard: Shard, names: Sequence[str]) -> Iterator[Decision]:
        for group_id, group in list(shard.groups.items()):
            if group.kind != _CLASSIC and shard.groups.get(group_id) is group:
                yield group.topics_changed(shard, names, self._clock.monotonic_ms())
                shard.note_due(group_id)

    def _loaded(self, coordinator: Coordinator) -> None:
        """What happened to topics while the shard was loaded."""
        shard, missed = coordinator.shard, self._missed.pop(coordinator.partition.index, None)
        if missed and shard is not None:
            gone = [name for name in missed if not self._topics.partitions_of(name)]
            self._walk(coordinator, shard, offset_expiration.forget_topics(shard, gone))

    def _walk(self, coordinator: Coordinator, shard: Shard, decisions: Iterator[Decision]) -> None:
        """Have many things decided one after another, with a turn for everybody else between any two of them."""

        def decide(_: Shard, __: Ticket) -> Decision:
            decision = next(decisions, None)
            if decision is None:
                return Decision()
            self._scheduler.call_after(0.0, go_on)
            return decision

        def go_on() -> None:
            if coordinator.shard is shard:
                coordinator.run("", decide)

        go_on()

    def stop(self) -> None:
        """Coordinate nothing more."""
        for coordinator in self._coordinators.values():
            coordinator.close()


def _value(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except KafkaError as error:
        return error
