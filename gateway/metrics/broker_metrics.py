"""Metrics of the broker as a whole: its loop, threads, memory, connections, and its part in the cluster.

Nothing is counted between two readings. The loop's idle share is that since the reading before, so that two collectors
see different periods; `headgate_loop_cpu_seconds_total` has no such fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics

if TYPE_CHECKING:
    from headgate.gateway.api.context import Services
    from headgate.gateway.network.server import Server

LEAST_PERIOD_S: Final = 0.5
"""The idle share of a shorter period is not shown: the one before stays."""


class LoopLoad:
    """The share of time in which the loop's thread computes nothing."""

    def __init__(self, clock: Clock, cpu_s: Callable[[], float]) -> None:
        """`cpu_s`: the CPU time of the calling thread, which is the loop's."""
        self._clock = clock
        self.cpu_s = cpu_s
        self._since = self._now()
        self._idle_percent = 100.0

    def _now(self) -> tuple[float, float]:
        return self._clock.monotonic_ms() / 1000, self.cpu_s()

    def idle_percent(self) -> float:
        """The share since the last call, in percent."""
        (before_s, used_s), (now_s, cpu_s) = self._since, self._now()
        if now_s - before_s >= LEAST_PERIOD_S:
            self._idle_percent = min(100.0, max(0.0, 100 * (1 - (cpu_s - used_s) / (now_s - before_s))))
            self._since = now_s, cpu_s
        return self._idle_percent


def measure_broker(
    metrics: Metrics,
    services: Services,
    server: Server,
    image: Callable[[], Image],
    load: LoopLoad,
) -> None:
    """Register the metrics of the broker as a whole."""
    metrics.gauge("loop.cpu.seconds", load.cpu_s)
    metrics.gauge("loop.idle.percent", load.idle_percent)
    scheduler = services.scheduler
    metrics.gauge("worker.threads", lambda: scheduler.worker_threads)
    metrics.gauge("worker.running", lambda: scheduler.running_works)
    metrics.gauge("memory.request.bytes", lambda: server.memory.used_bytes)
    metrics.gauge("memory.parsed.bytes", lambda: services.parsed_memory.used_bytes)
    metrics.gauge("conversions.waiting.bytes", lambda: services.conversions.waiting_bytes)
    metrics.labelled("listener.connections", ("listener",), lambda: _by_listener(server))
    _measure_cluster(metrics, services.config, image)


def _measure_cluster(metrics: Metrics, config: BrokerConfig, image: Callable[[], Image]) -> None:
    """What the controller alone shows: the sum over all brokers is the cluster's."""

    def at_controller(count: Callable[[Image], int]) -> Callable[[], int]:
        return lambda: count(image()) if image().controller_id == config.node_id else 0

    metrics.gauge("controller.active", at_controller(lambda _: 1))
    metrics.gauge("cluster.brokers", at_controller(lambda known: len(known.brokers)))
    metrics.gauge("cluster.topics", at_controller(lambda known: len(known.topics)))
    metrics.gauge("cluster.partitions", at_controller(_partitions))
    metrics.labelled("broker.address", ("id", "address"), lambda: _addresses(image(), config))


def _partitions(image: Image) -> int:
    return sum(len(topic.partitions) for topic in image.topics.values())


def _addresses(image: Image, config: BrokerConfig) -> list[tuple[tuple[str, ...], int]]:
    """An address of each broker, at the controller: that of the first listener, as kafka_exporter shows one."""
    if image.controller_id != config.node_id:
        return []
    own = config.listeners[0]
    addresses = {node_id: next(iter(node.endpoints.values()), None) for node_id, node in image.brokers.items()}
    return [
        ((str(node_id), "{}:{}".format(*(address or (own.host, own.port)))), 1)
        for node_id, address in sorted(addresses.items())
    ]


def _by_listener(server: Server) -> Iterator[tuple[tuple[str, ...], int]]:
    counts = Counter(driver.connection.client.listener for driver in server.drivers)
    return iter([((listener,), count) for listener, count in sorted(counts.items())])
