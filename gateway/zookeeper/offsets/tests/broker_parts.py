"""The parts of a broker that histories of offsets in two stores need, and a ZooKeeper on a slow network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from headgate.gateway.coordinator.coordinator import Coordinator
from headgate.gateway.coordinator.gathering import gather_replies
from headgate.gateway.coordinator.groups import offset_expiration
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.shard_factory import new_shard
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.tests.coordinator_bench import GROUPS_LOG
from headgate.gateway.coordinator.transactions.markers import PartitionMarkers
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.tasks import Lock, Task, Tasks, sleep
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH
from headgate.gateway.zookeeper.offsets.offset_stores import OffsetStores
from headgate.gateway.zookeeper.session import Create, SessionEvent
from headgate.gateway.zookeeper.tests.model import ModelSession, Queue, ZooKeeperModel
from headgate.protocol.errors import KafkaError

GROUP: Final = "g"
TOPIC: Final = "t"
PARTITIONS: Final = 3
TOPIC_ID: Final = bytes(15) + b"t"


def image_of(configs: Any = None, topic_id: bytes | None = TOPIC_ID) -> Any:
    """An image with the topic, or without any."""
    topics = {} if topic_id is None else {TOPIC: SimpleNamespace(topic_id=topic_id, partitions=(None,) * PARTITIONS)}
    return SimpleNamespace(configs=configs or {}, topics=topics, topic_names={})


class SlowNetwork(ZooKeeperModel):
    """A ZooKeeper with a cluster, whose way from one session may be held up."""

    delayed: ModelSession | None = None

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        super().transact(0, [Create("/cluster"), Create(CLUSTER_ID_PATH, b"{}")])

    def _queues(self) -> Iterator[Queue]:
        for queue in super()._queues():
            if self.delayed is None or queue is not self.delayed.requests:
                yield queue


class FakeGroups:
    """One shard, as the `GroupCoordinator` of a broker."""

    def __init__(self, coordinator: Coordinator[GroupShard]) -> None:
        self.coordinator = coordinator

    def forget_topics(self, deleted_ms: Mapping[str, int]) -> Task[None]:
        """The same tombstones, until they are written."""
        while True:
            shard = self.coordinator.shard
            if shard is not None:
                decisions = offset_expiration.forget_topics(shard, deleted_ms, keeps_newer=True)
                with suppress(KafkaError):
                    yield partial(self.coordinator.run_each, shard, decisions)
                    return
            yield sleep(self.coordinator.services.scheduler, 1_000.0)

    def submit(self, key: str, decide: Any, failure_response: Any = None) -> Any:
        return self.coordinator.submit(key, decide)

    def submit_to(self, index: int, key: str, decide: Any, failure_response: Any = None) -> Any:
        return self.coordinator.submit(key, decide, failure_response)

    def gather(self, keys: Any, decide: Any, assemble: Any) -> Any:
        def ask(key: str) -> Any:
            return self.submit(key, lambda shard, ticket: decide(shard, key, ticket))

        return gather_replies(keys, ask, assemble)

    def shard_of(self, index: int) -> GroupShard | None:
        return self.coordinator.shard

    def coordinates(self, _key: str) -> bool:
        return True

    @property
    def coordinates_all(self) -> bool:
        return True

    def shards(self) -> list[GroupShard]:
        return [] if self.coordinator.shard is None else [self.coordinator.shard]


class Broker:
    """The parts of a broker that matter here, from a start to a crash."""

    def __init__(
        self,
        partition: ScriptedPartition,
        clock: ManualClock,
        keeper: ZooKeeperModel,
        metadata: Any,
        topics: FakeTopics | None = None,
        **settings: Any,
    ) -> None:
        """`partition` has the log that crashes leave."""
        self.scheduler = FakeScheduler(clock)
        self.tasks = Tasks(clock, self.scheduler)
        self.batcher = WriteBatcher()
        self.threads = self.scheduler.hold()
        services = CoordinatorServices(clock, self.scheduler, self.tasks, self.batcher, Lock(self.scheduler))
        self._clock = clock
        self._topics = topics or FakeTopics({TOPIC: PARTITIONS})
        partition.restart(self.tasks)
        self.coordinator = Coordinator(cast("Any", partition), services, GROUPS_LOG, self.new_shard)
        groups: Any = FakeGroups(self.coordinator)
        self.session: Any = keeper.session(self._follow)
        defaults = {
            "headgate_offsets_store": (),
            "offsets_commit_timeout_ms": 5_000,
            "offset_metadata_max_bytes": 4_096,
        }
        config: Any = SimpleNamespace(**{**defaults, **settings})
        self.stores = OffsetStores(self.session, groups, services, config, metadata)
        self.markers = PartitionMarkers(services, cast("Any", None), groups, self.stores.before_markers)
        self.groups = groups
        self.session.start()
        self.stores.start()

    def _follow(self, event: SessionEvent) -> None:
        self.stores.follow_session(event)
        if event in {SessionEvent.CONNECTED, SessionEvent.RECONNECTED}:
            self.stores.resume()

    def new_shard(self) -> GroupShard:
        return new_shard(GroupSettings(), self._topics, Random(0), self._clock.now_ms)
