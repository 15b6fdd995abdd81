"""A broker with two log directories loses one under load: others lead what is there, and nothing acknowledged is lost.

The directory is moved away, as by an unmounted disk, and comes back later; the broker lives on for the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from compat_tests.cluster.cluster import FULL_LIMIT_S, HEADGATE, Cluster
from compat_tests.cluster.traffic import Traffic
from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.harness.waiting import until
from compat_tests.storage.test_log_directories import STORAGE_ERROR, described

# A broker notices at the next write to a file by its name; a checkpoint is the first one
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "500"}


class BrokerWithTwoDirectories(HeadgateBroker):
    """A broker with the log directories `a` and `b`."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, {**settings, "log.dirs": f"{directory}/a,{directory}/b"})

    def partition_directory(self, topic: str, partition: int) -> Path:
        (found,) = self.directory.glob(f"[ab]/{topic}-{partition}")
        return found


def new_broker(directory: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> Broker:
    return BrokerWithTwoDirectories(
        directory, {"zookeeper.connect": connect, "broker.id": str(broker_id), **settings, **SETTINGS}
    )


def test_nothing_acknowledged_is_lost_to_a_failed_directory(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Of a broker that leads and is no controller; groups go on."""
    with Cluster(tmp_path, HEADGATE, new_broker=new_broker) as cluster:
        controller, other, target, _ = cluster.roles()
        with Traffic(cluster, [(target, other, controller), (target, controller, other)] * 2) as traffic:
            broker, topic = cluster.brokers[target], traffic.topic
            lost = {key for key in described(broker.bootstrap)["b"][1] if key[0] == topic}
            kept = {(topic, index) for index in range(4)} - lost
            assert lost
            assert kept

            def leads(keys: set[tuple[str, int]]) -> set[bool]:
                states = cluster.stored_states(topic)
                return {target in {states[index]["leader"], *states[index]["isr"]} for _, index in keys}

            (broker.directory / "b").rename(broker.directory / "elsewhere")
            lost_s = until(lambda: leads(lost) == {False}, f"other leaders of {sorted(lost)}")
            traffic.flow()
            assert leads(kept) == {True}
            codes = {name: code for name, (code, _) in described(broker.bootstrap).items()}
            assert codes == {"a": 0, "b": STORAGE_ERROR}
            (broker.directory / "elsewhere").rename(broker.directory / "b")
            full_s = cluster.wait_for_full_sets()
            traffic.flow()
            assert broker.is_running()
        count = traffic.check()
    assert full_s < FULL_LIMIT_S
    figure(f"a directory fails: others lead after {lost_s:.2f} s, sets full after {full_s:.2f} s; {count} records")
