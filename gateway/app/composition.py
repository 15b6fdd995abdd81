"""The parts of a broker, and their wiring. The only file that knows all parts.

A broker and the tests build the parts here. A test gives other seams, and never wires a part by itself. `BrokerParts`
needs no loop: `start` is called once the scheduler runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.api.authorization import Authorizer, denied_brokers_log
from headgate.gateway.api.context import Services
from headgate.gateway.api.conversion import Conversions
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.fetch_sessions import FetchSessions
from headgate.gateway.api.handler_registration import Registration, load, served, versions
from headgate.gateway.api.handlers.api_versions import advertised
from headgate.gateway.app.authorization import make_authorizer, open_audit
from headgate.gateway.app.link_login import link_login
from headgate.gateway.app.metadata_sources import Foundation, MetadataSource, choose_source
from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.http.http_addresses import HTTP
from headgate.gateway.config.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.transactions.marker_writer import RetryingMarkerWriter
from headgate.gateway.coordinator.transactions.markers import PartitionMarkers
from headgate.gateway.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from headgate.gateway.lag.broker_lag import BrokerLag
from headgate.gateway.maintenance.broker_maintenance import BrokerMaintenance
from headgate.gateway.maintenance.log_cleaner import LogCleaner
from headgate.gateway.maintenance.log_loading import LogLoader
from headgate.gateway.maintenance.token_expiry import TokenExpiry
from headgate.gateway.maintenance.unread_offsets import UnreadOffsets
from headgate.gateway.metadata.image import Image
from headgate.gateway.metrics.broker_metrics import LoopLoad, measure_broker
from headgate.gateway.metrics.partition_metrics import PartitionMetrics
from headgate.gateway.metrics.partition_survey import PartitionSurveys
from headgate.gateway.metrics.process_metrics import ProcessMetrics
from headgate.gateway.metrics.replication_metrics import measure_replication
from headgate.gateway.network.admission.address_limits import AddressLimits
from headgate.gateway.network.admission.connection_quotas import Limits
from headgate.gateway.network.admission.settings import limits_of, proxies_of
from headgate.gateway.network.link_stream import OpenStream
from headgate.gateway.network.links import Link, Links, Transport
from headgate.gateway.network.server import Server
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.events import ReplicationEvents
from headgate.gateway.replication.fetching.replica_fetchers import ReplicaFetchers
from headgate.gateway.replication.in_sync_replicas import IsrChanges
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.request_log.request_log import RequestLog
from headgate.gateway.runtime.clock import Clock, SystemClock, thread_cpu_s
from headgate.gateway.runtime.descriptors import max_connections_for
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Lock, Task, Tasks
from headgate.gateway.security.acls.observing import ObservingAuthorizer
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.gateway.security.quotas.rates import Windows
from headgate.storage.config import LogConfig
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import Files

if TYPE_CHECKING:  # a start needs no compaction, and no ZooKeeper unless it is configured
    from headgate.gateway.census.census import Census
    from headgate.gateway.http.access import HttpAccess
    from headgate.gateway.maintenance.cleaner_process import Worker
    from headgate.gateway.network.link_logins import MakeLogin
    from headgate.gateway.network.logins import Logins
    from headgate.gateway.security.sasl.scram_credentials import ScramCredentials
    from headgate.gateway.security.tls.listener_tls import ListenerTls
    from headgate.gateway.security.tls.reloads import TlsReloads
    from headgate.gateway.security.tokens.token_secrets import TokenSecrets
    from headgate.gateway.zookeeper.group_view import GroupView
    from headgate.gateway.zookeeper.membership.broker_listeners import BrokerListeners
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
    from headgate.gateway.zookeeper.offsets.offset_stores import OffsetStores


def connect(config: BrokerConfig, clock: Clock) -> ZooKeeperConnection | None:
    """The connection to ZooKeeper with `zookeeper.connect`, otherwise None. Raises StorageError, ConfigError."""
    if config.zookeeper_connect is None:
        return None
    from headgate.gateway.zookeeper.client import ZooKeeperClient
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
    from headgate.gateway.zookeeper.security import zookeeper_security

    security = zookeeper_security.of_config(config)
    return ZooKeeperConnection(config, clock, partial(ZooKeeperClient, security=security))


def open_tls(config: BrokerConfig, clock: Clock) -> dict[str, ListenerTls]:
    """The TLS of the listeners over TLS, by name. A broker without such listeners imports none of it."""
    protocols = config.listener_security_protocol_map
    if not config.secures_http and TLS_PROTOCOLS.isdisjoint(protocols[each.name] for each in config.listeners):
        return {}
    from headgate.gateway.security.tls.listener_tls import open_all

    return open_all(config, clock)


def open_few(_log_manager: LogManager, log_loader: LogLoader, _now_ms: int) -> None:
    """Open a small store at once. Threads open the rest once the broker runs."""
    log_loader.open_few()


@dataclass(frozen=True, slots=True)
class Seams:
    """The world of a broker. The defaults are those of production; a test gives others."""

    clock: Clock = field(default_factory=SystemClock)
    files: Files = field(default_factory=Files)
    random: Random = field(default_factory=Random)
    make_scheduler: Callable[[Clock, int, Callable[[], None]], Scheduler] = Scheduler
    """(clock, number of log directories, `settle`) -> the scheduler."""
    check_directories: Callable[[Files, Sequence[str]], None] = kafka_directory.refuse
    """Refuses log directories of another program, before anything in them is touched."""
    connect: Callable[[BrokerConfig, Clock], ZooKeeperConnection | None] = connect
    metadata: Callable[[Foundation], MetadataSource] = choose_source
    open_logs: Callable[[LogManager, LogLoader, int], None] = open_few
    """(log manager, loader, now in ms): opens logs before the broker runs."""
    make_worker: Callable[[Scheduler, Pool], Worker] | None = None
    """(scheduler, pool) -> what computes compactions; None chooses for the platform, with the first compaction."""
    authorizer: Authorizer | None = None
    """Decides what clients may do, in place of the authorizer of the settings."""
    open_stream: OpenStream | None = None
    """(host, port) -> a connection to another broker; None: TCP."""


class BrokerParts:
    """All parts of one broker, built in the order in which they need each other."""

    def __init__(self, config: BrokerConfig, seams: Seams, last_check: Callable[[], None] = lambda: None) -> None:
        """Take the log directories, read the metadata, open logs.

        Raises StorageError, OSError, and ConfigError for the certificates of a listener: nothing is kept.

        `last_check` is called before anything is written, and raises OSError to refuse the start.
        """
        self.config, self.clock, self.random = config, seams.clock, seams.random
        self.tls = open_tls(config, seams.clock)
        self._check_logins()
        make_login = link_login(config)
        self.metrics = Metrics()
        self.batcher = WriteBatcher()
        self.scheduler = seams.make_scheduler(seams.clock, len(config.log_directories), self.batcher.write_all)
        self.audit = open_audit(config, seams.files, seams.clock, self.scheduler, self.metrics)
        self.zookeeper = seams.connect(config, seams.clock)
        try:
            self._check_directories(seams)
            self.log_manager = LogManager.take(
                config.log_directories,
                files=seams.files,
                node_id=config.node_id,
                config=config.log_config({}),
                random=seams.random,
                cluster_id=None if self.zookeeper is None else self.zookeeper.cluster_id,
            )
            try:
                self._build(seams, last_check, make_login)
            except BaseException:
                self._give_up()
                raise
        except BaseException:
            if self.zookeeper is not None:
                self.zookeeper.close()
            raise

    @property
    def _has_logins(self) -> bool:
        protocols = self.config.listener_security_protocol_map
        return any(protocols[listener.name] in SASL_PROTOCOLS for listener in self.config.listeners)

    def _check_logins(self) -> None:
        """Check the settings of logins before anything is opened. Raises ConfigError."""
        if self._has_logins:
            from headgate.gateway.security.sasl.mechanisms import check_listeners

            check_listeners(self.config)
        if self.config.secures_http:
            from headgate.gateway.http.access import configured_users

            configured_users(self.config)

    def _make_logins(self) -> Logins | None:
        """The logins of the listeners that have them; a broker without imports none of it. Raises ConfigError."""
        if not self._has_logins:
            return None
        from headgate.gateway.network.logins import Logins
        from headgate.gateway.security.sasl import gssapi_context, key_documents
        from headgate.gateway.security.sasl.listeners import SaslListeners, new_nonce
        from headgate.gateway.security.sasl.mechanisms import SaslParts

        config = self.config
        parts = SaslParts(
            credentials=self._scram_credentials(),
            new_nonce=new_nonce,
            clock=self.clock,
            fetch_keys=key_documents.fetcher,
            acceptor=gssapi_context.acceptor,
            default_realm=gssapi_context.default_realm,
            find_token=None if self.services.token_secrets is None else self.services.token_secrets.begin_login,
        )
        listeners = SaslListeners(config, parts)
        self.metadata.on_change(lambda *_: listeners.refresh())
        return Logins(self.services, listeners, lambda: config.headgate_authentication_timeout_ms)

    def _scram_credentials(self) -> ScramCredentials:
        from headgate.gateway.security.sasl.scram_credentials import ScramCredentials

        metadata = self.metadata
        # The salt of an unknown user is the same on all brokers, and after a restart
        decoy_key = f"decoys of {metadata.image.cluster_id}".encode()
        return ScramCredentials(lambda: metadata.image.scram_credentials, decoy_key)

    def http_access(self) -> HttpAccess:
        """Who may ask over HTTP with TLS; there is such a listener. Raises ConfigError."""
        from headgate.gateway.http.access import make_access

        return make_access(self.config, self.tls[HTTP], self._scram_credentials(), self._authorizer)

    def _check_directories(self, seams: Seams) -> None:
        if self.zookeeper is None:
            seams.check_directories(seams.files, self.config.log_directories)
        else:
            self.zookeeper.check_directories(seams.files, self.config.log_directories)

    def _give_up(self) -> None:
        """Let go of the directories, each as the last stop left it.

        Logs that were not left in order must not seem so now: no start has raised their leader epochs since.
        """
        if all(directory.was_clean for directory in self.log_manager):
            self.log_manager.close()
        else:
            self.log_manager.abandon()

    def _build(self, seams: Seams, last_check: Callable[[], None], make_login: MakeLogin | None) -> None:
        config, clock, scheduler, metrics = self.config, self.clock, self.scheduler, self.metrics
        self.source = seams.metadata(
            Foundation(config, clock, self.random, scheduler, self.log_manager, self.zookeeper)
        )
        last_check()
        self.source.begin()
        self.log_loader = LogLoader(
            self.log_manager,
            partial(_log_config, config, self.source.image),
            clock,
            scheduler,
            metrics,
            config.num_recovery_threads_per_data_dir,
        )
        seams.open_logs(self.log_manager, self.log_loader, clock.now_ms())
        self.tasks = Tasks(clock, scheduler)
        self.stall_watch = StallWatch(self.tasks)
        self.links = Links(clock, scheduler, self._make_transport, make_login)
        make_disk = partial(DiskMonitor, clock, scheduler)
        events = ReplicationEvents()
        self.fetchers = ReplicaFetchers(
            config.node_id, config, self.tasks, self.links, lambda: self.source.broker_epoch
        )
        self.partitions = ReplicaManager(
            self.log_manager, config, self.tasks, make_disk, scheduler, events, self.fetchers
        )
        if self.zookeeper is not None:
            self.partitions.leadership.in_sync_replicas.changes = self._make_isr_manager(self.zookeeper)
        self.metadata, are_raised = self.source.open(self.partitions.prepare, self.tasks, self.links)
        self.partitions.leadership.in_sync_replicas.leader_lookup = self.source.leader_lookup(self.tasks, self.links)
        self.partitions.start(self.metadata.image, epochs_are_raised=are_raised)
        events.replicas_failed.append(self.source.replicas_failed(self.metadata, self.partitions, self.tasks))
        self.log_loader.serve(self.metadata.log_config, self.partitions.opened)
        registrations = served(load(), has_zookeeper=self.zookeeper is not None)
        self.services = self._make_services(registrations)
        self.groups = self.services.groups
        self.transactions = self.services.transactions
        self.maintenance = BrokerMaintenance(
            self.log_manager, self.partitions, self.unread_offsets.first, config, clock, scheduler
        )
        self.log_cleaner = LogCleaner(self.partitions, config, clock, scheduler, metrics, seams.make_worker)
        self.quotas = QuotaManager(*_quota_windows(config))
        authorizer = make_authorizer(config, lambda: self.metadata.image.acls, seams.authorizer, self.audit)
        self._authorizer = authorizer
        self.services.authorizer = authorizer
        self.request_log = RequestLog(config, clock, scheduler)
        self.dispatcher = Dispatcher(self.services, registrations, authorizer, self.quotas, self.request_log)
        self._apply_quotas(self.metadata.image)
        self._open_files = self.log_manager.files.open_limit()
        self._address_limits = AddressLimits(scheduler)
        self.server = Server(
            self.dispatcher,
            self._limits(),
            clock,
            scheduler,
            seams.open_stream,
            self.tls,
            self._make_logins(),
            proxies_of(config),
            _quota_windows(config)[0],
            None if self.zookeeper is None else self.tls.get(config.inter_broker_listener),
        )
        self.lag = BrokerLag(self.services, self.other_brokers, self.log_manager.files)
        self.census = self._make_census()
        self._listen()
        self._measure()

    def _make_census(self) -> Census | None:
        if not self.config.headgate_census:
            return None
        from headgate.gateway.census.census import make_census

        census = make_census(
            self.services, self.other_brokers, self.dispatcher.request_counts, lambda: self.server.drivers
        )
        census.measure(self.metrics)
        self.server.on_end = census.fold
        return census

    def _make_tls_reloads(self) -> TlsReloads | None:
        if not self.tls:
            return None
        from headgate.gateway.security.tls.reloads import TlsReloads

        return TlsReloads(self.tls, self.config, self.scheduler)

    def _make_transport(self, link: Link) -> Transport:
        return self.server.make_transport(link)  # links are made before the server, and connect later

    def _make_services(self, registrations: Mapping[int, Registration]) -> Services:
        config, clock, scheduler, tasks = self.config, self.clock, self.scheduler, self.tasks
        shared = CoordinatorServices(clock, scheduler, tasks, self.batcher, Lock(scheduler))
        producer_ids = ProducerIds(self.metadata)
        groups = GroupCoordinator(config, self.random, shared, self.metadata, self.partitions)
        offset_stores = self._make_offset_stores(groups, shared)
        other_store = None if offset_stores is None else offset_stores.before_markers
        markers = PartitionMarkers(shared, self.partitions, groups, other_store)
        others = OtherBrokers(
            config.node_id, config.inter_broker_listener, self.metadata, tasks, self.links, config.request_timeout_ms
        )
        self.other_brokers = others
        self.marker_writer = RetryingMarkerWriter(markers, shared, others)
        self.unread_offsets = UnreadOffsets(groups, others)
        return Services(
            config=config,
            clock=clock,
            random=self.random,
            scheduler=scheduler,
            tasks=tasks,
            stall_watch=self.stall_watch,
            metadata=self.metadata,
            partitions=self.partitions,
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                self.random,
                touch=tasks.touch,
                run_in_slices=tasks.start_later,
            ),
            producer_ids=producer_ids,
            groups=groups,
            transactions=TransactionCoordinator(
                config, shared, self.metadata, self.partitions, producer_ids, self.marker_writer, others
            ),
            markers=markers,
            parsed_memory=MemoryBudget(config.queued_max_request_bytes),
            conversions=Conversions(scheduler),
            batcher=self.batcher,
            metrics=self.metrics,
            served_versions=advertised(versions(registrations)),
            denied_brokers=denied_brokers_log(clock),
            controller_orders=self.source.controller_orders(self.partitions, tasks),
            broker_listeners=self._broker_listeners(),
            offset_stores=offset_stores,
            zookeeper_groups=self._group_view(),
            audit=self.audit,
            tls_reloads=self._make_tls_reloads(),
            token_secrets=self._make_token_secrets(),
        )

    def _limits(self) -> Limits:
        return limits_of(self.config, max_connections_for(self._open_files), self._address_limits)

    def _make_token_secrets(self) -> TokenSecrets | None:
        """The secrets of delegation tokens; a broker without a secret key imports none of it."""
        secret_key = self.config.delegation_token_secret_key or self.config.delegation_token_master_key
        if secret_key is None or not secret_key.text:
            return None
        from headgate.gateway.security.tokens.token_secrets import TokenSecrets

        return TokenSecrets(secret_key.text, lambda: self.metadata.image.tokens, self.clock.now_ms)

    def _make_isr_manager(self, zookeeper: ZooKeeperConnection) -> IsrChanges:
        from headgate.gateway.zookeeper.metadata.isr_manager import ZooKeeperIsrManager

        manager = ZooKeeperIsrManager(zookeeper.session, self.config.node_id, self.scheduler)
        zookeeper.shared.listeners.append(manager.follow_session)
        zookeeper.shared.when_whole.append(manager.resume)
        return manager

    def _broker_listeners(self) -> BrokerListeners | None:
        if self.zookeeper is None:
            return None
        from headgate.gateway.zookeeper.membership.broker_listeners import BrokerListeners

        return BrokerListeners(self.zookeeper.session, self.tasks)

    def _group_view(self) -> GroupView | None:
        """The view of the groups in ZooKeeper; None without ZooKeeper, or if groups there are not shown."""
        max_groups = self.config.headgate_zookeeper_groups_max
        if self.zookeeper is None or not max_groups:
            return None
        from headgate.gateway.zookeeper.group_view import GroupView

        return GroupView(self.zookeeper.session, self.clock, max_groups)

    def _make_offset_stores(self, groups: GroupCoordinator, shared: CoordinatorServices) -> OffsetStores | None:
        if self.zookeeper is None:
            return None
        from headgate.gateway.zookeeper.offsets.offset_stores import OffsetStores, read_marks

        session = self.zookeeper.shared.session
        # Before the loop: no group has to wait for a ZooKeeper that goes away after the start
        self._marks = self.zookeeper.complete(partial(read_marks, session), "which groups are dual")
        return OffsetStores(session, groups, shared, self.config, self.metadata)

    def _listen(self) -> None:
        """Subscribe every listener of an event, in the order of the calls."""
        events = self.partitions.events
        events.disk_failed.append(self.maintenance.note_disk_error)
        events.disk_recovered.append(self.log_cleaner.disk_recovered)
        events.space_recovered.append(self.source.space_recovered)
        events.online.append(self.groups.came_online)
        events.online.append(self.transactions.came_online)
        events.truncated.append(self.groups.log_was_truncated)
        events.truncated.append(self.transactions.log_was_truncated)
        offset_stores = self.services.offset_stores
        if offset_stores is not None and self.zookeeper is not None:
            self.zookeeper.shared.listeners.append(offset_stores.follow_session)
            self.zookeeper.shared.when_whole.append(offset_stores.resume)
        for listener in (  # in this order: coordinators use the partitions
            self.partitions.follow,
            self.marker_writer.requests.follow,
            self.transactions.requests.follow,
            self.unread_offsets.requests.follow,
            self.groups.follow,
            self.transactions.follow,
            *(() if offset_stores is None else (offset_stores.follow,)),
            lambda _old, new, _names: self._apply_quotas(new),
            lambda *_: self.server.limit(self._limits()),
            lambda *_: self._follow_request_log(),
            *(() if self.services.tls_reloads is None else (self.services.tls_reloads.follow,)),
            *(() if self.census is None else (self.census.follow,)),
            self.source.follow,
        ):
            self.metadata.on_change(listener)

    def _apply_quotas(self, image: Image) -> None:
        if image.quotas is not self.quotas.quotas:
            self.quotas.change(image.quotas)
            self.dispatcher.follow_quotas()

    def _follow_request_log(self) -> None:
        if self.request_log.follow():
            self.dispatcher.follow_request_log()
            self.server.follow_request_log()

    def reload_tls(self, resume: Callable[[], None] | None = None) -> None:
        """Read the stores of all listeners over TLS again; then call `resume`."""
        if self.services.tls_reloads is not None:
            self.services.tls_reloads.reload_all(resume)
        elif resume is not None:
            resume()

    def _measure(self) -> None:
        if self.services.tls_reloads is not None:
            self.services.tls_reloads.measure(self.metrics)
        self.maintenance.measure(self.metrics)
        self.metrics.labelled("transactions.aborted", ("reason",), self.transactions.count_aborts)
        if isinstance(self.services.authorizer, ObservingAuthorizer):
            refusals = self.services.authorizer.count_refusals
            self.metrics.labelled("authorizer.observed", ("operation", "resource"), refusals)
        self.metrics.gauge("transactions.ending", lambda: self.transactions.ending_count)
        self.metrics.gauge("requests.parked", lambda: len(self.tasks))
        self.metrics.labelled("quota.throttled", ("quota",), self.quotas.count_throttled)
        self.metrics.labelled("quota.throttle.seconds", ("quota",), self.quotas.count_throttle_seconds)
        self.metrics.gauge("quota.clients", lambda: self.quotas.bucket_count)
        self.metrics.gauge("unclean.elections", lambda: self.metadata.unclean_elections)
        self.metrics.gauge("connections", lambda: len(self.server.drivers))
        node_id, detail = self.config.node_id, self.config.headgate_metrics_detail
        surveys = PartitionSurveys(self.partitions, self.fetchers, node_id, self._present_image, detail)
        surveys.register(self.metrics)
        measure_replication(self.metrics, self.partitions, surveys)
        PartitionMetrics(surveys, self.services.failures).register(self.metrics, self.partitions)
        load = LoopLoad(self.clock, thread_cpu_s)
        measure_broker(self.metrics, self.services, self.server, self._present_image, load)
        ProcessMetrics(self.log_manager.files).register(self.metrics)

    def _present_image(self) -> Image:
        return self.metadata.image

    def start(self) -> None:
        """Begin all recurring work. The scheduler runs."""
        self.partitions.go_on_in_threads()
        self.maintenance.start()
        self.log_cleaner.start()
        self.groups.start()
        self.transactions.start()
        if self.services.offset_stores is not None:
            self.services.offset_stores.start(self._marks)
        self.log_loader.start()
        self.source.start(self.stall_watch)
        if self.services.token_secrets is not None:
            TokenExpiry(self.metadata, self.config, self.clock, self.scheduler).start()
        if self.services.tls_reloads is not None:
            self.services.tls_reloads.start()
        if self.census is not None:
            self.census.start()

    def announce(self, ports: Mapping[str, int], resume: Callable[[StorageError | None], None]) -> None:
        """The listeners are open, each at this port; `resume`: see `MetadataSource.announce`."""
        self.source.announce(ports, resume)

    def leave(self, resume: Callable[[object], None]) -> None:
        """Give the leads of this broker to others; `resume` is called afterwards. Everything is served meanwhile."""
        self.tasks.start(self._leave(), resume)

    def _leave(self) -> Task[None]:
        if self.census is not None:
            yield from self.census.flush()
        yield from self.source.leave(self.partitions, self.tasks, self.links)

    def stop(self) -> None:
        """Answer the parked requests, and begin no more work."""
        self.stall_watch.end()
        self.lag.stop()
        self.tasks.expire_all()
        if self.services.offset_stores is not None:
            self.services.offset_stores.stop()
        self.groups.stop()
        self.transactions.stop()
        self.log_cleaner.stop()
        self.source.stop()
        self.fetchers.close()
        self.links.close()

    def close(self) -> None:
        """Let go of the log directories, after the end of the scheduler."""
        self.log_cleaner.stop()
        if self.audit is not None:
            self.audit.close()
        if self.zookeeper is not None:
            self.zookeeper.begin_to_close()
        self.log_manager.close(self.partitions.high_watermarks)
        if self.zookeeper is not None:
            self.zookeeper.close()


def _log_config(config: BrokerConfig, image: Image, topic: str) -> LogConfig:
    return config.log_config(image.topic_configs(topic))


def _quota_windows(config: BrokerConfig) -> tuple[Windows, Windows]:
    """The windows of rates, and those of mutations."""
    return (
        Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000),
        Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1_000),
    )
