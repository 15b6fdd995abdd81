"""The brokers of a simulated cluster: whole ones, each with a disk of its own, started and killed as processes are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final

from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, at_once
from headgate.gateway.tests.builders import open_all_logs
from headgate.gateway.tests.simulation.keeper import SESSION_MS, SimulatedZooKeeper
from headgate.gateway.tests.simulation.network import Network
from headgate.gateway.tests.simulation.world import Host, World
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.membership.pump import Arrived, Pump
from headgate.gateway.zookeeper.session import SessionEvent
from headgate.gateway.zookeeper.shared_session import SessionScheduling
from headgate.gateway.zookeeper.tests.model import ModelSession
from headgate.storage.errors import StorageError
from headgate.storage.files import Lock
from headgate.storage.tests.crashing_files import CrashingFiles, MemoryFile, PowerCut

TOPIC: Final = "t"
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
FIRST_PORT: Final = 9_100
MIN_IN_SYNC: Final = 2
SETTINGS: Final = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": str(int(SESSION_MS)),
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "2500",
    "replica.fetch.wait.max.ms": "1000",
    "replica.fetch.backoff.ms": "300",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "min.insync.replicas": str(MIN_IN_SYNC),
    "auto.create.topics.enable": "false",
    "headgate.census": "false",
    "leader.imbalance.check.interval.seconds": "5",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class BrokerFiles(CrashingFiles):
    """The disk of a broker, on a machine that does not start again: a next process knows the locks of the last."""

    may_drop: Callable[[str], bool] | None = None
    """Whether a failed sync loses the unsynced records of a file, which are not even to be read any more."""

    @classmethod
    def empty(cls) -> BrokerFiles:
        files = cls()
        for path in ("/proc/sys/kernel/random", "/data"):
            files.make_directories(path)
        files.write("/proc/sys/kernel/random/boot_id", b"boot")
        files.sync_all("/")
        return files

    def after_crash(self, random: Random, *, power: bool) -> BrokerFiles:
        after = BrokerFiles()
        after.__dict__.update(self.crash(random, power=power).__dict__)
        return after

    def identity(self, path: str) -> str:
        return path

    def sync_node(self, node: MemoryFile, path: str) -> None:
        try:
            super().sync_node(node, path)
        except OSError:
            if self.may_drop is not None and path.endswith(".log") and self.may_drop(path):
                node.fail_to_sync(is_dropped=True)
            raise

    def lock(self, path: str) -> Lock:
        lock = super().lock(path)
        self.file(path).content[:] = b"1"
        return lock


class Broker(Host):
    """One life of a broker: from its start to its end."""

    def __init__(self, cluster: Cluster, node_id: int, files: BrokerFiles) -> None:
        super().__init__(cluster.world, f"broker {node_id}")
        self.is_serving = False
        self.is_stopping = False
        self.cluster = cluster
        self.node_id = node_id
        self.files = files
        self.session: ModelSession
        own = {"log.dirs": "/data/logs", "node.id": str(node_id)}
        self._config = BrokerConfig.load("", {**SETTINGS, **own, **cluster.settings})

    def start(self) -> None:
        """Start, while the others go on. Raises StorageError for a refusal."""
        seams = Seams(
            self.clock,
            self.files,
            Random(self.world.random.random()),
            self._make_scheduler,
            connect=self._connect,
            open_logs=open_all_logs,
        )
        try:
            self.parts = BrokerParts(self._config, seams)
            network = self.cluster.network
            self.parts.server.make_transport = network.transports(self)  # type: ignore[method-assign, assignment]
            self.is_serving = True
            self.parts.start()
            port = FIRST_PORT + self.node_id
            network.listening[port] = self, self.parts
            self.parts.announce({"PLAINTEXT": port}, self._announced)
        except PowerCut:
            self.power_cut()

    def _announced(self, error: StorageError | None) -> None:
        if error is not None:
            self.world.note(f"{self} is not registered: {error}")
            self.cluster.kill(self.node_id, power=False)

    def _make_scheduler(self, clock: Clock, disks: int, settle: Callable[[], None]) -> Scheduler:
        threads = self.slow_threads if self.cluster.has_slow_threads else at_once
        self.scheduler = FakeScheduler(clock, disks, settle, threads=threads)
        return self.scheduler

    def _connect(self, config: BrokerConfig, clock: Clock) -> ZooKeeperConnection:
        return ZooKeeperConnection(config, clock, self._open_session, Pump(clock, self._wait))

    def _open_session(
        self, connect: str, _timeout_ms: int, _: SessionScheduling, on_event: Callable[[SessionEvent], None]
    ) -> ModelSession:
        _hosts, slash, chroot = connect.partition("/")
        self.session = self.cluster.keeper.session_of(self, on_event, slash + chroot)
        return self.session

    def _wait(self, arrived: Arrived, seconds: float) -> Callable[[], None] | None:
        """The start waits, and the world goes on."""
        if arrived.empty():
            self.world.step(self.world.now_ms + max(seconds * 1_000, 1.0))
        return None if arrived.empty() else arrived.get()

    def power_cut(self) -> None:
        self.cluster.kill(self.node_id, power=self.cluster.has_power_cuts)

    @property
    def leads(self) -> list[Replica]:
        """The partitions that this broker leads, as it believes."""
        return list(self.parts.services.partitions) if self.is_serving else []


class Cluster:
    """Brokers 0, 1, ..., their network and their ZooKeeper."""

    def __init__(self, world: World, count: int, settings: Mapping[str, str]) -> None:
        self.world = world
        self.settings = settings
        self.network = Network(world)
        self.keeper = SimulatedZooKeeper(world, self.network)
        self.has_slow_threads = False
        self.has_power_cuts = settings.get("headgate.flush") == "commit"
        """Whether a kill takes what was not synced."""
        self.has_dropped = False
        """Whether a disk has lost records that were written, and not synced: others have them, until it is found."""
        self.has_jumped = False
        """Whether the clock of a broker has jumped."""
        self.files = {node_id: BrokerFiles.empty() for node_id in range(count)}
        self.brokers: dict[int, Broker] = {}
        self.kills = 0
        self._is_blocked = False
        """Whether a start or a stop waits inside of another event: one at a time."""

    @property
    def node_ids(self) -> list[int]:
        return list(self.files)

    def start(self, node_id: int) -> None:
        """Start a broker, unless it runs; again in a while, if it cannot start."""
        if node_id in self.brokers:
            return
        if self._is_blocked:
            self.world.after(100.0, partial(self.start, node_id))
            return
        self.world.note(f"broker {node_id} starts")
        self._is_blocked = True
        broker = self.brokers[node_id] = Broker(self, node_id, self.files[node_id])
        try:
            broker.start()
        except (StorageError, OSError) as error:
            self.world.note(f"broker {node_id} cannot start: {error}")
            self.kill(node_id, power=False)
            self.world.after(1_000.0, partial(self.start, node_id))
        finally:
            self._is_blocked = False

    def stop(self, node_id: int, again_ms: float) -> None:
        """SIGTERM; a start follows `again_ms` after the end."""
        broker = self.brokers[node_id]
        if not broker.is_stopping:
            broker.is_stopping = True
            self.world.note(f"broker {node_id} is stopped")
            resume = partial(self.world.after, 0.0, partial(self._end_work, broker, again_ms))
            broker.deliver(lambda: broker.parts.leave(lambda _: resume()))

    def _end_work(self, broker: Broker, again_ms: float) -> None:
        broker.deliver(broker.parts.stop)
        self.world.after(20.0, partial(self._close, broker, again_ms))

    def _close(self, broker: Broker, again_ms: float) -> None:
        if self.brokers.get(broker.node_id) is not broker:
            return
        if self._is_blocked or broker.is_paused:
            self.world.after(100.0, partial(self._close, broker, again_ms))
            return
        self._is_blocked, broker.is_serving = True, False
        self.network.listening.pop(FIRST_PORT + broker.node_id, None)
        self.network.host_died(broker)
        try:
            broker.parts.close()
        except PowerCut:
            broker.power_cut()
        finally:
            self._is_blocked = False
        self.kill(broker.node_id, power=False)
        self.world.after(again_ms, partial(self.start, broker.node_id))

    def kill(self, node_id: int, *, power: bool) -> None:
        """End a process at once; what it had not synced is lost with the power."""
        broker = self.brokers.pop(node_id, None)
        if broker is None:
            return
        self.kills += 1
        end = "has stopped" if broker.is_stopping and not broker.is_serving else "is killed"
        self.world.note(f"broker {node_id} {end}{' with the power' if power else ''}")
        self.network.listening.pop(FIRST_PORT + node_id, None)
        broker.die()
        self.files[node_id] = self.files[node_id].after_crash(self.world.random, power=power)
        self.network.host_died(broker)
        self.keeper.look()

    def pause(self, node_id: int) -> None:
        """SIGSTOP."""
        self.world.note(f"broker {node_id} is paused")
        self.brokers[node_id].pause()
        self.keeper.look()

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        broker = self.brokers.get(node_id)
        if broker is not None and broker.is_paused:
            self.world.note(f"broker {node_id} goes on")
            broker.resume()
            self.keeper.look()

    # What is there

    def state(self, index: int) -> LeaderAndIsr:
        """The stored state of a partition."""
        fields = self.keeper.fields(LeaderAndIsr.path(TOPIC, index))
        return LeaderAndIsr(fields["leader"], fields["leader_epoch"], tuple(fields["isr"]), fields["controller_epoch"])
