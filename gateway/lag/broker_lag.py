"""The lag of a broker's groups: the collector and its sources, made of the parts of a broker at the first need.

A broker without an HTTP listener has none. The modules are imported in a thread, a moment after the start: so they cost
the start nothing, and clients no wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.gateway.api.context import Services
    from headgate.gateway.coordinator.broker_requests import OtherBrokers
    from headgate.gateway.lag.lag_collector import LagCollector
    from headgate.gateway.lag.zookeeper_groups import ZooKeeperGroups
    from headgate.storage.files import Files

FIRST_MS: Final = 1_000.0
"""The time from the start to the first survey."""
MODULES: Final = (
    "headgate.gateway.lag.lag_collector",
    "headgate.gateway.lag.lag_metrics",
    "headgate.gateway.lag.lag_json",
)


class BrokerLag:
    """The collector of one broker."""

    def __init__(self, services: Services, brokers: OtherBrokers, files: Files) -> None:
        self._services = services
        self._brokers = brokers
        self._files = files
        self._collector: LagCollector | None = None
        self._is_over = False

    def start(self) -> None:
        """Measure lag from now on. The scheduler runs."""
        self._services.scheduler.call_after(FIRST_MS, self._import)

    def _import(self) -> None:
        if not self._is_over:
            self._services.scheduler.in_thread(lambda: [import_module(name) for name in MODULES], self._imported)

    def _imported(self, _result: object) -> None:
        if not self._is_over:
            self.collector()

    def stop(self) -> None:
        """Begin no further survey."""
        self._is_over = True
        if self._collector is not None:
            self._collector.stop()

    @property
    def is_measured(self) -> bool:
        """Whether there is a collector."""
        return self._collector is not None

    def collector(self) -> LagCollector:
        """The collector, which surveys once an interval."""
        if self._collector is None:
            self._collector = self._make()
            if not self._is_over:
                self._collector.start()
        return self._collector

    def _make(self) -> LagCollector:
        from headgate.gateway.config.http.spark_checkpoints import parse_checkpoints
        from headgate.gateway.lag import lag_metrics
        from headgate.gateway.lag.lag_collector import LagCollector, LagSources
        from headgate.gateway.lag.spark_queries import SparkQueries

        services, config = self._services, self._services.config
        directories = parse_checkpoints(config.headgate_spark_checkpoints)
        spark = SparkQueries(self._files, services.scheduler, directories) if directories else None
        sources = LagSources(services.groups, self._zookeeper_groups(), spark)
        collector = LagCollector(
            sources, services.partitions, self._brokers, services.clock, config.headgate_lag_interval_ms
        )
        services.metadata.on_change(collector.requests.follow)
        lag_metrics.register(services.metrics, collector, config.headgate_metrics_detail)
        return collector

    def _zookeeper_groups(self) -> ZooKeeperGroups | None:
        view, stores = self._services.zookeeper_groups, self._services.offset_stores
        if view is None or stores is None:
            return None
        from headgate.gateway.lag.zookeeper_groups import ZooKeeperGroups

        return ZooKeeperGroups(view, stores.fetch_zero, self._services.groups.coordinates)

    def json(self) -> Iterator[bytes]:
        """The body of `/v1/lag.json`."""
        from headgate.gateway.lag import lag_json

        return lag_json.slices(self.collector(), self._services.config.node_id)
