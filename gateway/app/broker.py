"""The broker: builds every part, owns the nursery, starts and stops. The only file that knows all parts."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Callable, Sequence, Sized
from functools import partial
from random import Random

import trio

from headgate.gateway.api.context import Services
from headgate.gateway.api.conversion import Conversions
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.fetch_sessions import FetchSessions
from headgate.gateway.api.handlers import load
from headgate.gateway.app.ready_line import ready_line
from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.coordinator.loader import CoordinatorServices
from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.maintenance.broker_maintenance import BrokerMaintenance
from headgate.gateway.maintenance.log_cleaner import LogCleaner
from headgate.gateway.maintenance.log_loading import LogLoader
from headgate.gateway.metadata import snapshot
from headgate.gateway.metadata.embedded import EmbeddedMetadata, check_fresh
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.metadata.registration import refill, register
from headgate.gateway.metadata.snapshot_generator import SnapshotGenerator
from headgate.gateway.network.server import Limits, Server
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.leader_epoch_bumps import LeaderEpochBumps
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock, SystemClock
from headgate.gateway.runtime.descriptors import max_connections_for
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.purgatory import Purgatory
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.time_slices import TimeSlices
from headgate.storage.config import LogConfig
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk.reserve import Reserve
from headgate.storage.files import Files, parent

logger = logging.getLogger("headgate.broker")

# What is in flight at a stop has this long to be answered and sent.
SHUTDOWN_GRACE_S = 1.0
# The collector looks for garbage after so many new objects. A parked fetch is thirty of them: with Python's 700, those
# of 500 waiting consumers were walked again and again, for a seventh of what they cost.
YOUNG_OBJECTS = 20_000
# After so many new partitions the collector is told that they stay: to walk those of 10,000 topics took 170 ms.
FREEZE_PARTITIONS = 100


def serve(config: BrokerConfig, started: Callable[[], None] = lambda: None) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises what keeps it from starting, before `started` is called."""
    trio.run(_serve, config, started)


async def _serve(config: BrokerConfig, started: Callable[[], None]) -> None:
    gc.disable()  # most of what a start makes stays: to look for garbage in it again and again takes a tenth of it
    broker = Broker(config)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            started()
            print(ready_line(config, broker.endpoints), flush=True)  # noqa: T201  all that stdout is for
            gc.collect()
            gc.freeze()  # what was made until now stays: the collector need not walk it again
            broker.openings.when_done(gc.freeze)
            broker.services.metadata.on_change(freezing(broker.services.partitions))
            gc.set_threshold(YOUNG_OBJECTS)
            gc.enable()
            async for number in signals:
                logger.info("stopping: %s", signal.Signals(number).name)
                await broker.stop()
                break


def freezing(partitions: Sized) -> Callable[..., None]:
    """What has the garbage collector pass over partitions that were made, whenever there are many new ones.

    No partition needs the collector: a deleted one leaves the memory with its last reference.
    """
    frozen = len(partitions)

    def freeze(*_: object) -> None:
        nonlocal frozen
        count = len(partitions)
        if count >= frozen + FREEZE_PARTITIONS:
            gc.freeze()
        elif count > frozen:
            return
        frozen = count

    return freeze


class Broker:
    """One node with an embedded store."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        random: Random | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.random = random or Random()
        self.endpoints: list[str] = []
        self.metrics_port: int | None = None
        self._store = self._take_stores(files)
        try:
            metrics = Metrics()
            loaded = self._read_metadata()
            threads = config.num_recovery_threads_per_data_dir
            self.openings = LogLoader(self._store, partial(_log_config, config, loaded), self.clock, metrics, threads)
            self.openings.open_few()
            self.services = self._build(loaded, metrics)
        except BaseException:
            self._give_up()
            raise
        dispatcher = Dispatcher(self.services, load())
        open_files = self._store.files.open_limit()
        self.server = Server(dispatcher, _limits(config, open_files), self.clock, self.services.scheduler)
        its = self.services
        self._cleaning = LogCleaner(its.partitions, config, self.clock, its.scheduler, its.metrics)
        its.partitions.events.disk_recovered.append(self._cleaning.disk_recovered)
        its.metrics.gauge("requests.parked", lambda: len(its.purgatory))
        its.metrics.gauge("connections", lambda: len(self.server.drivers))
        its.metrics.gauge("partitions", lambda: len(its.partitions))
        for listener in (  # in this order: coordinators use the partitions
            its.partitions.follow,
            its.groups.follow,
            lambda *_: self.server.limit(_limits(config, open_files)),
            self._snapshots.follow,
        ):
            its.metadata.on_change(listener)

    def _give_up(self) -> None:
        """Let go of the directories, each as the last stop left it.

        Logs that were not left in order must not seem so now: no start has raised their leader epochs since.
        """
        if all(store.was_clean for store in self._store):
            self._store.close()
        else:
            self._store.abandon()

    def _take_stores(self, files: Files | None) -> LogManager:
        files = files or Files()
        kafka_directory.refuse(files, self.config.log_directories)
        return LogManager.take(
            self.config.log_directories,
            files=files,
            node_id=self.config.node_id,
            config=self.config.log_config({}),
            random=self.random,
        )

    def _read_metadata(self) -> snapshot.LoadedMetadata:
        """Open and read the metadata log, which everything else waits for."""
        log = self._store.open_now((METADATA_TOPIC, 0), self.config.log_config({}), self.clock.now_ms())
        if log is None:
            check_fresh(self._store)  # before anything is done to logs that are not ours
            return snapshot.LoadedMetadata.nothing()
        loaded = snapshot.load(log)
        self.config.change(*loaded.image.broker_configs(self.config.node_id))
        self._store.removed |= loaded.removed
        self._store.remove_strays(loaded.image.has_partition)
        self._store.resolve_duplicates(loaded.image.topic_id_of)
        return loaded

    def _build(self, loaded: snapshot.LoadedMetadata, metrics: Metrics) -> Services:
        scheduler = Scheduler(self.clock, len(self.config.log_directories))
        purgatory = Purgatory(self.clock, scheduler)
        make_disk = partial(DiskMonitor, self.clock, scheduler)
        partitions = ReplicaManager(self._store, self.config, purgatory, make_disk, scheduler)
        metadata = EmbeddedMetadata(
            self._store,
            self.config,
            self.clock,
            self.random,
            loaded.image,
            scheduler,
            partitions.prepare,
            purgatory.touch,
        )
        self._reserve = Reserve(self._store.files, parent(metadata.directory))
        are_raised = register(metadata, self.config, self.random, self._reserve, was_clean=self._store.was_clean)
        partitions.start(metadata.image, epochs_are_raised=are_raised)
        bumps = LeaderEpochBumps(metadata, partitions, scheduler)
        self.openings.serve(metadata.log_config, partitions.opened)
        self._snapshots = SnapshotGenerator(self._store, metadata, loaded.snapshot, self.clock, scheduler)
        appends = WriteBatcher()
        scheduler.settle = appends.commit
        slices = TimeSlices(self.clock, scheduler)
        shared = CoordinatorServices(self.clock, scheduler, purgatory, appends, slices)
        groups = GroupCoordinator(self.config, self.random, shared, metadata, partitions)
        events = partitions.events
        events.epoch_needed.append(bumps.soon)
        events.online.append(groups.came_online)
        events.truncated.append(groups.log_was_truncated)
        return Services(
            config=self.config,
            clock=self.clock,
            random=self.random,
            scheduler=scheduler,
            purgatory=purgatory,
            metadata=metadata,
            partitions=partitions,
            fetch_sessions=FetchSessions(
                self.config.max_incremental_fetch_session_cache_slots,
                self.random,
                touch=purgatory.touch,
                run_in_slices=TimeSlices(self.clock, scheduler).add,
            ),
            producer_ids=ProducerIds(metadata),
            groups=groups,
            slices=slices,
            conversions=Conversions(scheduler),
            appends=appends,
            metrics=metrics,
        )

    def _upkeep(self) -> BrokerMaintenance:
        services = self.services
        partitions = services.partitions
        space_is_back = partial(refill, self._reserve, services.scheduler)
        upkeep = BrokerMaintenance(self._store, partitions, self.config, self.clock, services.scheduler, space_is_back)
        upkeep.measure(services.metrics)
        partitions.events.disk_failed.append(upkeep.note_disk_error)
        return upkeep

    async def run(
        self,
        listeners: Sequence[tuple[str, trio.abc.Listener[trio.abc.Stream]]] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve on `listeners`, else on those of the configuration, until `stop` or cancelled; then close the store."""
        try:
            if listeners is None:
                listeners = await self._listen()
            async with trio.open_nursery() as nursery:
                await nursery.start(self.services.scheduler.run)
                self._upkeep().start()
                self._cleaning.start()
                self.services.groups.start()
                self.openings.start(self.services.scheduler)
                self._snapshots.start()
                await nursery.start(self.server.serve, listeners)
                await self._serve_metrics(nursery)
                task_status.started()
                await self.server.stopped.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._cleaning.stop()
            self._store.close(self.services.partitions.high_watermarks)

    async def _serve_metrics(self, nursery: trio.Nursery) -> None:
        """Serve metrics, if that is configured. Raises OSError if nothing can listen there."""
        if self.config.headgate_metrics_listener is None:
            return
        from headgate.gateway.network.metrics_listener import MetricsListener, open_listeners
        from headgate.gateway.runtime.exposition import CONTENT_TYPE_LATEST, exposition

        listeners = await open_listeners(*self.config.headgate_metrics_listener)
        host, port = listeners[0].socket.getsockname()[:2]
        logger.info("metrics are served at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port)
        self.metrics_port = port
        served = MetricsListener(partial(exposition, self.services.metrics), CONTENT_TYPE_LATEST)
        nursery.start_soon(served.serve, listeners)

    async def stop(self) -> None:
        """Answer what is in flight, then end `run`."""
        self.services.purgatory.expire_all()
        self.services.groups.stop()
        self._cleaning.stop()
        self._snapshots.stop()
        await self.server.stop(SHUTDOWN_GRACE_S)

    async def _listen(self) -> list[tuple[str, trio.SocketListener]]:
        opened: list[tuple[str, trio.SocketListener]] = []
        for listener in self.config.listeners:
            host, backlog = listener.host or None, self.config.socket_listen_backlog_size
            for socket_listener in await trio.open_tcp_listeners(listener.port, host=host, backlog=backlog):
                opened.append((listener.name, socket_listener))
                host, port = socket_listener.socket.getsockname()[:2]
                self.endpoints.append(f"{listener.name}://{f'[{host}]' if ':' in host else host}:{port}")
        return opened


def _log_config(config: BrokerConfig, loaded: snapshot.LoadedMetadata, topic: str) -> LogConfig:
    return config.log_config(loaded.image.topic_configs(topic))


def _limits(config: BrokerConfig, open_files: int) -> Limits:
    return Limits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_memory_bytes=config.queued_max_request_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=config.connections_max_idle_ms,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        max_descriptors=max_connections_for(open_files),
    )
