"""The metadata source of a broker with `zookeeper.connect`: its start, and the parts that run afterwards."""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from socket import gethostname
from typing import TYPE_CHECKING, Final, Protocol

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.new_topics import new_topic_id
from headgate.gateway.metadata.store import MetadataStore, Prepare
from headgate.gateway.runtime.broker_links import BrokerLinks
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Changes, Task, Tasks, as_task, gather
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH, CONTROLLER_EPOCH_PATH, CONTROLLER_PATH, ClusterId
from headgate.gateway.zookeeper.layout.owner import SessionOwner
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH
from headgate.gateway.zookeeper.layout.tree import ABSENT, ClusterTree, read_cluster
from headgate.gateway.zookeeper.membership import refusals
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.membership.controlled_shutdown import ControlledShutdown, StoppingReplicas
from headgate.gateway.zookeeper.membership.failed_replicas import FailedReplicaReports, FailingReplicas
from headgate.gateway.zookeeper.membership.joining import JoiningBroker, Overtaken, check, commit, join
from headgate.gateway.zookeeper.membership.registration import registration
from headgate.gateway.zookeeper.membership.session_check import SessionCheck
from headgate.gateway.zookeeper.membership.session_life import SessionLife
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.acl_watcher import (
    ensure_acl_paths,
    has_acls,
    read_acls,
    reads_acls,
    unreadable_acls,
)
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.reading import NodesByPath, Watches, read_broker_nodes, read_node, read_tree
from headgate.gateway.zookeeper.metadata.token_watcher import ensure_token_paths, read_tokens, reads_tokens
from headgate.gateway.zookeeper.requests import ensure, get
from headgate.gateway.zookeeper.session import Create, Session
from headgate.gateway.zookeeper.store.controller_orders import ControllerOrders, Replicas
from headgate.gateway.zookeeper.store.leader_lookup import LeaderLookup
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore, first_image
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.errors import StorageError

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.gateway.runtime.tasks import Tasks

logger = logging.getLogger("headgate.zookeeper")

LED_WITHIN_MS: Final = 2_000.0
"""The longest wait of a start for leaders: many partitions, or a lost controller, take longer."""
AUTHORIZER: Final = "authorizer.class.name"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class SourceParts(Protocol):
    """The parts of the broker that a source uses, see `gateway.app.composition.Foundation`."""

    config: BrokerConfig
    clock: Clock
    random: Random
    scheduler: Scheduler
    log_manager: LogManager


class ZooKeeperSource:
    """The metadata in ZooKeeper. The constructor checks whether the broker may serve the cluster; `begin` joins."""

    image: Image

    def __init__(self, base: SourceParts, connection: ZooKeeperConnection) -> None:
        """Check the cluster. Raises ZooKeeperRefusal, StorageError."""
        self._base = base
        self._connection = connection
        self._watches = Watches()
        node_id = base.config.node_id
        self._member = JoiningBroker(connection.connect, node_id, _owner(base))
        self._is_elected = False
        self._reads_acls, self._reads_tokens = reads_acls(base.config), reads_tokens(base.config)
        self._store: ZooKeeperMetadataStore | None = None
        base.log_manager.check_duplicates(connection.complete(self._check, "the checks of this start"))

    def begin(self) -> None:
        """Join the cluster, become its controller unless another broker is, and read the cluster.

        Then claim the directories: they store the cluster's id.

        Raises ZooKeeperRefusal, StorageError, OSError.
        """
        base, connection = self._base, self._connection
        connection.create_chroot()
        cluster = connection.complete(self._take_over, "the metadata of the cluster")
        log_manager = base.log_manager.claim(cluster.image.cluster_id)
        self._nodes = ClusterNodes(cluster, self._member.unreadable)
        member = replace(self._member, cluster_id=cluster.image.cluster_id)
        self._life = SessionLife(connection.shared, member, connection.pump, base.clock)
        self.image = first_image(cluster, base.config, self._member.unreadable)
        base.config.change(*self.image.broker_configs(base.config.node_id))
        if self._is_elected:  # another controller has to send the topics first
            log_manager.remove_strays(self.image.has_partition)
            log_manager.resolve_duplicates(self.image.topic_id_of)

    def open(self, prepare: Prepare, tasks: Tasks, links: BrokerLinks) -> tuple[MetadataStore, bool]:
        """Create the store. No partition has a leader yet: the store raises the leader epochs once it runs."""
        base = self._base
        self._store = ZooKeeperMetadataStore(
            self._connection.session,
            self._watches,
            self._nodes,
            self.image,
            base.config,
            base.clock,
            base.random,
            tasks,
            links,
            prepare,
            is_elected=self._is_elected,
        )
        del self.image, self._nodes  # the store owns them now
        self._tasks = tasks
        self._life.serve(self._store)
        return self._store, True

    def start(self, stall_watch: StallWatch) -> None:
        """Continue on the loop. The scheduler must run."""
        assert self._store is not None
        self._connection.pump.hand_over(self._base.scheduler)
        self._connection.session.follow_loop()
        stall_watch.begin(self._base.config.zookeeper_session_timeout_ms, SessionCheck(self._connection.shared).begin)
        self._store.start()
        self._failed_replicas.soon()

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's last registration; -1 before the first one."""
        return self._life.broker_epoch

    @property
    def is_registered(self) -> bool:
        """Whether ZooKeeper has the registration of this broker."""
        return self._life.is_registered

    def controller_orders(self, replicas: Replicas, tasks: Tasks) -> ControllerOrders:
        """The orders that this broker gets from another one that is the controller."""
        assert self._store is not None
        config, session, life = self._base.config, self._connection.session, self._life
        self._orders = ControllerOrders(self._store, session, replicas, tasks, config, lambda: life.obeyed_epoch)
        return self._orders

    def replicas_failed(self, _metadata: MetadataStore, replicas: FailingReplicas, tasks: Tasks) -> Callable[[], None]:
        """Report failed replicas to the controller."""
        assert self._store is not None
        self._failed_replicas = FailedReplicaReports(self._store, replicas, self._base.config.node_id, tasks)
        return self._failed_replicas.soon

    def leader_lookup(self, tasks: Tasks, links: BrokerLinks) -> LeaderLookup:
        """Finds the leaders that were elected while this broker cannot reach ZooKeeper."""
        assert self._store is not None
        return LeaderLookup(self._store, self._connection.session, self._base.config, tasks, links)

    def announce(self, ports: Mapping[str, int], resume: Callable[[StorageError | None], None]) -> None:
        """Register this broker, whose listeners are open. `resume` gets an error if that takes too long.

        Otherwise the first partitions have leaders by then: the first client need not ask again.
        """
        base = self._base

        def registered(error: StorageError | None) -> None:
            if error is None:
                self._tasks.start(self._await_leaders(), lambda _: resume(None))
            else:
                resume(error)

        self._life.announce(registration(base.config, ports, base.clock.now_ms()), self._connection.wait_ms, registered)

    def _await_leaders(self) -> Task[None]:
        assert self._store is not None
        changes = Changes([self._store.waiters], self._tasks.monotonic_ms() + LED_WITHIN_MS)
        while not self._store.has_leaders and (yield changes) is not None:
            pass

    def leave(self, replicas: StoppingReplicas, tasks: Tasks, links: BrokerLinks) -> Task[None]:
        """Have the controller move the leads of this broker, with `controlled.shutdown.enable`."""
        config, life = self._base.config, self._life
        if not config.controlled_shutdown_enable or life.broker_epoch < 0:
            return as_task(None)
        assert self._store is not None
        session = self._connection.session
        return ControlledShutdown(self._store, session, replicas, config, tasks, links, lambda: life.broker_epoch).run()

    def stop(self) -> None:
        """Begin no more writes."""
        self._life.stop()
        if self._store is not None:
            self._store.stop()

    def close(self) -> None:
        """End the session, after the end of the loop: ZooKeeper then deletes the nodes of this process at once."""
        self._connection.close()

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """Have failed replicas replaced that are no longer the last of their in-sync sets; delete those that left."""
        self._failed_replicas.soon()
        self._orders.follow(old, new, names)

    def space_recovered(self, directory: str) -> None:
        """Ignore recovered space: the metadata are not on this disk, so there is no reserve."""

    def _check(self) -> Task[Callable[[str], bytes | None]]:
        """Check everything that may refuse this start, and write nothing.

        Returns the ids of topics that have a log in two directories. Raises ZooKeeperRefusal, EarlierSession, Failed.
        """
        session = self._connection.session
        yield from check(session, self._member)
        yield from self._check_acls(session)
        names = sorted({topic for topic, _ in self._base.log_manager.duplicates})
        nodes = yield from gather([read_node(session, f"{TOPICS_PATH}/{name}") for name in names])
        cluster = read_cluster(dict(ChainMap(*nodes)), self._new_topic_id, self._keeps_id)
        return self._with_ids_of_logs(cluster).image.topic_id_of

    def _check_acls(self, session: Session) -> Task[None]:
        """Raises ZooKeeperRefusal for ACLs that this broker cannot read, or would not obey as other brokers do."""
        if self._reads_acls:
            invalid = unreadable_acls(read_cluster((yield from read_acls(session, None)), self._new_topic_id))
            if invalid is not None:
                raise refusals.unreadable_acls(invalid)
        elif AUTHORIZER not in self._base.config.given() and (yield from has_acls(session)):
            raise refusals.without_authorizer(self._connection.connect)

    def _take_over(self) -> Task[ClusterTree]:
        """Become the controller unless another broker is, and read the cluster.

        Raises ZooKeeperRefusal, EarlierSession, Overtaken, Failed.
        """
        session, member = self._connection.session, self._member
        yield from join(session, member)
        if self._reads_acls:
            yield from ensure_acl_paths(session)
        if self._reads_tokens:
            yield from ensure_token_paths(session)
        version = yield from self._become_controller(session)
        self._is_elected = version is not None
        if version is None:
            return (yield from self._read_as_broker(session))
        cluster = yield from self._read(session, version)
        if cluster.without_id:
            logger.info("%d topics of an older Kafka get an id", len(cluster.without_id))
            for operations in plans.give_topic_ids(self._with_ids_of_logs(cluster)):
                yield from commit(session, member, list(operations), "the ids of topics")
            cluster = yield from self._read(session, version)
        if not cluster.image.cluster_id:
            cluster_id = self._base.log_manager.cluster_id
            yield from ensure(session, CLUSTER_ID_PATH.rpartition("/")[0])
            node = Create(CLUSTER_ID_PATH, ClusterId(cluster_id).encode())
            yield from commit(session, member, [node], "the cluster's id")
            cluster = cluster._replace(image=cluster.image._replace(cluster_id=cluster_id))
        return cluster

    def _read_as_broker(self, session: Session) -> Task[ClusterTree]:
        """The cluster without its topics. Raises Overtaken while the first controller creates the cluster."""
        tree = yield from read_broker_nodes(session, self._watches.note)
        cluster = read_cluster(tree | (yield from self._secured(session)), self._new_topic_id)
        if cluster.controller is None:
            raise Overtaken("the controller changes")
        if not cluster.image.cluster_id:
            raise Overtaken(f"broker {cluster.controller.broker_id}, the controller, has not written {CLUSTER_ID_PATH}")
        logger.info("broker %d is the controller", cluster.controller.broker_id)
        return cluster

    def _read(self, session: Session, version: int) -> Task[ClusterTree]:
        tree = yield from read_tree(session, self._watches.note)
        tree |= yield from self._secured(session)
        cluster = read_cluster(tree, self._new_topic_id, self._keeps_id)
        if cluster.controller_epoch_version != version:
            raise Overtaken("another controller wrote its epoch")
        return cluster

    def _secured(self, session: Session) -> Task[NodesByPath]:
        """The nodes of ACLs and tokens; none without an authorizer that reads ACLs, or a key of tokens."""
        tree = (yield from read_acls(session, self._watches.note)) if self._reads_acls else {}
        return tree | ((yield from read_tokens(session, self._watches.note)) if self._reads_tokens else {})

    def _become_controller(self, session: Session) -> Task[int | None]:
        """Become the controller, unless this session is. Returns the version of `/controller_epoch`.

        Returns None if another broker is the controller.
        """
        node_id, now_ms = self._base.config.node_id, self._base.clock.now_ms()
        cluster = read_cluster((yield from read_node(session, CONTROLLER_EPOCH_PATH)), self._new_topic_id)
        if (
            cluster.invalid or cluster.controller_epoch_version == ABSENT
        ):  # then the highest epoch in a partition state counts
            cluster = yield from self._read(session, cluster.controller_epoch_version)
        controller = yield from get(session, CONTROLLER_PATH)
        if controller is not None:
            is_own = controller.stat.ephemeral_owner == session.session_id
            return cluster.controller_epoch_version if is_own else None
        operations = list(plans.become_controller(cluster, node_id, now_ms))
        yield from commit(session, self._member, operations, "the controllership")
        logger.info("broker %d is the controller, in epoch %d", node_id, cluster.controller_epoch + 1)
        return cluster.controller_epoch_version + 1

    def _keeps_id(self, topic_id: bytes, names: Sequence[str]) -> str:
        """The topic that keeps an id shared by several: the one whose log is here, otherwise the oldest."""
        if len(names) == 1:
            return names[0]
        known = self._base.log_manager.topic_ids(names)
        return next((name for name in names if known.get(name) == topic_id), names[0])

    def _with_ids_of_logs(self, cluster: ClusterTree) -> ClusterTree:
        """Give topics without an id the id of their logs: tools before 2.8 drop the id when they add partitions."""
        topics, names = dict(cluster.image.topics), dict(cluster.image.topic_names)
        for name, topic_id in self._base.log_manager.topic_ids(cluster.without_id).items():
            if topic_id not in names:
                del names[topics[name].topic_id]
                topics[name], names[topic_id] = topics[name]._replace(topic_id=topic_id), name
        return cluster._replace(image=cluster.image._replace(topics=topics, topic_names=names))

    def _new_topic_id(self) -> bytes:
        return new_topic_id(self._base.random, ())


def _owner(base: SourceParts) -> SessionOwner:
    """This process, by the lock files that it holds."""
    files = base.log_manager.files
    locks = {log_directory.meta.directory_id: f"{log_directory.directory}/{LOCK}" for log_directory in base.log_manager}
    try:
        boot = files.read(_BOOT_ID).decode().strip()
        process = next(iter(base.log_manager)).process_id  # a read of the lock file would end its POSIX lock
    except (OSError, ValueError):  # not Linux: the broker waits for the end of an earlier session
        boot, process = "", 0
    identities = {directory_id: files.identity(path) for directory_id, path in locks.items()}
    timeout_ms = base.config.zookeeper_session_timeout_ms
    return SessionOwner(gethostname(), process, base.clock.now_ms(), timeout_ms, boot, identities)
