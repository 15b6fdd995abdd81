"""The sources of a broker's metadata: its own log, or ZooKeeper. Both stand behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata import snapshot
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log_store import MetadataLogStore, check_fresh
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.metadata.registration import refill, register
from headgate.gateway.metadata.snapshot_generator import SnapshotGenerator
from headgate.gateway.metadata.store import MetadataStore, Prepare
from headgate.gateway.replication.in_sync_replicas import LeaderFinder
from headgate.gateway.replication.leader_epoch_bumps import LeaderEpochBumps
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.broker_links import BrokerLinks
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Task, Tasks, WaitList, as_task
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk.reserve import Reserve
from headgate.storage.errors import StorageError
from headgate.storage.files import parent

if TYPE_CHECKING:  # no ZooKeeper unless it is configured
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
    from headgate.gateway.zookeeper.store.controller_orders import ControllerOrders


@dataclass(slots=True)
class Foundation:
    """The parts that need no other part, over the log directories."""

    config: BrokerConfig
    clock: Clock
    random: Random
    scheduler: Scheduler
    log_manager: LogManager
    zookeeper: ZooKeeperConnection | None = None


class MetadataSource(Protocol):
    """The origin of the metadata. Construction checks the start, and reads the metadata; it writes nothing."""

    image: Image
    """The metadata as they were read. They are not used after `open`."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration in its cluster; -1 before the first one."""

    @property
    def is_registered(self) -> bool:
        """Whether clients and other brokers can find this one."""

    def begin(self) -> None:
        """Claim the log directories: every check has passed. No log of a topic is open. Raises StorageError, OSError.

        `image` is complete afterwards.
        """

    def open(self, prepare: Prepare, tasks: Tasks, links: BrokerLinks) -> tuple[MetadataStore, bool]:
        """The store, and whether this start has raised all leader epochs. Raises StorageError, OSError."""

    def leader_lookup(self, tasks: Tasks, links: BrokerLinks) -> LeaderFinder | None:
        """Finds leaders that other brokers know before this one; None if there is no other broker."""

    def controller_orders(self, replicas: ReplicaManager, tasks: Tasks) -> ControllerOrders | None:
        """The orders of the cluster's controller to this broker; None without a cluster. The store is open."""

    def replicas_failed(self, metadata: MetadataStore, partitions: ReplicaManager, tasks: Tasks) -> Callable[[], None]:
        """The listener of `ReplicationEvents.replicas_failed`: has other replicas lead, or leader epochs raised."""

    def start(self, stall_watch: StallWatch) -> None:
        """Begin the recurring work. The scheduler runs."""

    def announce(self, ports: Mapping[str, int], resume: Callable[[StorageError | None], None]) -> None:
        """The listeners are open, each at this port; `resume` is called when clients can find this broker.

        It gets the reason if they cannot.
        """

    def leave(self, replicas: ReplicaManager, tasks: Tasks, links: BrokerLinks) -> Task[None]:
        """Give the leads of this broker to other brokers, if there are any. The broker serves meanwhile."""

    def stop(self) -> None:
        """Begin no more work."""

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """A listener of the metadata, behind all others."""

    def space_recovered(self, directory: str) -> None:
        """A log directory that was nearly full has room again."""


class EmbeddedSource:
    """The metadata log of this broker, with its snapshots."""

    broker_epoch = -1
    is_registered = True

    def __init__(self, base: Foundation) -> None:
        """Open and read the metadata log; everything else waits for it. Raises StorageError."""
        self._base = base
        loaded = self._load()
        self.image = loaded.image
        self._snapshot = loaded.snapshot

    def _load(self) -> snapshot.LoadedMetadata:
        config, log_manager = self._base.config, self._base.log_manager
        log = log_manager.open_now((METADATA_TOPIC, 0), config.log_config({}), self._base.clock.now_ms())
        if log is None:
            check_fresh(log_manager)  # before any change to the logs of another program
            return snapshot.LoadedMetadata.nothing()
        loaded = snapshot.load(log)
        config.change(*loaded.image.broker_configs(config.node_id))
        log_manager.removed |= loaded.removed
        log_manager.check_duplicates(loaded.image.topic_id_of)
        return loaded

    def begin(self) -> None:
        """Claim the directories, and clear them of logs of deleted topics. Raises StorageError, OSError."""
        log_manager = self._base.log_manager.claim()
        if (METADATA_TOPIC, 0) in log_manager:
            log_manager.remove_strays(self.image.has_partition)
            log_manager.resolve_duplicates(self.image.topic_id_of)

    def open(self, prepare: Prepare, tasks: Tasks, _links: BrokerLinks) -> tuple[MetadataStore, bool]:
        """Register this start. Raises StorageError, OSError."""
        base, log_manager = self._base, self._base.log_manager
        metadata = self.build(prepare, tasks.touch)
        self._reserve = Reserve(log_manager.files, parent(metadata.directory))
        are_raised = register(metadata, base.config, base.random, self._reserve, was_clean=log_manager.was_clean)
        return metadata, are_raised

    def build(self, prepare: Prepare, touch: Callable[[WaitList], None] = lambda _: None) -> MetadataLogStore:
        """The store and its snapshots, without a registration. Raises StorageError."""
        base = self._base
        metadata = MetadataLogStore(
            base.log_manager, base.config, base.clock, base.random, self.image, base.scheduler, prepare, touch
        )
        del self.image  # every partition would be in memory twice: the registration makes another image
        self.generator = SnapshotGenerator(base.log_manager, metadata, self._snapshot, base.clock, base.scheduler)
        return metadata

    def leader_lookup(self, _tasks: Tasks, _links: BrokerLinks) -> None:
        """There is no other broker."""

    def controller_orders(self, _replicas: ReplicaManager, _tasks: Tasks) -> None:
        """A broker without ZooKeeper is alone."""

    def replicas_failed(self, metadata: MetadataStore, partitions: ReplicaManager, tasks: Tasks) -> Callable[[], None]:
        """No other replica can lead: the leader epochs of those that lost records are raised."""
        return LeaderEpochBumps(metadata, partitions, tasks.scheduler).soon

    def start(self, _stall_watch: StallWatch) -> None:
        """Write snapshots from now on."""
        self.generator.start()

    def announce(self, _ports: Mapping[str, int], resume: Callable[[StorageError | None], None]) -> None:
        """Clients know the address."""
        resume(None)

    def leave(self, _replicas: ReplicaManager, _tasks: Tasks, _links: BrokerLinks) -> Task[None]:
        """No other broker can lead."""
        return as_task(None)

    def stop(self) -> None:
        """Begin no further snapshot."""
        self.generator.stop()

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Check whether a snapshot is due."""
        self.generator.follow(old, new, names)

    def space_recovered(self, directory: str) -> None:
        """Fill the reserve again, if the reserve is in this directory."""
        refill(self._reserve, self._base.scheduler, directory)


def choose_source(base: Foundation) -> MetadataSource:
    """ZooKeeper with `zookeeper.connect`, the metadata log of this broker otherwise."""
    if base.zookeeper is None:
        return EmbeddedSource(base)
    from headgate.gateway.zookeeper.membership.source import ZooKeeperSource

    return ZooKeeperSource(base, base.zookeeper)
