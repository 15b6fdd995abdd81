"""Apache Kafka 4.1 or 3.9, or an older one on ZooKeeper, in the place of the broker under test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka, KafkaOnZooKeeper
from compat_tests.harness.broker import Broker


class KafkaBroker(Broker):
    """The verbs of `Broker` over `ApacheKafka`."""

    # What costs Kafka seconds on every start and says nothing about these tests: above all its controller, which gives
    # a killed broker its id back only when the session is over
    SETTINGS: ClassVar[Mapping[str, str]] = {
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "200",
    }

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, jar_set: str = "broker") -> None:
        self.kafka = self.new_kafka(directory, {**self.SETTINGS, **(settings or {})}, jar_set)
        super().__init__(directory, self.kafka.logs, self.kafka.output)

    def new_kafka(self, directory: Path, settings: Mapping[str, str], jar_set: str) -> ApacheKafka:
        toolchain.jars(jar_set)
        return ApacheKafka(settings, jar_set=jar_set, directory=directory)

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def pid(self) -> int:
        return self.kafka.pid

    def start(self) -> float:
        self.kafka.start()
        return self.kafka.ready_s

    def stop(self) -> None:
        self.kafka.stop()

    def kill(self) -> None:
        self.kafka.kill()

    def restart(self) -> float:
        """By SIGKILL.

        A clean stop takes it ten seconds. Either way it remembers the last batch of a producer only (test_retries.py):
        a client with more in flight may write twice, and test_across_restarts can fail on it for this reason.
        """
        self.kill()
        return self.start()

    def is_running(self) -> bool:
        return self.kafka.process is not None


class KafkaZooKeeperBroker(KafkaBroker):
    """Kafka 0.8.2, 2.8 or 3.9 with a ZooKeeper."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "group.initial.rebalance.delay.ms": "0",
        "delete.topic.enable": "true",
        "controlled.shutdown.enable": "false",
    }

    def __init__(
        self, directory: Path, connect: str, settings: Mapping[str, str], jar_set: str, broker_id: int = 0
    ) -> None:
        self.connect = connect
        self.broker_id = broker_id
        super().__init__(directory, settings, jar_set)

    def new_kafka(self, directory: Path, settings: Mapping[str, str], jar_set: str) -> ApacheKafka:
        toolchain.jars(jar_set)
        directory.mkdir(parents=True, exist_ok=True)
        more: dict[str, Any] = {"jar_set": jar_set, "directory": directory, "heap": "256m", "options": QUICK_START}
        return KafkaOnZooKeeper(self.connect, self.broker_id, settings, **more)
