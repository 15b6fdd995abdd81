"""The collector of lag, made of the parts of a broker at the first need.

A broker without an HTTP listener has none. The modules are imported in a thread, a moment after the start: so they cost
the start nothing, and clients no wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.gateway.app.composition import BrokerParts
    from headgate.gateway.lag.lag_collector import LagCollector
    from headgate.gateway.lag.zookeeper_groups import ZooKeeperGroups

FIRST_MS: Final = 1_000.0
"""The time from the start to the first survey."""
MODULES: Final = (
    "headgate.gateway.lag.lag_collector",
    "headgate.gateway.lag.lag_metrics",
    "headgate.gateway.lag.lag_json",
)


class LagParts:
    """The collector of one broker."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._collector: LagCollector | None = None
        self._is_over = False

    def start(self) -> None:
        """Measure lag from now on. The scheduler runs."""
        self._parts.scheduler.call_after(FIRST_MS, self._import)

    def _import(self) -> None:
        if not self._is_over:
            self._parts.scheduler.in_thread(lambda: [import_module(name) for name in MODULES], self._imported)

    def _imported(self, _result: object) -> None:
        self.collector()

    def stop(self) -> None:
        """Begin no further survey."""
        self._is_over = True
        if self._collector is not None:
            self._collector.stop()

    def collector(self) -> LagCollector:
        """The collector, which surveys once an interval."""
        if self._collector is None:
            self._collector = self._make()
            if not self._is_over:
                self._collector.start()
        return self._collector

    def _make(self) -> LagCollector:
        from headgate.gateway.config.spark_checkpoints import parse_checkpoints
        from headgate.gateway.lag.lag_collector import LagCollector, LagSources
        from headgate.gateway.lag.spark_queries import SparkQueries

        parts, config = self._parts, self._parts.config
        directories = parse_checkpoints(config.headgate_spark_checkpoints)
        spark = SparkQueries(parts.log_manager.files, parts.scheduler, directories) if directories else None
        sources = LagSources(parts.groups, self._zookeeper_groups(), spark)
        collector = LagCollector(
            sources, parts.partitions, parts.other_brokers, parts.clock, config.headgate_lag_interval_ms
        )
        parts.metadata.on_change(collector.requests.follow)
        return collector

    def _zookeeper_groups(self) -> ZooKeeperGroups | None:
        services = self._parts.services
        view, stores = services.zookeeper_groups, services.offset_stores
        if view is None or stores is None:
            return None
        from headgate.gateway.lag.zookeeper_groups import ZooKeeperGroups

        return ZooKeeperGroups(view, stores.fetch_zero, self._parts.groups.coordinates)

    def json(self) -> Iterator[bytes]:
        """The body of `/v1/lag.json`."""
        from headgate.gateway.lag import lag_json

        return lag_json.slices(self.collector(), self._parts.config.node_id)
