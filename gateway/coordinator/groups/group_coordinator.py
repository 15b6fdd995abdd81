"""The group coordinator of a broker: the runtime over `__consumer_offsets`, and its ties to the rest of the broker.

Groups are notified of topics that are created, grow or are deleted. Offsets of deleted topics are removed; old offsets
expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.coordinator.coordinator import Coordinator
from headgate.gateway.coordinator.decision import Decision
from headgate.gateway.coordinator.groups import offset_expiration
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.shard_factory import new_shard
from headgate.gateway.coordinator.internal_topic import SHORT_KEY, InternalTopic, partition_of
from headgate.gateway.coordinator.runtime import CoordinatorRuntime
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, Image
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.tasks import Task, gather
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import decode_offset, encode_key, encode_value

RETRY_MS: Final = 1_000.0
"""The pause before offsets of deleted topics are removed that the log has refused to remove."""
AGAIN_LINE_MS: Final = 60_000.0
_CLASSIC = "classic"


def consumer_offsets(config: BrokerConfig) -> InternalTopic:
    """`__consumer_offsets`, with the broker's `offsets.*` settings."""
    return InternalTopic(
        name=CONSUMER_OFFSETS,
        key_name="group",
        invalid_key=ErrorCode.INVALID_GROUP_ID,
        encode_key=encode_key,
        encode_value=encode_value,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
        compression_codec=config.offsets_topic_compression_codec,
        load_buffer_bytes=config.offsets_load_buffer_size,
        write_timeout_ms=config.offsets_commit_timeout_ms,
        logger=logging.getLogger("headgate.groups"),
    )


class ImageTopics:
    """The topics of the present image, as a `TopicsView` for shards."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self.generation = 0

    def partitions_of(self, name: str) -> int:
        """The number of partitions of a topic; 0 if no topic has that name."""
        topic = self._metadata.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def id_of(self, name: str) -> bytes | None:
        """The id of a topic, 16 bytes."""
        topic = self._metadata.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        return self._metadata.image.topic_names.get(topic_id)

    def names(self) -> Collection[str]:
        return self._metadata.image.topics.keys()


class GroupCoordinator(CoordinatorRuntime[GroupShard]):
    """The groups that this broker coordinates."""

    def __init__(
        self,
        config: BrokerConfig,
        random: Random,
        services: CoordinatorServices,
        metadata: MetadataStore,
        partitions: ReplicaManager,
    ) -> None:
        super().__init__(consumer_offsets(config), self._new_shard, services, metadata, partitions, config.node_id)
        self._config = config
        self._clock = services.clock
        self._scheduler = services.scheduler
        self._random = random
        self._settings = GroupSettings.of(config)
        self._topics = ImageTopics(metadata)
        self._missed: dict[int, dict[str, int]] = {}
        """Partition -> topics whose offsets are to be removed from its shard, and when they were deleted, in ms."""
        self._when_forgotten: dict[int, list[Callable[[], None]]] = {}
        """Partition -> callbacks for the removal of the offsets of those topics."""
        self._log = LimitedLog(self._topic.logger, services.clock, lines=1, interval_ms=AGAIN_LINE_MS)

    def _new_shard(self) -> GroupShard:
        return new_shard(self._settings, self._topics, self._random, self._clock.now_ms, self._configs_of)

    def _configs_of(self, group_id: str) -> Mapping[str, str]:
        configs = self._metadata.image.configs
        return configs.get((ResourceType.GROUP, group_id), {}) if configs else {}

    def start(self) -> None:
        """Load the groups, and remove expired offsets every `offsets.retention.check.interval.ms`."""
        super().start()
        self._expire_later()

    # Expiration

    def _expire_later(self) -> None:
        self._scheduler.call_after(self._config.offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> None:
        self._expire_later()
        for coordinator in self._coordinators.values():
            shard = coordinator.shard
            if shard is not None:
                coordinator.run_each(shard, offset_expiration.expire(shard, self._clock.now_ms()))

    # Positions

    def first_unread(self, group_ids: Collection[str], topic: str, partition: int) -> int:
        """The lowest committed offset of these groups in a partition.

        0 if a group has committed nothing there, and if the offset of a group is not known: its shard is being loaded,
        or another broker coordinates the group (`unread_offsets.py` asks that broker).
        """
        return min((self._committed(group_id, topic, partition) for group_id in group_ids), default=0)

    def _committed(self, group_id: str, topic: str, partition: int) -> int:
        if not self._count or len(group_id) > SHORT_KEY:
            return 0
        shard = self.shard_of(partition_of(group_id, self._count))
        if shard is None:
            return 0
        packed = shard.offsets.groups.get(group_id, {}).get(topic, {}).get(partition)
        return 0 if packed is None else decode_offset(packed).offset

    # Topics

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Handle a change of the metadata, after the replicas did. Groups are notified after the turn."""
        super().follow(old, new, names)
        if CONSUMER_OFFSETS in names:
            self._leave_to_others(new)
        if names or old.acls is not new.acls:  # expressions match topics that a client may describe
            self._topics.generation += 1
            self._scheduler.call_soon(lambda: self._topics_changed(list(names), new))

    def _leave_to_others(self, new: Image) -> None:
        """Remove no offsets from partitions that another broker leads."""
        for index in self._missed.keys() - self._coordinators.keys():
            if new.has_partition(CONSUMER_OFFSETS, index):
                state = new.topics[CONSUMER_OFFSETS].partitions[index]
                if state.leader != self._config.node_id:
                    del self._missed[index]
                    for call in self._when_forgotten.pop(index, ()):
                        call()

    def forget_topics(self, deleted_ms: Mapping[str, int]) -> Task[None]:
        """Remove the offsets of deleted topics (name -> time of the deletion in ms), which may predate this start.

        Partitions of this broker without a loaded shard follow after their load. Newer offsets stay. The task ends once
        all tombstones are committed, or the partition has another leader; never, if a shard is not loaded.
        """
        topic, node_id = self._metadata.image.topics.get(CONSUMER_OFFSETS), self._config.node_id
        states = () if topic is None else topic.partitions
        led = [index for index, state in enumerate(states) if state.leader == node_id]

        def forget(index: int) -> Task[None]:
            yield lambda resume: self._forget(index, deleted_ms, [partial(resume, None)])

        yield from gather(map(forget, led), len(led))

    def _topics_changed(self, names: Sequence[str], new: Image) -> None:
        """Notify the consumer groups, and remove the offsets of deleted topics."""
        deleted = dict.fromkeys((name for name in names if name not in new.topics), self._clock.now_ms())
        for topic, index in self._partitions.opening if deleted else ():
            if topic == CONSUMER_OFFSETS and index not in self._coordinators:
                self._forget_later(index, deleted, ())
        for index, coordinator in self._coordinators.items():
            if deleted:
                self._forget(index, deleted, ())
            shard = coordinator.shard
            if shard is not None and any(group.kind != _CLASSIC for group in shard.groups.values()):
                coordinator.run_each(shard, self._notify_groups(shard, names))

    def _notify_groups(self, shard: GroupShard, names: Sequence[str]) -> Iterator[Decision]:
        for group_id, group in list(shard.groups.items()):
            if group.kind != _CLASSIC and shard.groups.get(group_id) is group:
                yield group.topics_changed(shard, names, self._clock.monotonic_ms())
                shard.note_due(group_id)

    def _loaded(self, coordinator: Coordinator[GroupShard]) -> None:
        # Not now: a log without records is loaded before the coordinator is known by its index
        self._scheduler.call_soon(partial(self._catch_up, coordinator.replica.index))

    def _catch_up(self, index: int) -> None:
        """Remove the offsets of topics that were deleted during a load, or whose tombstones the log has refused."""
        if self.shard_of(index) is not None and self._missed.get(index):
            self._forget(index, self._missed.pop(index), self._when_forgotten.pop(index, ()))

    def _forget(self, index: int, deleted_ms: Mapping[str, int], calls: Sequence[Callable[[], None]]) -> None:
        """Remove offsets from a shard, now or as soon as possible; then `calls`: with them all newer offsets stay."""

        def ended(error: KafkaError | None) -> None:
            if error is None:
                for call in calls:
                    call()
                return
            self._log.warning(
                str(index), "%s-%d has offsets of deleted topics yet, and the broker tries again: %s",
                CONSUMER_OFFSETS, index, error.message,
            )  # fmt: skip
            self._forget_later(index, deleted_ms, calls)
            self._scheduler.call_after(RETRY_MS, partial(self._catch_up, index))

        coordinator, shard = self._coordinators.get(index), self.shard_of(index)
        if coordinator is None or shard is None:
            self._forget_later(index, deleted_ms, calls)
        else:
            decisions = offset_expiration.forget_topics(shard, deleted_ms, keeps_newer=bool(calls))
            coordinator.run_each(shard, decisions, ended)

    def _forget_later(self, index: int, deleted_ms: Mapping[str, int], calls: Sequence[Callable[[], None]]) -> None:
        missed = self._missed.setdefault(index, {})
        for topic, timestamp_ms in deleted_ms.items():
            missed[topic] = max(timestamp_ms, missed.get(topic, 0))
        self._when_forgotten.setdefault(index, []).extend(calls)
