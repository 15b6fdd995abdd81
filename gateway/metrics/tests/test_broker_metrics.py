"""The metrics of the broker as a whole: the load of its loop, and its part in the cluster."""

from __future__ import annotations

from pathlib import Path

from headgate.gateway.metrics.broker_metrics import LoopLoad, measure_broker
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


def test_the_idle_share_is_that_since_the_last_reading() -> None:
    time, cpu = ManualTime(), [0.0]
    load = LoopLoad(time.clock, lambda: cpu[0])
    for wait_ms, used_s, shown in ((2000, 0.5, 75), (100, 0.1, 75), (1900, 0.0, 95), (1000, 3.0, 0)):
        time.advance(wait_ms)
        cpu[0] += used_s
        assert load.idle_percent() == shown


def test_a_broker_alone_shows_the_cluster(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 3, 1)], timeout_ms=1000), 5)
    metrics = node.services.metrics
    found = metrics.snapshot()
    names = ("controller.active", "cluster.brokers", "cluster.topics", "cluster.partitions")
    assert [found[name] for name in names] == [1, 1, 1, 3]
    assert found["loop.cpu.seconds"] > 0
    labels, values = metrics.read("broker.address")
    assert labels == ("id", "address")
    ((_, address),) = [label_values for label_values, _ in values]
    assert address.startswith("127.0.0.1:")
    node.close()


def test_another_controller_shows_the_cluster_in_place_of_this_broker(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    services, metrics = node.services, Metrics()
    image = services.metadata.image._replace(controller_id=7)
    measure_broker(metrics, services, node.parts.server, lambda: image, LoopLoad(node.time.clock, float))
    found = metrics.snapshot()
    assert [found[name] for name in ("controller.active", "cluster.brokers", "cluster.topics")] == [0, 0, 0]
    assert list(metrics.read("broker.address")[1]) == []
    node.close()
